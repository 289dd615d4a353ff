//! The tables of `docs/platforms.md`, which have to say what `kennel doctor` says.

use std::fmt::Write;

use kennel_policy::platforms::{KERNELS, KeptBy, LANDLOCK, PROMISES, Promise, Support};

const BEGIN: &str =
    "<!-- The tables up to the end mark are written by a test from the table of promises. -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn the_platforms_page_has_every_promise_as_it_is() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/platforms.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark where the tables begin");
    let (tables, after) = rest.split_once(END).expect("the mark where the tables end");
    let expected = tables_of_promises();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(tables, expected, "run this test with UPDATE_DOCS=1 to write the page anew");
    }
}

fn tables_of_promises() -> String {
    let mut text = String::new();
    let mut groups: Vec<&str> = PROMISES.iter().map(|promise| promise.group).collect();
    groups.dedup();
    for group in groups {
        let of_group = || PROMISES.iter().filter(|promise| promise.group == group);
        let _ = writeln!(text, "\n### {group}\n");
        text.push_str("| promise |");
        for (kernel, _) in KERNELS {
            let _ = write!(text, " {kernel} |");
        }
        text.push_str(" macOS | Windows |\n|---|");
        text.push_str(&"---|".repeat(KERNELS.len() + 2));
        text.push('\n');
        for promise in of_group() {
            let _ = write!(text, "| {}{} |", promise.promise, settings(promise));
            for (_, kernel) in KERNELS {
                let _ = write!(text, " {} |", promise.on_linux(kernel).support);
            }
            let _ = writeln!(text, " {} | {} |", promise.macos.support, promise.windows.support);
        }
        text.push_str("\n| promise | Linux | macOS | Windows |\n|---|---|---|---|\n");
        for promise in of_group() {
            let (macos, windows) = (cell(promise.macos), cell(promise.windows));
            let _ = writeln!(text, "| {} | {} | {macos} | {windows} |", promise.promise, ways(promise));
        }
    }
    text.push_str("\n### Landlock\n\n| ABI | Linux | adds |\n|---|---|---|\n");
    for level in LANDLOCK {
        let _ = writeln!(text, "| {} | {} | {} |", level.abi, level.kernel, level.adds);
    }
    text.push('\n');
    text
}

fn settings(promise: &Promise) -> String {
    let names: Vec<String> = promise.settings.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn cell(kept: KeptBy) -> String {
    match kept.support {
        Support::Enforced => kept.how.to_owned(),
        other => format!("*{other}*: {}", kept.how),
    }
}

/// Each way with what it needs, the best first.
fn ways(promise: &Promise) -> String {
    let mut parts = Vec::new();
    for way in promise.linux {
        let needs: Vec<String> = way.needs.iter().map(ToString::to_string).collect();
        let needs = if needs.is_empty() { String::new() } else { format!(" ({})", needs.join(", ")) };
        parts.push(format!("{}{needs}", cell(way.kept)));
    }
    parts.join("; else ")
}
