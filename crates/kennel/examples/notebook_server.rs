//! A notebook server: each notebook has a session, with an interpreter that lives as long as it, and commands beside that.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::time::Duration;

use kennel::{Child, Sandbox, SandboxError, Session, Stdio};

/// Runs one cell after the other, and says when each is done. A real one is `python3 -m ipykernel`.
const KERNEL: &str = r#"while read -r cell; do eval "$cell" 2>&1; echo "done $?"; done"#;

struct Notebook {
    session: Session,
    kernel: Child,
    cells: PipeWriter,
    answers: BufReader<PipeReader>,
}

impl Notebook {
    fn open(sandbox: &Sandbox) -> Result<Notebook, SandboxError> {
        let session = sandbox.session_builder().idle(Duration::from_secs(3600)).start()?;
        let mut kernel = session.command("sh");
        let mut kernel = kernel.args(["-c", KERNEL]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (cells, answers) = kernel.take_stdin().zip(kernel.take_stdout()).expect("both are pipes");
        Ok(Notebook { session, kernel, cells, answers: BufReader::new(answers) })
    }

    fn run(&mut self, cell: &str) -> std::io::Result<String> {
        writeln!(self.cells, "{cell}")?;
        let (mut shown, mut line) = (String::new(), String::new());
        while self.answers.read_line(&mut line)? > 0 && !line.starts_with("done ") {
            shown.push_str(&std::mem::take(&mut line));
        }
        Ok(shown)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::builder().build()?;
    let mut notebooks = [Notebook::open(&sandbox)?, Notebook::open(&sandbox)?];
    for (number, notebook) in notebooks.iter_mut().enumerate() {
        notebook.run(&format!("x={number}; echo $x > /tmp/x"))?;
    }
    for (number, notebook) in notebooks.iter_mut().enumerate() {
        // Variables live in the interpreter, files in the session; no notebook sees another's.
        assert_eq!(notebook.run("echo $x; cat /tmp/x")?, format!("{number}\n{number}\n"));
        // A terminal or an upload is a further command in the same session.
        assert_eq!(notebook.session.run("cat", &["/tmp/x"])?.stdout, format!("{number}\n"));
    }
    for mut notebook in notebooks {
        // The interpreter ends with its input, and everything else with the session.
        drop(notebook.cells);
        assert!(notebook.kernel.wait()?.success());
        notebook.session.end()?;
    }
    Ok(())
}
