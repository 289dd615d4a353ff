//! The servers behind the gate. Nobody asks them but through the gate, so all that they tell of the other host is a finding.

use std::path::Path;
use std::time::Duration;

use crate::attack_gate::recorder::Recorder;
use crate::attack_gate::sandbox::Sandbox;
use crate::attack_gate::servers::Servers;
use crate::attack_gate::show_the_other_host;
use crate::attack_gate::tries::Try;

/// How far above the places' ports they listen; before them, where the gate believes them to be, is their recorder.
const ABOVE: u16 = 30_000;

/// The servers behind the gate, and all that was said to them.
pub struct Judged {
    /// All of them.
    pub servers: Servers,
    recorder: Recorder,
}

impl Judged {
    /// Starts them.
    pub fn start(folder: &Path) -> Result<Judged, String> {
        let servers = Servers::start(folder, ABOVE)?;
        let recorder = Recorder::start(&servers.places, 0, ABOVE).map_err(|error| error.to_string())?;
        Ok(Judged { servers, recorder })
    }

    /// How much there is so far that tells of the other host.
    fn count(&self) -> usize {
        self.recorder.led().len() + self.servers.evidence().len()
    }

    /// Whether a try leads to the other host.
    pub fn reached_by(&self, sandbox: &mut Sandbox, attempt: &Try) -> Result<bool, String> {
        let before = self.count();
        let (canary, _) = sandbox.send(attempt)?;
        std::thread::sleep(Duration::from_millis(20));
        self.recorder.rests(Duration::from_secs(5));
        Ok(canary || self.count() > before)
    }

    /// All that tells of the other host: what it is about, and how to say so. An error if something might have been missed.
    pub fn told(&mut self) -> Result<Vec<(String, String)>, String> {
        if !self.recorder.rests(Duration::from_secs(30)) {
            return Err("connections to the servers do not end".into());
        }
        let (spoke, undelivered) = self.recorder.delivered();
        println!("attack_gate: the gate had something for a server {spoke} times, {undelivered} not taken");
        if undelivered * 100 > spoke {
            return Err("the servers could not keep up".into());
        }
        let mut told = Vec::new();
        for sent in self.recorder.led() {
            let name = self.servers.places.iter().find(|place| place.port == sent.port);
            let name = name.map_or("", |place| place.name);
            let about = String::from_utf8_lossy(&sent.bytes).into_owned();
            let shown = sent.bytes[..sent.bytes.len().min(400)].escape_ascii();
            told.push((about, format!("{name} on {} answered as the other host to {shown}", sent.port)));
        }
        // What a server still has to say comes before what it says of this. And one that has nothing to say of this might
        // have said nothing of the tries.
        let gone = self.servers.gone();
        if !gone.is_empty() {
            return Err(format!("servers have ended: {}", gone.join(", ")));
        }
        show_the_other_host(&self.servers, ABOVE, "end")?;
        let lines = self.servers.evidence().into_iter().filter(|line| !line.contains("end.other.test"));
        told.extend(lines.map(|line| (line.clone(), line)));
        Ok(told)
    }

    /// Prints what the gate sent to servers with the name in these words.
    pub fn show_what_was_sent(&self, words: &str) {
        let words = words.to_ascii_lowercase();
        let is_name = |word: &&str| word.contains("other.test");
        let name = words.split(|c: char| c.is_whitespace() || c == '"' || c.is_control()).find(is_name);
        let Some(name) = name else { return };
        for sent in self.recorder.sent(name).iter().take(5) {
            let shown = sent.bytes[..sent.bytes.len().min(400)].escape_ascii();
            println!("attack_gate:   sent to {}: {shown}", sent.port);
        }
    }
}
