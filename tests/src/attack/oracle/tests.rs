//! The oracle itself: it sees each thing that must not be, and excuses nothing else than what it says.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::attack::canary::Canary;
use crate::attack::script::History;
use crate::attack::snapshot::{Entry, Kind};
use crate::attack::wire::now;
use crate::attack::{attacker, canary};

/// A run, its tree, and what somebody made of it; then it is judged.
struct Made {
    run: Run,
    before: Snapshot,
    after: Snapshot,
    ledger: Ledger,
    outcome: Outcome,
}

fn secret(number: u64) -> Canary {
    canary::Canaries::new(number).make()
}

fn entry(kind: Kind, number: u64, content: Vec<u8>) -> Entry {
    let size = content.len() as u64;
    Entry {
        kind,
        identity: (1, number),
        mode: 0o644,
        owner: (0, 0),
        modified: (1, 1),
        size,
        xattrs: vec![],
        content,
    }
}

impl Made {
    /// A tree of `w/open`, `w/.env` and `out/f`, each with its own secret; a command that did one operation.
    fn new(flags: &str, op: &str) -> Made {
        let text = format!("run\n{flags}\n inside\n  {op}\n");
        let run = History::parse(&text).unwrap().runs.remove(0);
        let mut before = Snapshot::new();
        for (number, folder) in [".", "w", "out"].iter().enumerate() {
            before.insert((*folder).into(), entry(Kind::Folder, 100 + number as u64, Vec::new()));
        }
        for (number, file) in ["w/open", "w/.env", "out/f"].iter().enumerate() {
            before.insert((*file).into(), entry(Kind::File, number as u64, secret(number as u64).content()));
        }
        let record =
            |about, data| Record { about, actor: 0, op: 0, result: 0, since: now(), until: now(), data };
        let records =
            vec![record(About::Started, vec![]), record(About::Done, vec![]), record(About::Ended, vec![])];
        let outcome =
            Outcome { code: Some(attacker::DONE), records, top: "/top".into(), ..Outcome::default() };
        Made { run, after: before.clone(), ledger: Ledger::new(&before), before, outcome }
    }

    fn judge(&self) -> Vec<String> {
        let model = Model::of(&self.run, &self.before, &BTreeSet::new());
        let Made { run, before, after, ledger, outcome } = self;
        let case = Case { run, model: &model, others: &[], before, after, ledger, outcome };
        case.judge().iter().map(|finding| format!("{} {}", finding.kind, finding.path)).collect()
    }

    /// What was read, so many milliseconds after the start.
    fn read(&mut self, canary: &Canary, milliseconds: u64) {
        let started = self.outcome.records[0].since;
        self.outcome.records[1].data = canary.content();
        self.outcome.records[1].since = started + milliseconds * 1_000_000;
    }

    fn change(&mut self, path: &str, change: impl Fn(&mut Entry)) {
        change(self.after.get_mut(path).unwrap());
    }

    /// The host replaced a file, so many milliseconds after the start.
    fn replaced(&mut self, path: &str, canary: &Canary, milliseconds: u64) {
        let fresh = entry(Kind::File, 50, canary.content());
        let when = self.outcome.records[0].since + milliseconds * 1_000_000;
        self.ledger.set(path, fresh.clone(), when);
        self.after.insert(path.into(), fresh);
    }

    fn admit(&mut self, path: &str, microseconds: u64) {
        let exposed =
            json!({ "what": "exposed", "path": format!("/top/{path}"), "longest_us": microseconds });
        self.outcome.report = json!({ "violations": [exposed] });
    }
}

const OPEN: &str = " flag --allow-write w\n flag --deny-read w/.env";

#[test]
fn a_run_in_which_nothing_happened_is_well() {
    assert_eq!(Made::new(OPEN, "sweep").judge(), [] as [&str; 0]);
}

#[test]
fn a_secret_that_was_read_or_left_is_found() {
    let mut made = Made::new(OPEN, "read w/.env");
    made.read(&secret(0), 1);
    assert_eq!(made.judge(), [] as [&str; 0], "what may be read is no secret");
    made.read(&secret(1), 1);
    assert_eq!(made.judge(), ["secret-read w/.env"]);
    let mut made = Made::new(OPEN, "sweep");
    made.outcome.stderr = secret(1).content();
    assert_eq!(made.judge(), ["secret-left error output"]);
    let mut made = Made::new(OPEN, "sweep");
    made.change("w/open", |entry| entry.content = secret(1).content());
    assert_eq!(made.judge(), ["secret-left w/open"]);
}

#[test]
fn a_secret_among_the_hosts_processes_is_found() {
    let mut made = Made::new(OPEN, "procs");
    made.outcome.process_canaries.insert(secret(9));
    made.read(&secret(9), 1);
    assert_eq!(made.judge(), ["secret-read a process of the host's"]);
}

#[test]
fn every_change_of_what_is_protected_is_found_and_none_of_what_can_be_written() {
    let changes: [&dyn Fn(&mut Entry); 6] = [
        &|entry| entry.content = b"EVIL".into(),
        &|entry| entry.mode = 0o600,
        &|entry| entry.owner = (1, 1),
        &|entry| entry.xattrs.push(("user.x".into(), vec![])),
        &|entry| entry.modified = (2, 2),
        &|entry| entry.identity = (1, 77),
    ];
    for change in changes {
        for path in ["out/f", "w/.env"] {
            let mut made = Made::new(OPEN, "sweep");
            made.change(path, change);
            assert_eq!(made.judge(), [format!("changed {path}")]);
        }
        let mut made = Made::new(OPEN, "sweep");
        made.change("w/open", change);
        assert_eq!(made.judge(), [] as [&str; 0]);
    }
}

#[test]
fn names_that_appear_or_vanish_where_they_must_not_are_found() {
    let mut made = Made::new(OPEN, "sweep");
    made.after.remove("w/.env");
    made.after.remove("w/open");
    made.after.insert("out/new".into(), entry(Kind::File, 60, b"EVIL".into()));
    made.after.insert("w/new".into(), entry(Kind::File, 61, b"EVIL".into()));
    assert_eq!(made.judge(), ["appeared out/new", "vanished w/.env"]);
    let mut made = Made::new(" flag --allow-write w\n flag --deny-write w/.git", "sweep");
    made.after.insert("w/.git".into(), entry(Kind::Folder, 62, vec![]));
    assert_eq!(made.judge(), ["appeared w/.git"]);
    let mut made = Made::new(OPEN, "sweep");
    made.after.insert("w/second".into(), made.before["out/f"].clone());
    assert_eq!(made.judge(), ["appeared w/second"]);
}

#[test]
fn a_write_root_itself_stays_in_its_place() {
    let mut made = Made::new(OPEN, "sweep");
    made.change("w", |entry| entry.identity = (1, 200));
    assert_eq!(made.judge(), ["changed w"]);
}

#[test]
fn a_power_is_found_wherever_it_is() {
    let mut made = Made::new(OPEN, "sweep");
    made.change("w/open", |entry| entry.mode = 0o4755);
    made.after.insert("w/node".into(), entry(Kind::Device, 63, vec![]));
    let mut capable = entry(Kind::File, 64, vec![]);
    capable.xattrs.push(("security.capability".into(), vec![]));
    made.after.insert("w/capable".into(), capable);
    assert_eq!(made.judge(), ["power w/capable", "power w/node", "power w/open"]);
}

#[test]
fn a_replaced_file_is_excused_for_as_long_as_the_report_admits_and_no_longer() {
    let fresh = secret(7);
    let read_after = |milliseconds: u64, admitted: Option<u64>| {
        let mut made = Made::new(OPEN, "read w/.env");
        made.replaced("w/.env", &fresh, 1000);
        made.read(&fresh, 1000 + milliseconds);
        if let Some(microseconds) = admitted {
            made.admit("w/.env", microseconds);
        }
        made.judge()
    };
    assert_eq!(read_after(1, None), ["secret-read w/.env"]);
    assert_eq!(read_after(1, Some(300)), [] as [&str; 0]);
    assert_eq!(read_after(80, Some(300)), ["secret-read w/.env"]);
    assert_eq!(read_after(400, Some(9_000_000)), ["secret-read w/.env"]);
}

#[test]
fn what_the_host_did_is_no_finding_and_what_was_done_to_it_afterwards_is() {
    let mut made = Made::new(OPEN, "write out/f");
    made.replaced("out/f", &secret(7), 1000);
    assert_eq!(made.judge(), [] as [&str; 0]);
    made.outcome.records[1].since = made.outcome.records[0].since + 2_000_000_000;
    made.change("out/f", |entry| entry.content = b"EVIL".into());
    assert_eq!(made.judge(), ["changed out/f"]);
}

#[test]
fn only_what_is_appended_to_an_output_is_excused() {
    let flags = " stdout out/f\n flag --allow-write w";
    let mut made = Made::new(flags, "sweep");
    made.change("out/f", |entry| {
        entry.content.extend(b"more");
        entry.size += 4;
        entry.modified = (3, 3);
    });
    assert_eq!(made.judge(), [] as [&str; 0]);
    made.change("out/f", |entry| entry.content.clear());
    assert_eq!(made.judge(), ["changed out/f"]);
}

#[test]
fn ends_that_make_no_sense_are_found() {
    let judge = |code: Option<i32>, said: &str| {
        let mut made = Made::new(OPEN, "sweep");
        made.outcome.code = code;
        made.outcome.stderr = said.into();
        made.judge()
    };
    for (code, said) in
        [(Some(134), ""), (Some(101), "thread 'main' panicked at x"), (Some(0), ""), (Some(125), "")]
    {
        assert!(judge(code, said).iter().all(|finding| finding == "exit kennel"), "{code:?}");
        assert!(!judge(code, said).is_empty(), "{code:?}");
    }
    assert_eq!(judge(Some(123), ""), [] as [&str; 0]);
}
