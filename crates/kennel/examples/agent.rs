//! An agent loop: one sandbox for the whole session, and network rules that change between the agent's turns.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use kennel::{Sandbox, Stdio};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A stand-in for a web site, so that this runs anywhere.
    let site = TcpListener::bind("127.0.0.1:0")?;
    let address = site.local_addr()?.to_string();
    std::thread::spawn(move || {
        for client in site.incoming() {
            let mut client = client?;
            let _ = client.read(&mut [0; 4096])?;
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n")?;
        }
        std::io::Result::Ok(())
    });

    let project = std::env::temp_dir().join(format!("kennel-agent-{}", std::process::id()));
    std::fs::create_dir_all(&project)?;
    let sandbox = Sandbox::builder().allow_write(&project).allow_domain("docs.example.com").build()?;
    let mut session = sandbox.command("sh");
    session.current_dir(&project).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = session.spawn()?;
    let network = session.network().ok_or("the sandbox has an allow list")?;
    let mut shell = session.stdin.take().ok_or("standard input is a pipe")?;
    let mut lines = BufReader::new(session.stdout.take().ok_or("standard output is a pipe")?).lines();

    // What a model would ask for, turn by turn.
    let fetch = format!("curl -sS --noproxy '' --max-time 10 http://{address}/ 2>&1 | tail -n 1");
    let turns = [("echo notes > notes.txt", false), (&fetch, false), (&fetch, true), (&fetch, false)];
    for (command, allowed) in turns {
        let allow = if allowed { vec!["docs.example.com", &address] } else { vec!["docs.example.com"] };
        network.update(&allow, &[])?;
        writeln!(shell, "{command}; echo \"exit code $?\"")?;
        println!("> {command}{}", if allowed { "   (the user has allowed the site)" } else { "" });
        for line in &mut lines {
            let line = line?;
            println!("  {line}");
            if line.starts_with("exit code") {
                break;
            }
        }
    }
    drop(shell);
    let result = session.wait()?;
    for decision in &result.network {
        let verdict = if decision.allowed { "allowed" } else { "blocked" };
        println!("{verdict} {}x: {} {}", decision.count, decision.host, decision.reason);
    }
    std::fs::remove_dir_all(&project)?;
    Ok(())
}
