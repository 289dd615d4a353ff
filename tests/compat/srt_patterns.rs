//! Path lists, generated: every rule has a folder of its own, all of them are in one settings file, and one run of each
//! program says which files it still reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::compat::world::{Place, Which, run, srt};

/// What each folder for globs holds.
const NAMES: &[&str] = &[
    "a",
    "b",
    "ab",
    "axb",
    "a*b",
    "a?b",
    "a[b",
    "a]b",
    r#"a\b"#,
    r#"a\*b"#,
    "!x",
    "^x",
    "-x",
    "x.env",
    ".env",
    "[id]/f",
    "i/f",
    "d/f",
    "d/[id]/f",
    "d/i/f",
    "d/x.env",
    "d/e/x.env",
    "d/e/axb",
    "[user-id]/x.env",
    "u/x.env",
    "d/[user-id]/x.env",
    "d/e/[user-id]/x.env",
    "[WIP] project/.env",
    "[WIP] project/sub/.env",
    "W project/.env",
    "v/[v1.2]/f",
    "v/1/f",
    "v/[v1.2]/sub/f",
    "[]/f",
    "[/f",
    "]/f",
    "{a,b}/f",
    r#"back\slash/f"#,
    "**/f",
    "**/d/f",
    "build/x/f",
    "build/f",
    "e/build",
    "e/x/build/f",
    "ü/f",
    "😀/f",
    ".hidden/f",
    "a-b/f",
];

/// The globs, each of which is tried as a deny and as an exception to one, with an absolute path, a relative one and below `~`.
const GLOBS: &[&str] = &[
    "*",
    "**",
    "*.env",
    "**/*.env",
    "**/.env",
    "?",
    "??",
    "a?b",
    "a*b",
    "a**b",
    "a**/b",
    "a***b",
    "*b",
    "[ab]",
    "[a-b]",
    "[b-a]",
    "[!a]x",
    "[^a]x",
    "[!]x",
    "[^]x",
    "[!^]x",
    "[-!]x",
    "[a-]x",
    "[!--]x",
    "[]",
    "[]/f",
    "[",
    "[/f",
    "]",
    "]/f",
    "*]",
    "a[b",
    "a]b",
    "a[*]b",
    "a[?]b",
    "a[[]b",
    r#"a\*b"#,
    r#"a\?b"#,
    r#"a\b"#,
    r#"a\\*b"#,
    r#"a\*"#,
    r#"*\*"#,
    r#"back\slash/f"#,
    r#"back\slash/*"#,
    r#"back\\slash/*"#,
    "back*/f",
    "[id]",
    "[id]/f",
    "[id]/*",
    "[id]/**",
    "*/[id]/f",
    "*/[id]/*",
    "d/[id]",
    "d/[id]/f",
    "d/[id]/*",
    "d/[i-d]/f",
    "[user-id]",
    "[user-id]/x.env",
    "[user-id]/*.env",
    "*/[user-id]/*.env",
    "**/[user-id]/*.env",
    "**/[user-id]",
    "**/[user-id]/**",
    "[WIP] project",
    "[WIP] project/.env",
    "[WIP] project/*",
    "[WIP] project/**",
    "[WIP] project/**/.env",
    "[WIP] project/*/.env",
    "[WIP]*",
    "[W]*",
    "v/[v1.2]",
    "v/[v1.2]/f",
    "v/[v1.2]/*",
    "v/[v1.2]/**",
    "v/[v1.2]/**/f",
    "v/*",
    "v/*/**",
    "v/**",
    "{a,b}",
    "{a,b}/f",
    "{a,b}/*",
    "{a,b}*",
    "**/f",
    "**/f/**",
    "*/f",
    "*/**",
    "**/**",
    "**/**/f",
    "***/f",
    "d/**/x.env",
    "d**",
    "d**f",
    "d/**f",
    "d/e**",
    "d[/]f",
    "d[+-9]f",
    "d[/-0]f",
    "d[!-/]f",
    "*[/]f",
    "**/build",
    "**/build/**",
    "*/build/**",
    "build/**",
    "build/**/f",
    "./build/*",
    "build/./*",
    "build//*",
    "build/../d/*",
    ".hidden/*",
    ".*",
    ".*/f",
    "ü/*",
    "[ü]/f",
    "[à-ÿ]/f",
    "😀/*",
    "[a-b]-b/f",
    "a-[a-b]/f",
    "a-*",
    "*-*",
];

/// What kennel denies because brackets that spell a set can be a part of a name as well, wherever they stand. There they are
/// only read so from the first special component on.
const TEXT_AS_WELL: &[(&str, &str)] = &[
    ("deny */[id]/f", "d/[id]/f"),
    ("deny */[id]/*", "d/[id]/f"),
    ("deny [WIP]*", "[WIP] project/.env"),
    ("deny [WIP]*", "[WIP] project/sub/.env"),
];

/// What each folder for lists holds.
const TREE: &[&str] = &[
    "p/secret/key",
    "p/secret/pub/k",
    "p/secret/pub/deep/k",
    "p/open/k",
    "p/.env",
    "p/proj/src/k",
    "p/proj/.env",
];

/// Lists, each tried with each of the others.
const LISTS: &[&[&str]] = &[
    &[],
    &["p"],
    &["p/"],
    &["p/secret"],
    &["p/secret/**"],
    &["p/secret/key"],
    &["p/secret/pub"],
    &["p/secret/pub/deep"],
    &["p/.env"],
    &["p/proj"],
    &["p/proj/.env"],
    &["p", "p/secret/pub"],
    &["p/secret", "p/secret/pub/deep"],
    &["p/none", "p/none/below"],
];

/// The keys of one rule.
#[derive(Default)]
struct Rules {
    deny_read: Vec<String>,
    allow_read: Vec<String>,
    allow_write: Vec<String>,
    credentials: Vec<String>,
}

/// Settings that are put together, and what is said of each.
struct Table {
    place: Place,
    rules: Rules,
    /// The folder of each try, below the place, and what it is called.
    tries: BTreeMap<String, String>,
}

impl Table {
    fn new() -> Table {
        Table { place: Place::new(), rules: Rules::default(), tries: BTreeMap::new() }
    }

    /// A folder for a try. `home` says below which of the two folders it is.
    fn folder(&mut self, home: bool, names: &[&str], called: String) -> String {
        let name = format!("{}/t{}", if home { "home" } else { "work" }, self.tries.len());
        for file in names {
            self.place.write(&format!("{name}/{file}"), "something\n");
        }
        self.tries.insert(name.clone(), called);
        name
    }

    fn settings(&self) -> String {
        let text = |list: &[String]| {
            let quoted: Vec<String> =
                list.iter().map(|entry| serde_json::Value::from(entry.as_str()).to_string()).collect();
            quoted.join(",")
        };
        let Rules { deny_read, allow_read, allow_write, credentials } = &self.rules;
        let files: Vec<String> = credentials
            .iter()
            .map(|path| format!(r#"{{"path": {}, "mode": "deny"}}"#, serde_json::Value::from(path.as_str())))
            .collect();
        format!(
            r#"{{"network": {{"allowedDomains": [], "deniedDomains": []}},
                "filesystem": {{"denyRead": [{}], "allowRead": [{}], "allowWrite": [{}], "denyWrite": []}},
                "credentials": {{"files": [{}]}}}}"#,
            text(deny_read),
            text(allow_read),
            text(allow_write),
            files.join(",")
        )
    }

    /// Which files are read, for each try; `None` where there is no such program.
    #[track_caller]
    fn read(&self, which: Which) -> Option<BTreeMap<String, BTreeSet<String>>> {
        let mut command = srt(which, &self.place, Some(&self.settings()))?;
        let script = "cd ..; grep -rsl . work home; echo end";
        let ran = run(command.args(["-c", script]));
        assert!(ran.stdout.ends_with("end\n"), "{which:?}: {} {}", ran.stdout, ran.stderr);
        let mut read: BTreeMap<String, BTreeSet<String>> =
            self.tries.keys().map(|folder| (folder.clone(), BTreeSet::new())).collect();
        for line in ran.stdout.lines() {
            let mut parts = line.splitn(3, '/');
            if let (Some(top), Some(folder), Some(file)) = (parts.next(), parts.next(), parts.next())
                && let Some(files) = read.get_mut(&format!("{top}/{folder}"))
            {
                files.insert(file.to_owned());
            }
        }
        Some(read)
    }

    /// Both programs read the same, but for what `differs` knows of: the try, the file, and whether only srt reads it.
    #[track_caller]
    fn compare(&self, differs: impl Fn(&str, &str, bool) -> bool) {
        let own = self.read(Which::Kennel).expect("kennel is there");
        let Some(real) = self.read(Which::Real) else { return };
        let mut odd = Vec::new();
        for (folder, called) in &self.tries {
            let (own, real) = (&own[folder], &real[folder]);
            for file in own.symmetric_difference(real) {
                let only_srt = real.contains(file);
                if !differs(called, file, only_srt) {
                    let who = if only_srt { "srt alone" } else { "kennel alone" };
                    odd.push(format!("{called}: {who} reads {file}"));
                }
            }
        }
        assert!(odd.is_empty(), "{} of {} tries:\n{}", odd.len(), self.tries.len(), odd.join("\n"));
        eprintln!("{} tries agree", self.tries.len());
    }
}

/// How a path is written.
const SPELLINGS: [&str; 3] = ["absolute", "relative", "home"];

fn spelled(place: &Path, folder: &str, spelling: &str, text: &str) -> String {
    match spelling {
        "absolute" => format!("{}/{folder}/{text}", place.display()),
        "relative" => format!("{}/{text}", folder.trim_start_matches("work/")),
        _ => format!("~/{}/{text}", folder.trim_start_matches("home/")),
    }
}

/// Each as a deny, and as an exception to one.
#[test]
#[kennel_claim::claim("handed-back/srt-brackets")]
fn globs_deny_and_show_what_they_do_there() {
    for spelling in SPELLINGS {
        let (mut table, home) = (Table::new(), spelling == "home");
        for glob in GLOBS {
            let folder = table.folder(home, NAMES, format!("deny {glob}"));
            table.rules.deny_read.push(spelled(table.place.top(), &folder, spelling, glob));
            let folder = table.folder(home, NAMES, format!("allow {glob}"));
            table.rules.deny_read.push(spelled(table.place.top(), &folder, spelling, ""));
            table.rules.allow_read.push(spelled(table.place.top(), &folder, spelling, glob));
        }
        table.compare(|called, file, only_srt| only_srt && TEXT_AS_WELL.contains(&(called, file)));
    }
}

#[test]
#[kennel_claim::claim("handed-back/srt-denied-credentials")]
fn lists_rank_as_they_do_there() {
    let mut table = Table::new();
    for deny in LISTS {
        for allow in LISTS {
            for kind in ["allowRead", "allowWrite", "credentials", "credentials and allowWrite"] {
                let called = format!("{deny:?} and {kind} {allow:?}");
                let folder = table.folder(false, TREE, called);
                let top = table.place.top().to_path_buf();
                let paths = |list: &[&str]| -> Vec<String> {
                    list.iter().map(|text| spelled(&top, &folder, "absolute", text)).collect()
                };
                let (deny, allow) = (paths(deny), paths(allow));
                let rules = &mut table.rules;
                if kind.starts_with("credentials") { &mut rules.credentials } else { &mut rules.deny_read }
                    .extend(deny);
                if kind.ends_with("allowWrite") { &mut rules.allow_write } else { &mut rules.allow_read }
                    .extend(allow);
            }
        }
    }
    table.compare(|_, _, _| false);
}

/// What each folder for links holds: names and what they lead to.
const LINKS: &[(&str, &str)] = &[
    ("to-secret", "real/secret"),
    ("to-real", "real"),
    ("to-key", "real/secret/key"),
    ("nowhere", "missing"),
    ("circle", "circle"),
    ("real/up", ".."),
    ("real/open/inner", "../secret"),
    ("pkg/a/build/link", "../../../real/plain"),
    ("pkg/a/build/one.pem", "../../../real/secret/one.pem"),
    ("pkg/linked/build", "../a/build"),
];

const LINKED: &[&str] = &[
    "real/secret/key",
    "real/secret/one.pem",
    "real/open/key",
    "real/plain/key",
    "pkg/a/build/1.out",
    "pkg/b/build/1.out",
    "pkg/b/index",
    "pkg/build",
];

/// Paths through links and to links.
const THROUGH: &[&[&str]] = &[
    &[],
    &["real"],
    &["real/secret"],
    &["real/secret/key"],
    &["to-secret"],
    &["to-real"],
    &["to-real/secret/key"],
    &["nowhere", "circle"],
    &["real/open/inner"],
    &["to-*/secret"],
    &["**/*.pem"],
    &["**/build/**"],
    &["pkg/*/build"],
    &["real", "to-real/secret"],
];

/// Nothing is shown that srt hides. It shows a little more: an allow that leads through a link which the command could have
/// made opens nothing here.
#[test]
fn no_link_shows_more_than_there() {
    for kind in ["allowRead", "allowWrite", "credentials"] {
        let mut table = Table::new();
        for deny in THROUGH {
            for allow in THROUGH {
                let folder = table.folder(false, LINKED, format!("{deny:?} and {kind} {allow:?}"));
                for (name, to) in LINKS {
                    table.place.link(&format!("{folder}/{name}"), to);
                }
                let top = table.place.top().to_path_buf();
                let paths = |list: &[&str]| -> Vec<String> {
                    list.iter().map(|text| spelled(&top, &folder, "absolute", text)).collect()
                };
                let rules = &mut table.rules;
                match kind {
                    "credentials" => rules.credentials.extend(paths(deny)),
                    _ => rules.deny_read.extend(paths(deny)),
                }
                match kind {
                    "allowWrite" => rules.allow_write.extend(paths(allow)),
                    _ => rules.allow_read.extend(paths(allow)),
                }
            }
        }
        table.compare(|_, _, only_srt| only_srt);
    }
}
