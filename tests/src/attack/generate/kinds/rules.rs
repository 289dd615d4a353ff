//! Rules of all sorts, with what could lead around them.

use crate::attack::generate::Draft;

impl Draft<'_> {
    /// Limits, and cgroups that could be left.
    pub(in crate::attack::generate) fn limits(&mut self) {
        let limits: [(&str, &str); 6] = [
            ("--memory", "128M"),
            ("--pids", "40"),
            ("--timeout", "3s"),
            ("--open-files", "64"),
            ("--file-size", "1M"),
            ("--cpus", "1"),
        ];
        for _ in 0..self.rng.between(1, 2) {
            let (flag, value) = *self.rng.one_of(&limits);
            if self.run().flag(flag).is_none() {
                self.flag(flag, value);
            }
        }
        if self.rng.chance(60) {
            let path = self.pick(&["/", "/sys", "/sys/fs/cgroup", "/sys/fs"]);
            self.flag("--allow-write", path);
        }
        self.inside(0, &["cgroup"]);
        if self.rng.chance(15) {
            self.flag("--timeout", "1s");
            self.inside(0, &["kill stop"]);
        }
    }

    /// Rules about the places that kennel itself provides.
    pub(in crate::attack::generate) fn special(&mut self) {
        for _ in 0..self.rng.between(1, 2) {
            let list = self.pick(&["--deny-read", "--allow-read", "--allow-write", "--deny-write"]);
            let path = self.pick(&[
                "/proc",
                "/proc/self",
                "/proc/sys",
                "/sys",
                "/dev",
                "/dev/shm",
                "/run",
                "/tmp",
                "/",
                "/proc/1",
            ]);
            self.flag(list, path);
        }
        self.inside(0, &["procs", "procwrite", "cgroup"]);
    }

    /// Bits and attributes that make a file more than a file.
    pub(in crate::attack::generate) fn power(&mut self) {
        let file = self.pick(&["w/p", "w/a", "w/sub/f", "w/t/p"]);
        if !self.run().all("--allow-write").any(|root| root == "w") {
            self.flag("--allow-write", "w");
        }
        self.inside(0, &["mkdir w/t".to_owned(), format!("put {file} x")]);
        for _ in 0..self.rng.between(1, 3) {
            let mode = self.pick(&["4755", "2755", "6755", "4700"]);
            let lines: Vec<String> = match self.rng.below(6) {
                0..=1 => vec![format!("chmod {file} {mode}")],
                2 => vec![format!("open {file} 5 r"), format!("fdchmod 5 {mode}")],
                3 => vec![format!("caps {file}")],
                4 => vec![format!("mkdir w/t2 {mode}"), "write w/t2/inherits".into()],
                _ => vec![format!("open {file} 5 path"), "reopen 5 r 6".into(), format!("fdchmod 6 {mode}")],
            };
            self.inside(0, &lines);
        }
    }

    /// Files behind the standard streams.
    pub(in crate::attack::generate) fn streams(&mut self) {
        let file = self.pick(&["out/victim", "out/data/d1", "home/.bashrc", "out/sec/s1"]);
        self.node(&format!("file {file}"));
        let number = self.rng.below(3);
        self.run().streams[number] = Some(file.into());
        if self.rng.chance(50) {
            let list = self.pick(&["--deny-read", "--deny-write"]);
            self.flag(list, file);
        }
        for _ in 0..self.rng.between(1, 4) {
            let access = self.pick(&["r", "w", "rw"]);
            let lines: Vec<String> = match self.rng.below(8) {
                0 => vec![format!("fdchmod {number} 0777")],
                1 => vec![format!("fdutimes {number}")],
                2 => vec![format!("fdxattr {number} user.evil")],
                3 => vec![format!("fdtrunc {number}")],
                4 => vec![format!("fdwrite {number}")],
                5 => {
                    vec![format!("fdlink {number} w/linked"), "read w/linked".into(), "write w/linked".into()]
                }
                6 => vec![format!("fdread {number}")],
                _ => vec![
                    format!("reopen {number} {access} 8"),
                    "fdread 8".into(),
                    "fdwrite 8".into(),
                    "fdtrunc 8".into(),
                ],
            };
            self.inside(0, &lines);
        }
    }

    /// The same folder at a second place.
    pub(in crate::attack::generate) fn binds(&mut self) {
        if !self.root {
            // Hard links are an ordinary user's second names.
            let target = self.pick(&["out/sec/s1", "w/conf/key", "w/.env"]);
            self.node(&format!("file {target}"));
            self.node(&format!("hard out/second {target}"));
            let list = self.pick(&["--deny-read", "--deny-write"]);
            self.flag(list, target);
            self.inside(0, &["read out/second", "write out/second"]);
            return;
        }
        let folder = self.pick(&["out/sec", "w/conf", "home/.ssh"]);
        self.node(&format!("dir {folder}"));
        self.node(&format!("file {folder}/s1"));
        let onto = self.pick(&["out/again", "w/again", "home/again"]);
        self.node(&format!("bind {folder} {onto}"));
        let list = self.pick(&["--deny-read", "--deny-read", "--deny-write"]);
        let below = self.pick(&["", "", "/s1"]);
        self.flag(list, &format!("{folder}{below}"));
        self.inside(0, &[format!("read {onto}/s1"), format!("write {onto}/s1"), "sweep".into()]);
    }

    /// Globs, with links on the way.
    pub(in crate::attack::generate) fn globs(&mut self) {
        for _ in 0..self.rng.between(1, 3) {
            self.node("link out/ls sec");
            self.node("link w/lc conf");
            self.node("link w/abs {top}/out/sec");
            let list =
                self.pick(&["--deny-read", "--deny-read", "--deny-write", "--allow-write", "--allow-read"]);
            let glob = self.pick(&[
                "w/*",
                "w/**",
                "w/*/key",
                "w/lc/*.conf",
                "w/lc/k?y",
                "out/ls/*",
                "out/*/s1",
                "w/abs/*",
                "**/.env",
                "w/l*/*",
                "out/**/*.conf",
                "w/.e*",
                "home/.*",
                "w/sub/**/g*",
                "out/s*",
            ]);
            self.flag(list, glob);
        }
        let line = self.pick(&[
            "read w/lc/key",
            "write w/lc/open.conf",
            "read out/ls/s1",
            "write w/conf/key",
            "read w/abs/s2.conf",
        ]);
        self.inside(0, &[line, "sweep"]);
    }
}
