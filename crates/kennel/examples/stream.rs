//! Talks to a command while it runs, and ends it.

use std::io::{BufRead, BufReader, Write};

use kennel::Sandbox;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::builder().build()?;
    let mut child = sandbox.spawn("sh", &["-c", "while read line; do echo \"you said: $line\"; done"])?;
    let mut input = child.take_stdin().ok_or("no input")?;
    let mut output = BufReader::new(child.take_stdout().ok_or("no output")?);
    for word in ["one", "two"] {
        writeln!(input, "{word}")?;
        let mut answer = String::new();
        output.read_line(&mut answer)?;
        print!("{answer}");
    }
    child.kill();
    println!("ended by signal {:?}", child.wait()?.signal);
    Ok(())
}
