//! What a first run leaves behind for a second one.

use crate::attack::generate::Draft;
use crate::attack::script::Run;
use crate::attack::word;

impl Draft<'_> {
    /// A first run leaves something behind for the rules of a second one.
    pub(in crate::attack::generate) fn planted(&mut self) {
        let victim = self.pick(&["out", "out/sec", "out/victim", "home/.ssh", "out/data", "home"]);
        let place = self.pick(&["w/target", "w/conf", "w/sub", "w/a", "w/sub/deep"]);
        if place == "w/target" {
            self.node("dir w/target");
        }
        let mut first = Run { cwd: "w".into(), ..Run::default() };
        first.flags.push(("--allow-write".into(), "w".into()));
        self.runs.insert(0, first);
        let last = self.runs.pop();
        let remove = match self.rng.below(3) {
            0 => vec![format!("rename {place} {place}.old")],
            1 => vec![format!("unlink {place}"), format!("rename {place} w/gone")],
            _ => {
                let folder = place.rsplit_once('/').map_or("w/sub", |(folder, _)| folder);
                let folder = if folder == "w" { "w/sub" } else { folder };
                vec![format!("rename {place} w/gone"), format!("mkdir {folder}")]
            }
        };
        self.inside(0, &remove);
        self.inside(0, &[format!("symlink {{top}}/{victim} {place}")]);
        self.runs.extend(last);
        let secret = self.pick(&["out/sec", "home/.ssh", "out/victim"]);
        self.flag("--deny-read", secret);
        let below = self.pick(&["", "", "/sec", "/s1", "/id"]);
        let (flag, value) = match self.rng.below(6) {
            0..=1 => ("--allow-write", format!("{place}{below}")),
            2..=3 => ("--allow-read", format!("{place}{below}")),
            4 => ("--mount", format!("{place}{below}:/mnt/a:rw")),
            _ => ("--deny-write", format!("{place}{below}")),
        };
        self.flag(flag, &value);
        let names = ["", "/s1", "/victim", "/id", "/new"];
        for _ in 0..self.rng.between(1, 3) {
            let (name, verb) = (self.pick(&names), self.pick(&["write", "append", "create", "read"]));
            let from = if flag == "--mount" { "/mnt/a" } else { place };
            self.inside(0, &[format!("{verb} {from}{name}")]);
        }
        self.inside(0, &["sweep"]);
    }

    /// Settings of kennel's own, for the next run.
    pub(in crate::attack::generate) fn settings(&mut self) {
        let loose = "[files]%0Aallow_write%20=%20[%22{top}/out%22,%20%22/%22]%0Aallow_read%20=%20[%22{top}/out/sec%22]%0A";
        let mut first = Run { cwd: "w".into(), ..Run::default() };
        let root = self.pick(&["home", "home/.config", "w", "."]);
        first.flags.push(("--allow-write".into(), root.into()));
        if self.rng.chance(30) {
            first = Run {
                cwd: "home".into(),
                flags: vec![("--profile".into(), "agent".into())],
                ..Run::default()
            };
        }
        let last = self.runs.pop();
        self.runs.push(first);
        let lines = match self.rng.below(3) {
            0 => vec![format!("put w/kennel.toml {loose}")],
            1 => vec![
                "mkdir home/.config".into(),
                "mkdir home/.config/kennel".into(),
                format!("put home/.config/kennel/settings.toml {loose}"),
            ],
            _ => vec![
                "mkdir w/k".into(),
                "mkdir w/k/kennel".into(),
                format!("put w/k/kennel/settings.toml {loose}"),
                "rename home/.config home/.config.old".into(),
                "symlink {top}/w/k home/.config".into(),
            ],
        };
        self.inside(0, &lines);
        self.runs.extend(last);
        self.flag("--deny-read", "out/sec");
        self.inside(0, &["write out/victim", "read out/sec/s1", "sweep"]);
    }

    /// A first run leaves what a second one might stumble over when it looks at the tree.
    pub(in crate::attack::generate) fn obstacles(&mut self) {
        if self.rng.chance(60) {
            self.node("repo w");
        }
        let first =
            Run { cwd: "w".into(), flags: vec![("--allow-write".into(), "w".into())], ..Run::default() };
        let last = self.runs.pop();
        self.runs.push(first);
        for _ in 0..self.rng.between(1, 3) {
            let place = self.pick(&[
                "w/kennel.toml",
                "w/.git",
                "w/.git/config",
                "w/.git/HEAD",
                "w/sub/.git",
                "w/.git/hooks",
                "w/kennel.json",
            ]);
            let away = [format!("unlink {place}"), format!("rename {place} {place}.old")];
            let lines: Vec<String> = match self.rng.below(9) {
                0..=1 => vec![format!("fifo {place}")],
                2 => vec![format!("mkdir {place}")],
                3 => vec![format!("symlink {} {place}", word::name(place))],
                4 => {
                    vec![format!("put {place} [include]%0A%09path%20=%20config%0A%09path%20=%20../config%0A")]
                }
                5 => vec![format!("put {place} gitdir:%20.git%0A")],
                6 => vec![format!("symlink /dev/zero {place}")],
                7 => vec!["deep w/sub 300".into()],
                _ => vec![format!("symlink {{top}}/out/pipe {place}"), "chmod w/sub 0000".into()],
            };
            self.inside(0, &away);
            self.inside(0, &lines);
        }
        self.runs.extend(last);
        self.node("fifo out/pipe");
        match self.rng.below(4) {
            0 => self.flag("--profile", "agent"),
            1 => self.flag("--deny-read", "w/**/key"),
            _ => {
                let level =
                    self.pick(&["hooks-and-config-read-only", "metadata-read-only", "hooks-read-only"]);
                self.flag("--git", level);
            }
        }
    }
}
