//! Protected dotfiles, for programs that start a command somewhere else than in what it can write.

use kennel::{Sandbox, SandboxBuilder};
use kennel_tests::Scratch;

/// Tries to write dotfiles of the project: one that is there, one that is not, and one further down.
const SCRIPT: &str = "cd \"$1\"; for name in .bashrc .mcp.json sub/.zshrc; do (echo evil >> $name) 2>/dev/null; done; \
                      echo fine > file; cat .bashrc .mcp.json sub/.zshrc 2>/dev/null";

fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("project/.bashrc", "own\n");
    scratch.write("project/sub/.zshrc", "own\n");
    scratch
}

fn written(
    scratch: &Scratch,
    start: impl FnOnce(SandboxBuilder) -> (Sandbox, Option<&'static str>),
) -> String {
    let project = scratch.join("project");
    let (sandbox, folder) = start(Sandbox::builder());
    let mut command = sandbox.command("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(&project);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let result = command.output().expect("it runs");
    assert_eq!(std::fs::read_to_string(project.join("file")).expect("the project can be written"), "fine\n");
    result.stdout
}

#[test]
#[kennel_claim::claim("handed-back/obeyed-names-stay")]
fn dotfiles_are_protected_in_what_can_be_written_wherever_the_command_starts() {
    let without = project();
    let open =
        written(&without, |builder| (builder.allow_write(without.join("project")).build().unwrap(), None));
    assert_eq!(open, "own\nevil\nevil\nown\nevil\n", "without the protection they are written");
    for folder in [None, Some("/usr"), Some("/")] {
        let scratch = project();
        let at = scratch.join("project");
        let agent =
            written(&scratch, |builder| (builder.working_dir(&at).profile("agent").build().unwrap(), folder));
        assert_eq!(agent, "own\nown\n", "profile agent, started in {folder:?}");
        let scratch = project();
        let at = scratch.join("project");
        let said = |builder: SandboxBuilder| {
            (builder.protect_dotfiles(true).allow_write(&at).build().unwrap(), folder)
        };
        assert_eq!(written(&scratch, said), "own\nown\n", "started in {folder:?}");
    }
}
