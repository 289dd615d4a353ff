//! What was decided, how often, and the summary that the user reads at the end.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use kennel_policy::domain::{Host, Protocol};
use kennel_policy::printed::Ascii;
use kennel_policy::registries;

use crate::address::AddressClass;
use crate::client::Program;
use crate::rules::DenyReason;

/// The most different decisions that are kept, of each kind: what was let through is not crowded out by what was refused. A
/// program that tries a million names fills this table once; what comes after is only counted.
pub const MAX_RECORDS: usize = 512;
/// The most hosts that the summary names.
const MAX_LINES: usize = 20;

/// The way by which a connection came to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// An absolute-form request to the HTTP proxy.
    Http,
    /// `CONNECT` to the HTTP proxy.
    Connect,
    /// SOCKS5.
    Socks,
    /// A plain connection.
    Transparent,
    /// A look-up.
    Dns,
    /// A request to the model gateway.
    Gateway,
    /// A connection from this side to a published port.
    Published,
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Door::Http => "http",
            Door::Connect => "connect",
            Door::Socks => "socks",
            Door::Transparent => "direct",
            Door::Dns => "dns",
            Door::Gateway => "gateway",
            Door::Published => "published",
        })
    }
}

/// What was decided about a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It was let through.
    Allowed,
    /// It was refused.
    Denied(DenyReason),
}

/// One decision and how often it was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The host as it was asked for: canonical where it is one, as it came where it is none.
    pub host: String,
    /// The port; `None` for a look-up.
    pub port: Option<u16>,
    /// How it came.
    pub door: Door,
    /// What was decided.
    pub verdict: Verdict,
    /// The rule that decided, in its own grammar.
    pub rule: Option<String>,
    /// How often.
    pub count: u64,
    /// The program that was the first to be refused, where that is known.
    pub program: Option<Program>,
}

/// The bounded table of decisions.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    records: Vec<Record>,
    /// Where in `records` each one is, with its count left at zero and no program.
    places: HashMap<Record, usize>,
    /// How many of them were refused.
    refused: usize,
    /// Decisions that found the table full.
    dropped: u64,
}

impl Ledger {
    /// Counts a decision. Returns its place when it is the first of its kind.
    pub(crate) fn note(&mut self, key: Record) -> Option<usize> {
        let key = Record { count: 0, program: None, ..key };
        if let Some(&place) = self.places.get(&key) {
            self.records[place].count += 1;
            return None;
        }
        let place = self.records.len();
        let is_refused = key.verdict != Verdict::Allowed;
        let own_kind = if is_refused { self.refused } else { place - self.refused };
        if own_kind >= MAX_RECORDS {
            self.dropped += 1;
            return None;
        }
        self.refused += usize::from(is_refused);
        self.places.insert(key.clone(), place);
        self.records.push(Record { count: 1, ..key });
        Some(place)
    }

    /// Adds whose it was.
    pub(crate) fn attribute(&mut self, place: usize, program: Option<Program>) {
        // A program is called what it calls itself.
        let shown = |program: Program| Program { name: Ascii(&program.name).to_string(), ..program };
        if let Some(record) = self.records.get_mut(place) {
            record.program = program.map(shown);
        }
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.clone()
    }

    pub(crate) fn dropped_records(&self) -> u64 {
        self.dropped
    }
}

/// How a host is let through by the settings; the host follows.
pub const BY_SETTING: &str = "to allow it, add to network.allow: ";

/// What was blocked, for a person, with `advice` and the host where that would allow it; empty when nothing was.
///
/// A look-up and the connections after it are one line: what the user wants to know is the host.
#[must_use]
pub fn summary(records: &[Record], dropped: u64, advice: &str) -> String {
    struct Line<'a> {
        record: &'a Record,
        count: u64,
        program: Option<&'a Program>,
    }
    let mut lines: Vec<Line> = Vec::new();
    for record in records {
        if record.verdict == Verdict::Allowed {
            continue;
        }
        // A connection says more than the look-up before it.
        let same = lines.iter_mut().find(|line| {
            line.record.host == record.host
                && line.record.verdict == record.verdict
                && (line.record.port == record.port || record.port.is_none())
        });
        match same {
            Some(line) => {
                line.count += record.count;
                line.program = line.program.or(record.program.as_ref());
            }
            None => lines.push(Line { record, count: record.count, program: record.program.as_ref() }),
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::from("kennel: blocked by the network policy:\n");
    for Line { record, count, program } in lines.iter().take(MAX_LINES) {
        let Record { host, port, verdict: Verdict::Denied(reason), .. } = record else { continue };
        let target = target(host, *port);
        let by = program.map(|program| format!("by {}", program.name));
        let times = (*count > 1).then(|| format!("{count} times"));
        let more: Vec<String> = by.into_iter().chain(times).collect();
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
        let _ = write!(text, "  {}{more}: {reason}", Ascii(&target));
        if let DenyReason::Budget(limit) = reason {
            let _ = write!(text, "; to raise it: {}", setting_of(limit));
        }
        if let Some(host) = remedy(host, *port, reason) {
            let _ = write!(text, "; {advice}{host}");
            if let Some(registry) = registries::with_host(&record.host) {
                let _ = write!(text, ", or all of registry {}", registry.name);
            }
        }
        text.push('\n');
    }
    let more = lines.len().saturating_sub(MAX_LINES);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more hosts");
    }
    if dropped > 0 {
        let _ = writeln!(text, "  and {dropped} more that were not recorded individually");
    }
    text
}

/// The setting that a limit of the budget is set by.
fn setting_of(limit: &str) -> &'static str {
    match limit.split(' ').next() {
        Some("ingress") => "`network.budget.ingress`",
        _ => "`network.budget.egress`",
    }
}

/// The flag that would have let it through, where one would.
fn remedy(host: &str, port: Option<u16>, reason: &DenyReason) -> Option<String> {
    match reason {
        // What only an address opens is told without one, so it has no remedy that could be pasted.
        DenyReason::NotPublic(AddressClass::Private | AddressClass::Shared) => Some(target(host, port)),
        DenyReason::NotListed | DenyReason::PortNotListed | DenyReason::Refused | DenyReason::NoAnswer => {
            Some(target(host, port))
        }
        DenyReason::Address(address, _) => Some(target(&address.to_string(), port)),
        // In quotes, for a shell and for a list; what cannot stand in them is left for the user to write.
        DenyReason::HttpRule(rule) => {
            let is_plain = rule.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"'\"\\".contains(&byte));
            is_plain.then(|| format!("'{rule}'"))
        }
        DenyReason::Protocol(_) | DenyReason::NoServerName => {
            port.map(|_| format!("{}://{}", Protocol::Tcp, target(host, port)))
        }
        _ => None,
    }
    // Only a host in its canonical spelling can be pasted into a shell.
    .filter(|_| Host::parse(host).is_ok_and(|parsed| parsed.to_string() == host))
}

fn target(host: &str, port: Option<u16>) -> String {
    match port {
        Some(port) if host.contains(':') => format!("[{host}]:{port}"),
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(host: &str, port: Option<u16>, door: Door, reason: DenyReason) -> Record {
        Record {
            host: host.into(),
            port,
            door,
            verdict: Verdict::Denied(reason),
            rule: None,
            count: 0,
            program: None,
        }
    }

    #[test]
    fn the_summary_names_each_host_once_with_the_flag_that_allows_it() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.note(denied("example.com", Some(443), Door::Connect, DenyReason::NotListed));
        }
        ledger.note(denied("example.com", Some(443), Door::Socks, DenyReason::NotListed));
        ledger.note(denied("example.com", None, Door::Dns, DenyReason::NotListed));
        let place = ledger.note(denied("2001:db8::1", Some(80), Door::Transparent, DenyReason::NotListed));
        ledger.attribute(place.unwrap(), Some(Program { name: "a\x1bb".into(), pid: 7 }));
        ledger.note(denied(
            "rebind.test",
            Some(80),
            Door::Http,
            DenyReason::Address("127.0.0.1".parse().unwrap(), AddressClass::Loopback),
        ));
        ledger.note(denied("a\x1b[2Jb", Some(1), Door::Socks, DenyReason::Malformed("an escape".into())));
        ledger.note(Record {
            verdict: Verdict::Allowed,
            ..denied("good.test", Some(443), Door::Connect, DenyReason::NotListed)
        });
        assert_eq!(
            summary(&ledger.records(), 2, BY_SETTING),
            "kennel: blocked by the network policy:\n  \
             example.com:443 (5 times): not on the allow list; to allow it, add to network.allow: example.com:443\n  \
             [2001:db8::1]:80 (by a\\u{1b}b): not on the allow list; to allow it, add to network.allow: [2001:db8::1]:80\n  \
             rebind.test:80: it resolves to 127.0.0.1, a loopback address; to allow it, add to network.allow: 127.0.0.1:80\n  \
             a\\u{1b}[2Jb:1: not a valid host: an escape\n  \
             and 2 more that were not recorded individually\n"
        );
    }

    #[test]
    fn nothing_blocked_says_nothing() {
        assert_eq!(summary(&[], 0, BY_SETTING), "");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut ledger = Ledger::default();
        for number in 0..MAX_RECORDS + 10 {
            ledger.note(denied(&format!("h{number}.test"), Some(1), Door::Socks, DenyReason::NotListed));
        }
        assert_eq!(ledger.records().len(), MAX_RECORDS);
        assert_eq!(ledger.dropped_records(), 10);
        // What is let through afterwards is kept all the same.
        let passed = denied("good.test", Some(443), Door::Connect, DenyReason::NotListed);
        assert!(ledger.note(Record { verdict: Verdict::Allowed, ..passed }).is_some());
        let text = summary(&ledger.records(), ledger.dropped_records(), BY_SETTING);
        assert_eq!(text.lines().count(), 1 + MAX_LINES + 2, "{text}");
        assert!(
            text.contains("  and 492 more hosts\n  and 10 more that were not recorded individually\n"),
            "{text}"
        );
    }
}
