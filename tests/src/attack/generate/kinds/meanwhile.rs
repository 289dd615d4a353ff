//! What the host, or a second sandbox, does while the first one runs.

use crate::attack::generate::Draft;

impl Draft<'_> {
    /// The host replaces, removes, makes and moves what rules are about.
    pub(in crate::attack::generate) fn replaced(&mut self) {
        if self.rng.chance(70) {
            let list = self.pick(&["--deny-read", "--deny-write"]);
            let path = self.pick(&[
                "w/.env",
                "w/conf/key",
                "w/conf",
                "out/sec",
                "out/sec/s1",
                "home/.netrc",
                "home/.aws",
                "w/new",
            ]);
            self.flag(list, path);
        }
        let free = self.rng.chance(20);
        // Kennel watches names when a command has run for a moment.
        if self.rng.chance(60) {
            self.inside(0, &["pause 120000"]);
        }
        if !free {
            self.host(&["await 1"]);
        }
        for _ in 0..self.rng.between(1, 3) {
            let path = if self.rng.chance(75) { self.denied() } else { self.any_path() };
            let other = self.any_path();
            let line = match self.rng.below(16) {
                0..=4 => format!("replace {path}"),
                5 => format!("rewrite {path}"),
                6 => format!("remove {path}"),
                7 => format!("make {path}"),
                8 => format!("rename {path} {path}.old"),
                9 => format!("swap {path} {other}"),
                10 => format!("mkdir {path}"),
                11 => format!("linkto {{top}}/{other} {path}"),
                12 => format!("sed {path}"),
                13 => format!("touch {path}"),
                14 => format!("chmod {path} 0644"),
                _ => {
                    let folder = path.rsplit_once('/').map_or("w", |(folder, _)| folder).to_owned();
                    format!("rename {folder} {folder}.old")
                }
            };
            self.host(&[line]);
            if self.rng.chance(30) {
                let again = self.pick(&["make", "mkdir", "replace"]);
                self.host(&[format!("{again} {path}")]);
            }
        }
        if free {
            let path = self.denied();
            let poll = self.pick(&["poll", "sweep"]);
            let line = if poll == "poll" { format!("poll {path} 8000") } else { "sweep 8000".into() };
            self.inside(0, &[line]);
            return;
        }
        let pause = self.pick(&["0", "0", "400", "4000", "60000", "60000"]);
        self.host(&[format!("pause {pause}"), "go 1".into()]);
        self.inside(0, &["sync 1"]);
        for _ in 0..self.rng.between(1, 3) {
            let path = if self.rng.chance(75) { self.denied() } else { self.target() };
            let line = match self.rng.below(6) {
                0..=1 => format!("read {path}"),
                2 => format!("write {path}"),
                3 => format!("append {path}"),
                4 => format!("create {path}"),
                _ => self.operation(),
            };
            self.inside(0, &[line]);
        }
        if self.rng.chance(70) {
            self.inside(0, &["sweep"]);
        }
    }

    /// The host moves what rules are about over each other, with the mounts on them, and the folders above it.
    pub(in crate::attack::generate) fn moved(&mut self) {
        let pairs = [
            ("w/.env", "w/.env.production"),
            ("w/conf", "w/kept"),
            ("w/sub/f", "w/a"),
            ("out/sec", "out/data"),
            ("home/.ssh", "home/.config"),
        ];
        let (hidden, kept) = self.rng.one_of(&pairs).to_owned();
        let is_folder = !matches!(hidden, "w/.env" | "w/sub/f");
        for path in [hidden, kept] {
            self.node(&if is_folder { format!("file {path}/f") } else { format!("file {path}") });
        }
        let below = if is_folder { "/f" } else { "" };
        // Where only listed paths show, a file that is listed by itself shows wherever the host moves it.
        self.run().flags.retain(|(flag, _)| flag != "--reads");
        self.flag("--deny-read", hidden);
        // What covers the other one: nothing, a mount that cannot be written, one that can, one on a file in it.
        match self.rng.below(4) {
            0 => {}
            1 if is_folder => self.flag("--deny-write", &format!("{kept}/f")),
            2 if is_folder => {
                self.flag("--deny-write", kept);
                self.flag("--allow-write", &format!("{kept}/f"));
            }
            _ => self.flag("--deny-write", kept),
        }
        self.inside(0, &["pause 120000", "sync 1"]);
        self.host(&["await 1"]);
        let folder = hidden.split_once('/').map_or("w", |(folder, _)| folder).to_owned();
        let moved = format!("{folder}.moved");
        let mut there = hidden.to_owned();
        for _ in 0..self.rng.between(1, 3) {
            match self.rng.below(6) {
                0 => self.host(&[format!("swap {kept} {hidden}"), format!("rewrite {hidden}{below}")]),
                1 if is_folder => {
                    self.host(&[format!("swap {hidden} {kept}"), format!("replace {hidden}/f")]);
                }
                1 | 2 if !is_folder => {
                    self.host(&[format!("over {kept} {hidden}"), format!("rewrite {hidden}")]);
                }
                // Away and back.
                3 => self.host(&[format!("move {folder} {moved}"), format!("move {moved} {folder}")]),
                _ if there == hidden => {
                    there = format!("{moved}{}", &hidden[folder.len()..]);
                    self.host(&[format!("move {folder} {moved}"), format!("replace {there}{below}")]);
                }
                _ => self.host(&[format!("replace {there}{below}")]),
            }
            let pause = self.pick(&["0", "0", "400", "4000"]);
            self.host(&[format!("pause {pause}")]);
        }
        let pause = self.pick(&["0", "60000", "60000"]);
        self.host(&[format!("pause {pause}"), "go 1".into()]);
        for path in [there.as_str(), hidden, kept] {
            self.inside(0, &[format!("read {path}{below}"), format!("append {path}{below}")]);
        }
        self.inside(0, &["sweep"]);
    }

    /// A second sandbox starts in the same tree, while the first one moves the ground under it.
    pub(in crate::attack::generate) fn beside(&mut self) {
        let victim = self.pick(&["out", "out/sec", "out/victim", "home/.ssh"]);
        let place = self.pick(&["w/target", "w/conf", "w/sub"]);
        if place == "w/target" {
            self.node("dir w/target");
            self.node("file w/target/f");
        }
        self.run().flags.retain(|(flag, value)| {
            flag != "--reads" && !(flag.starts_with("--deny") && value.starts_with("w"))
        });
        if !self.run().all("--allow-write").any(|root| root == "w") {
            self.flag("--allow-write", "w");
        }
        let below = self.pick(&["", "", "/f", "/deep"]);
        self.inside(
            0,
            &[format!("symlink {{top}}/{victim} w/lure"), "sync 5".into(), format!("flip {place} w/lure 40")],
        );
        self.host(&["await 5".to_owned(), "go 5".into()]);
        // Only allows: what the second one denies the first one can simply move away.
        let is_mount = self.rng.chance(30);
        for _ in 0..3 {
            let line = if is_mount {
                format!("also --mount {place}{below}:/mnt/a:rw /mnt/a")
            } else {
                format!("also --allow-write {place}{below} {place}{below}")
            };
            self.host(&[line]);
        }
    }

    /// Processes that take all they can of what is counted for everybody, while the host and another sandbox need some.
    pub(in crate::attack::generate) fn hogs(&mut self) {
        let names: Vec<&str> = crate::hog::RESOURCES.iter().map(|(name, _)| *name).collect();
        let (first, second) = (self.pick(&names), self.pick(&names));
        // It allows some of it.
        self.run().flags.retain(|(flag, value)| flag != "--seccomp" || value != "permissive");
        self.inside(1, &[format!("hog {first}"), "sync 4".into()]);
        if self.rng.chance(50) {
            self.inside(2, &[format!("hog {second}"), "sync 5".into()]);
            self.host(&["await 5".to_owned(), format!("needs {second}"), "go 5".into()]);
        }
        self.host(&["await 4".into(), format!("needs {first}"), "go 4".into()]);
    }

    /// What others wait for.
    pub(in crate::attack::generate) fn grabs(&mut self) {
        let file = self.pick(&["out/victim", "w/a", "out/data/d1", "home/.bashrc"]);
        self.node(&format!("file {file}"));
        let (inside, host) = match self.rng.below(6) {
            0..=2 => (format!("lease {file}"), format!("open {file}")),
            3 => ("inotify 400".into(), "neighbour".into()),
            _ => (format!("flock {file}"), format!("flock {file}")),
        };
        self.inside(1, &[inside, "sync 4".into()]);
        self.host(&["await 4".into(), host, "go 4".into()]);
    }
}
