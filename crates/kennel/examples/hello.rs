//! Runs a command that may write one folder, and shows what it could and could not do.

use kennel::Sandbox;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("kennel-hello-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let sandbox = Sandbox::builder().allow_write(&folder).working_dir(&folder).build()?;
    let result = sandbox.run("sh", &["-c", "echo inside > note; echo outside > /etc/note"])?;
    print!("exit code {}\n{}", result.exit_code, result.stderr);
    println!("note: {}", std::fs::read_to_string(folder.join("note"))?.trim());
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
