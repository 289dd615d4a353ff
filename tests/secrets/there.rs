//! The other side of the cable: a name server that leads every name to the upstream, and the upstream, `upstream.mjs`.
//!
//! The real keys are made here, new for each run, so that whatever holds one was written during the run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use kennel_tests::program;
use kennel_tests::world::{self, DNS, LOG, THERE, ip};

/// A server whose certificate nobody has signed.
pub const UNTRUSTED: u16 = 8443;
/// A server that wants a certificate of its client.
pub const MUTUAL: u16 = 8444;
/// The upstream's listeners, in the order of its descriptors.
const PORTS: [u16; 5] = [443, 80, UNTRUSTED, MUTUAL, LOG];
/// The first of them.
const FIRST: i32 = 103;

/// The names that the upstream has a certificate for.
pub const NAMES: &str = "DNS:api.anthropic.com,DNS:api.openai.com,DNS:generativelanguage.googleapis.com,DNS:ollama.com,\
                         DNS:github.com,DNS:api.github.com,DNS:web.test,DNS:*.web.test,IP:203.0.113.10";

/// The upstream's certificate, by the authority that is there already, and one by nobody.
const CERTIFICATES: &str = "exec 2> upstream-openssl.log
    key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'
    openssl req -new $key -subj /CN=upstream -keyout upstream.key -out upstream.csr &&
    printf 'subjectAltName=%s\\nextendedKeyUsage=serverAuth\\nauthorityKeyIdentifier=keyid\\n' \"$NAMES\" > upstream.ext &&
    openssl x509 -req -in upstream.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile upstream.ext -out upstream.pem &&
    openssl req -x509 $key -subj /CN=nobody -addext \"subjectAltName=$NAMES\" -keyout nobody.key -out nobody.pem";

/// Starts them.
pub fn serve(folder: &Path, _ipv6: bool) -> io::Result<()> {
    world::plug_in(&[(THERE, 24), (DNS, 32)])?;
    // None has an IPv6 address.
    world::names::serve(|_, _| Some(vec![ip(THERE)]))?;
    if program("node").is_none() || program("openssl").is_none() {
        return Ok(());
    }
    let mut openssl = Command::new("sh");
    openssl.args(["-c", CERTIFICATES]).env("NAMES", NAMES).current_dir(folder).stdin(Stdio::null());
    if !openssl.status()?.success() {
        return Err(io::Error::other("the upstream's certificates: see upstream-openssl.log"));
    }
    upstream(folder)
}

fn upstream(folder: &Path) -> io::Result<()> {
    let listeners: io::Result<Vec<TcpListener>> =
        PORTS.iter().map(|port| TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], *port)))).collect();
    let listeners = listeners?;
    let keys = keys()?;
    let text = serde_json::to_string(&keys).map_err(io::Error::other)?;
    // Until the other side has read it, which is before any sandbox starts.
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join("keys.json"))?
        .write_all(text.as_bytes())?;
    let script = folder.join("upstream.mjs");
    std::fs::write(&script, include_str!("upstream.mjs"))?;
    std::fs::create_dir_all(folder.join("git"))?;
    let errors = File::create(folder.join("upstream.log"))?;
    let mut node = Command::new("node");
    node.arg(&script)
        .arg(folder)
        .env("KEYS", text)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let raw: Vec<i32> = listeners.iter().map(AsRawFd::as_raw_fd).collect();
    // SAFETY: only dup2, to numbers that the new program is told.
    unsafe {
        node.pre_exec(move || {
            for (fd, number) in raw.iter().zip(FIRST..) {
                if libc::dup2(*fd, number) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let mut child = node.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut line)?;
    if line.trim() != "ready" {
        let said = std::fs::read_to_string(folder.join("upstream.log")).unwrap_or_default();
        return Err(io::Error::other(format!("the upstream: {said}")));
    }
    Ok(())
}

/// Keys in the shapes of their makers.
fn keys() -> io::Result<BTreeMap<&'static str, String>> {
    let mut source = File::open("/dev/urandom")?;
    let mut random = |length: usize| -> io::Result<String> {
        const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut bytes = vec![0; length];
        source.read_exact(&mut bytes)?;
        Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(*byte) % 62])).collect())
    };
    Ok(BTreeMap::from([
        ("anthropic", format!("sk-ant-api03-{}AA", random(93)?)),
        ("openai", format!("sk-proj-{}", random(120)?)),
        ("gemini", format!("AIzaSy{}", random(33)?)),
        ("github", format!("ghp_{}", random(36)?)),
        ("other", format!("glpat-{}", random(20)?)),
        // Shorter than its stand-in.
        ("short", format!("pw-{}", random(11)?)),
    ]))
}
