//! Runs two hundred sandboxes at once on one thread, with tokio: `cargo run --example two_hundred --features tokio`.

use std::time::Instant;

use kennel::{Sandbox, Stdio};
use tokio::io::AsyncWriteExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sandbox = Sandbox::builder().build()?;
    let began = Instant::now();
    let mut children = Vec::new();
    for number in 0..200 {
        let mut command = sandbox.command("sh");
        command.args(["-c", &format!("read word; echo {number} $word")]);
        children.push(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn_async().await?);
    }
    println!("{} sandboxes run at once after {:?}", children.len(), began.elapsed());
    let mut answers = Vec::new();
    for mut child in children {
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(b"hello\n").await?;
        }
        answers.push(child.wait_with_output().await?.stdout);
    }
    println!("the last one said {:?}; all ended after {:?}", answers.pop(), began.elapsed());
    Ok(())
}
