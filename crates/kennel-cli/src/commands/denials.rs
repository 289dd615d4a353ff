//! What `kennel run` says about files that the command could not use: which, why, and what would allow it.
//!
//! Evidence only: what the kernel went by when a call failed, and whether the host would have let it through.

use std::path::Path;

use kennel_policy::outcome::{Denials, Ended, FileDenial, Outcome, Remedy};
use kennel_policy::printed::show;
use serde_json::{Value, json};

use super::say;

/// As many lines are printed; the report has the rest.
const MAX_LINES: usize = 10;

/// Tells of them, the likeliest cause of a failure first.
pub fn tell(denials: &Denials) {
    lines(denials).iter().for_each(|line| say(&format!("kennel: {line}")));
}

/// Tells the end of `kennel why`: where nothing was refused, that too.
pub fn conclude(outcome: &Outcome) {
    let denials = &outcome.denials;
    if !denials.traced {
        say(
            "kennel: the calls of this command could not be looked at, because another sandbox around this one does so",
        );
    } else if denials.list.is_empty() && denials.more == 0 {
        let own = match outcome.ended {
            Ended::Exited(0) => String::new(),
            Ended::Exited(code) => format!("; exit code {code} has another cause"),
            _ => "; the end has another cause".to_owned(),
        };
        say(&format!(
            "kennel: every file that the command asked for was looked at, and the sandbox refused none{own}"
        ));
    }
}

/// Says how to find out more, where a command failed and nothing that is known explains it.
pub fn suggest(outcome: &Outcome) {
    let known = !outcome.denials.list.is_empty()
        || !outcome.violations.is_empty()
        || !outcome.network.blocked.is_empty()
        || outcome.tried_network;
    if matches!(outcome.ended, Ended::Exited(1..=125)) && !known && !outcome.denials.traced {
        say("kennel: note: if a closed file is the cause, kennel why in the place of kennel run says which");
    }
}

fn lines(denials: &Denials) -> Vec<String> {
    let mut lines: Vec<(&FileDenial, u64)> = Vec::new();
    for denial in &denials.list {
        let same = |other: &FileDenial| other.remedy == denial.remedy && other.rule == denial.rule;
        // A program that could not write a file often tries to do something else with it.
        if lines.iter().any(|(other, _)| other.path == denial.path && same(other)) {
            continue;
        }
        match lines.iter_mut().find(|(other, _)| other.tried == denial.tried && same(other)) {
            // With the same answer, one of them says it.
            Some((_, more)) if allows(denial) => *more += 1,
            _ => lines.push((denial, 0)),
        }
    }
    let untold: u64 = lines.iter().skip(MAX_LINES - 1).map(|(_, more)| 1 + more).sum::<u64>() + denials.more;
    let cut = if lines.len() > MAX_LINES || denials.more > 0 { MAX_LINES - 1 } else { MAX_LINES };
    let mut text: Vec<String> = lines.iter().take(cut).map(|(denial, more)| line(denial, *more)).collect();
    let untold = if lines.len() > cut { untold } else { denials.more };
    if untold > 0 {
        text.push(format!("{untold} more like these were refused; --report FILE lists them"));
    }
    text
}

/// Whether what would allow one of several allows all of them.
fn allows(denial: &FileDenial) -> bool {
    matches!(denial.remedy, Remedy::AllowWrite(_) | Remedy::DropRule)
}

fn line(denial: &FileDenial, more: u64) -> String {
    let more = if more > 0 { format!(" ({more} more like it)") } else { String::new() };
    format!("{denial}{more}; {}", help(&denial.remedy))
}

fn help(remedy: &Remedy) -> String {
    match (flag(remedy), remedy) {
        (Some(flag), Remedy::MakeFirst(_)) => format!("to allow it: create it outside first, then {flag}"),
        (Some(flag), _) => format!("to allow it: {flag}"),
        (None, Remedy::DropRule) => "to allow it: drop that rule".to_owned(),
        (None, Remedy::Credential) => {
            "it holds credentials or private data: --secret lets a command use one without seeing it"
                .to_owned()
        }
        (None, _) => "the host itself depends on it: do this outside of the sandbox".to_owned(),
    }
}

/// The flag that would allow it.
fn flag(remedy: &Remedy) -> Option<String> {
    let (name, path) = match remedy {
        Remedy::AllowWrite(path) | Remedy::MakeFirst(path) => ("--allow-write", path),
        Remedy::AllowRead(path) => ("--allow-read", path),
        Remedy::AllowDevice(path) => ("--device", path),
        _ => return None,
    };
    Some(format!("{name} {}", word(path)))
}

/// A path as a shell reads it.
fn word(path: &Path) -> String {
    let text = show(path.as_os_str().as_encoded_bytes());
    let plain = |c: char| c.is_alphanumeric() || "/._-+@:,=%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// One of them, for the report.
pub fn value(denial: &FileDenial) -> Value {
    json!({
        "tried": denial.tried.word(),
        "path": denial.path.to_string_lossy(),
        "program": denial.program,
        "rule": denial.rule,
        "remedy": denial.remedy.word(),
        "flag": flag(&denial.remedy),
        "count": denial.times,
    })
}

#[cfg(test)]
mod tests {
    use kennel_policy::outcome::Tried;

    use super::*;

    fn denial(path: &str, remedy: Remedy) -> FileDenial {
        let (tried, rule) = (Tried::Create, "no rule allows writing there".to_owned());
        FileDenial { tried, path: path.into(), program: Some("cc".to_owned()), rule, remedy, times: 1 }
    }

    fn all(list: Vec<FileDenial>, more: u64) -> Vec<String> {
        lines(&Denials { list, more, traced: true })
    }

    #[test]
    fn files_with_the_same_answer_share_a_line() {
        let list =
            (0..20).map(|n| denial(&format!("/w/out/{n}.o"), Remedy::AllowWrite("/w/out".into()))).collect();
        assert_eq!(
            all(list, 0),
            [
                "cc could not create /w/out/0.o: no rule allows writing there (19 more like it); to allow it: --allow-write /w/out"
            ]
        );
    }

    #[test]
    fn no_more_than_ten_lines_are_printed_and_none_is_lost_silently() {
        let list = |count: u32| {
            (0..count).map(|n| denial("/w/x", Remedy::AllowWrite(format!("/w/{n}").into()))).collect()
        };
        assert_eq!(all(list(10), 0).len(), 10);
        let eleven = all(list(11), 0);
        assert_eq!(
            (eleven.len(), eleven[9].as_str()),
            (10, "2 more like these were refused; --report FILE lists them")
        );
        let flood = all(list(250), 1_000_000);
        assert_eq!(
            (flood.len(), flood[9].as_str()),
            (10, "1000241 more like these were refused; --report FILE lists them")
        );
        assert_eq!(all(list(3), 2)[3], "2 more like these were refused; --report FILE lists them");
        assert_eq!(all(list(10), 5).len(), 10);
    }

    #[test]
    fn the_flag_can_be_pasted_into_a_shell_and_a_credential_has_none() {
        let line = |remedy| line(&denial("/x", remedy), 0).split_once("; ").unwrap().1.to_owned();
        assert_eq!(
            line(Remedy::AllowWrite("/w/it's here".into())),
            "to allow it: --allow-write '/w/it'\\''s here'"
        );
        assert_eq!(
            line(Remedy::MakeFirst("/w/x".into())),
            "to allow it: create it outside first, then --allow-write /w/x"
        );
        let none = [Remedy::Credential, Remedy::Outside, Remedy::DropRule];
        assert!(none.into_iter().all(|remedy| !line(remedy).contains("--allow")));
    }
}
