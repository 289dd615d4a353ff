//! What the network gate costs: downloads and small requests by each of its doors, beside the same without a sandbox;
//! the controller's memory; and what an allow list adds to the start of a sandbox.
//!
//! The server is this program, on the host's loopback, which sandboxes reach as host.kennel.internal. The client is
//! always curl, and the time is curl's own, so that the start of the sandbox is not in it.

#[path = "network/secrets.rs"]
mod secrets;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Sample, Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

const LARGE: usize = 512 << 20;
const HOST: &str = "host.kennel.internal";

/// How curl is led to each door.
const DOORS: &[(&str, &str)] = &[
    ("CONNECT", "-p -x \"$HTTP_PROXY\""),
    ("SOCKS5", "-x \"$FTP_PROXY\""),
    ("HTTP forward", "-x \"$HTTP_PROXY\""),
    ("transparent", "--noproxy '*'"),
];

/// What can be asked for by name, one behind the other.
const PARTS: &[&str] =
    &["downloads", "requests", "budget", "memory", "startup", "terminated", "gateway", "authority"];

fn main() -> std::process::ExitCode {
    kennel_bench::run(network)
}

fn network() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [secrets::CLIENT, base, key, times] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return secrets::client(base, key, times.parse()?);
    }
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if let Some(unknown) = named.iter().find(|name| !PARTS.contains(&name.as_str())) {
        return Err(format!("no part called {unknown}; there are {}", PARTS.join(", ")).into());
    }
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    if programs::installed("curl").is_none() {
        println!("Skipped: curl is not installed.");
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let folder = Folder::new("network")?;
    let settings = srt_settings(&folder)?;
    if wanted("downloads") {
        downloads(port, &settings)?;
    }
    if wanted("requests") {
        requests(port, &settings)?;
    }
    if wanted("budget") {
        budget(port)?;
    }
    if wanted("memory") {
        memory(port)?;
    }
    if wanted("startup") {
        startup()?;
    }
    if wanted("terminated") {
        secrets::terminated()?;
    }
    if wanted("gateway") {
        secrets::gateway()?;
    }
    if wanted("authority") {
        secrets::authority()?;
    }
    Ok(())
}

/// Sends as many bytes as the path says, one request for each connection.
fn serve(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let size: usize = line.split(['/', ' ']).nth(2)?.parse().ok()?;
    while line != "\r\n" {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
    }
    // The head and what fits of the body in one go, as servers do.
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
    let block = vec![b'x'; 256 << 10];
    let first = size.min(block.len());
    stream.write_all(&[head.as_bytes(), &block[..first]].concat()).ok()?;
    let mut left = size - first;
    while left > 0 {
        let part = left.min(block.len());
        stream.write_all(&block[..part]).ok()?;
        left -= part;
    }
    Some(())
}

/// A shell script in a sandbox that may reach the server, and nothing else.
fn inside(port: u16, script: &str) -> Result<Command, Failure> {
    let mut command = programs::kennel(&["--allow-domain".to_owned(), format!("{HOST}:{port}")])?;
    command.args(["sh", "-c", script]);
    Ok(command)
}

fn outside(script: &str) -> Command {
    programs::quiet("/bin/sh".as_ref(), &["-c", script])
}

/// The middle of the seconds that curl prints, one for each transfer.
fn seconds(command: &mut Command) -> Result<Vec<Duration>, Failure> {
    let output = command.stdout(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut times = Vec::new();
    for word in text.split_whitespace() {
        times.push(Duration::from_secs_f64(word.parse()?));
    }
    if !output.status.success() || times.is_empty() {
        return Err(format!("curl: {}: {text}", output.status).into());
    }
    times.sort_unstable();
    Ok(times)
}

/// A way whose sample is the middle of curl's own times.
fn by_curl<'a>(name: &str, mut command: Command) -> Way<'a> {
    Way::new(name, move || {
        let times = seconds(&mut command)?;
        Ok(Sample { time: times[times.len() / 2], peak_memory: None })
    })
}

/// All doors, with the same done without a sandbox first, and srt where it is installed.
fn ways<'a>(port: u16, settings: &Path, url: &str, count: &str) -> Result<Vec<Way<'a>>, Failure> {
    let curl = |host: &str, flags: &str| {
        // The glob is curl's: so many transfers in one process, each on a connection of its own.
        format!("curl -s -o /dev/null -w '%{{time_total}}\\n' {flags} 'http://{host}:{port}/{url}{count}'")
    };
    let mut all = vec![by_curl("direct", outside(&curl("127.0.0.1", "--noproxy '*'")))];
    for (name, flags) in DOORS {
        all.push(by_curl(name, inside(port, &curl(HOST, flags))?));
    }
    for (name, flags) in &DOORS[..3] {
        let Some(mut command) = programs::srt() else { break };
        let script = curl("127.0.0.1", &format!("--noproxy '' {flags}"));
        command.args(["--settings".as_ref(), settings.as_os_str(), "-c".as_ref(), script.as_ref()]);
        command.stderr(Stdio::null());
        all.push(Way::new(&format!("srt, {name}"), move || {
            // Now and then its proxy cuts a large download short (curl: 18). That says nothing about how long one takes.
            let whole = (0..5).find_map(|_| seconds(&mut command).ok());
            let times = whole.ok_or("five downloads in a row were cut short")?;
            Ok(Sample { time: times[times.len() / 2], peak_memory: None })
        }));
    }
    Ok(all)
}

/// Settings for srt that let it reach this host's loopback.
fn srt_settings(folder: &Folder) -> Result<PathBuf, Failure> {
    let path = folder.path().join("srt.json");
    let settings = r#"{"network":{"allowedDomains":["127.0.0.1","localhost"],"deniedDomains":[]},
                       "filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}"#;
    std::fs::write(&path, settings)?;
    Ok(path)
}

fn downloads(port: u16, settings: &Path) -> Result<(), Failure> {
    let rounds = if quick() { 1 } else { 9 };
    let mut ways = ways(port, settings, &LARGE.to_string(), "")?;
    take_turns(&mut ways, rounds)?;
    println!("A download of 512 MiB over one connection, {rounds} rounds.\n");
    println!("{}", table::of(&ways, &[0]));
    for (way, share) in ways[1..].iter().zip([0.70, 0.70, 0.55, 0.70]) {
        let ratio = table::ratio(way, &ways[0]);
        print!("{}", table::goal(&format!("{} × direct", way.name), ratio, round(1.0 / share)));
    }
    for place in 0..ways.len().saturating_sub(5) {
        let ratio = table::ratio(&ways[1 + place], &ways[5 + place]);
        print!(
            "{}",
            table::goal(&format!("{} × {}", ways[1 + place].name, ways[5 + place].name), ratio, 0.25)
        );
    }
    println!();
    Ok(())
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn requests(port: u16, settings: &Path) -> Result<(), Failure> {
    let rounds = if quick() { 2 } else { 20 };
    // 64 bytes, and a number that the server does not read.
    let mut ways = ways(port, settings, "64/", "[1-50]")?;
    take_turns(&mut ways, rounds)?;
    println!("A small GET on a new connection, 50 in each of {rounds} rounds.\n");
    println!("{}", table::of(&ways, &[0]));
    for way in &ways[1..5] {
        print!("{}", table::goal(&format!("{} × direct", way.name), table::ratio(way, &ways[0]), 2.0));
    }
    println!();
    Ok(())
}

/// The same by each door without a budget and with one that counts for the total and for the host.
fn budget(port: u16) -> Result<(), Failure> {
    let allowed = ["--allow-domain".to_owned(), format!("{HOST}:{port}")];
    let limits = ["--egress", "1T", "--ingress", "1T", "--egress", &format!("{HOST}=1T")].map(str::to_owned);
    let with = [&allowed[..], &limits[..]].concat();
    let large = (LARGE.to_string(), "", if quick() { 1 } else { 9 }, "A download of 512 MiB");
    let small = ("64/".to_owned(), "[1-50]", if quick() { 2 } else { 20 }, "A small GET, 50 in each round");
    for (url, count, rounds, what) in [large, small] {
        let mut ways = Vec::new();
        for (name, door) in DOORS {
            for (flags, beside) in [(&allowed[..], ""), (&with[..], ", with a budget")] {
                let mut command = programs::kennel(flags)?;
                let script = format!(
                    "curl -s -o /dev/null -w '%{{time_total}}\\n' {door} 'http://{HOST}:{port}/{url}{count}'"
                );
                command.args(["sh", "-c", &script]);
                ways.push(by_curl(&format!("{name}{beside}"), command));
            }
        }
        take_turns(&mut ways, rounds)?;
        println!("{what}, without a budget and with one, {rounds} rounds.\n");
        println!("{}", table::of(&ways, &[0]));
        for pair in ways.chunks(2) {
            let ratio = table::ratio(&pair[1], &pair[0]);
            print!("{}", table::goal(&format!("{} × without", pair[1].name), ratio, 1.05));
        }
        println!();
    }
    Ok(())
}

/// The resident memory of a process, in MB: now, and the most it ever was.
fn resident(pid: u32) -> Option<(f64, f64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0 / 1e6)
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

/// 64 downloads at once, by one sandbox: what they cost the controller, and how alike they end.
fn memory(port: u16) -> Result<(), Failure> {
    let size = if quick() { 4 << 20 } else { 32 << 20 };
    println!("The controller with an open gate, and with 64 downloads at once.\n");
    println!("| | idle | peak under load | slowest ÷ fastest download |\n|---|---|---|---|");
    let (mut idle, mut peak) = (0f64, 0f64);
    for (name, flags) in DOORS {
        let script = format!(
            "curl -s -o /dev/null {flags} http://{HOST}:{port}/64; echo; read go
             curl -s -Z --parallel-max 64 --parallel-immediate {flags} -w '%{{time_total}}\\n' \
                 -o /dev/null --no-progress-meter 'http://{HOST}:{port}/{size}/[1-64]'"
        );
        let mut child = inside(port, &script)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("a pipe")?).lines();
        lines.next().ok_or("the sandbox ended early")??;
        let before = resident(child.id()).ok_or("/proc")?.0;
        writeln!(child.stdin.take().ok_or("a pipe")?, "go")?;
        let mut times = Vec::new();
        let mut most = before;
        for line in lines {
            times.push(line?.trim().parse::<f64>()?);
            most = resident(child.id()).map_or(most, |(_, peak)| most.max(peak));
        }
        child.wait()?;
        let slowest = times.iter().copied().fold(0.0, f64::max);
        let fastest = times.iter().copied().fold(f64::MAX, f64::min);
        println!("| {name} | {before:.1} MB | {most:.1} MB | {:.2} |", slowest / fastest);
        (idle, peak) = (idle.max(before), peak.max(most));
    }
    println!();
    print!("{}", table::goal("idle, in MB", idle, 8.0));
    print!("{}", table::goal("under load, in MB", peak, 24.0));
    println!();
    Ok(())
}

fn startup() -> Result<(), Failure> {
    const TRUE: &str = "/bin/true";
    let mut ways = Vec::new();
    for (name, flags) in [
        ("kennel", &[][..]),
        ("kennel, an allow list", &["--allow-domain", "example.com", "--allow-domain", "*.example.com"]),
    ] {
        let mut command = programs::kennel(flags)?;
        command.arg(TRUE);
        ways.push(Way::command(name, command));
    }
    let Some(bwrap) = programs::bwrap(&[TRUE]) else {
        println!("bwrap is not installed, so the start of a sandbox is not compared.");
        return Ok(());
    };
    ways.push(Way::command("bwrap", bwrap));
    let rounds = if quick() { 20 } else { 500 };
    take_turns(&mut ways, rounds)?;
    println!("`{TRUE}`, {rounds} rounds.\n");
    println!("{}", table::of(&ways, &[0, 2]));
    print!("{}", table::goal("kennel with an allow list × bwrap", table::ratio(&ways[1], &ways[2]), 0.7));
    Ok(())
}
