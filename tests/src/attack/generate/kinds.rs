//! What each kind of attack adds to a history.

use super::Draft;
use crate::attack::script::Run;

impl Draft<'_> {
    /// The host replaces, removes, makes and moves what rules are about.
    pub(super) fn replaced(&mut self) {
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

    /// The report's place is within reach of the sandbox.
    pub(super) fn report(&mut self) {
        let path = self.pick(&["w/r.json", "w/sub/r.json", "out/r.json", "w/a", "w/conf/r.json"]);
        self.run().report = Some(path.into());
        let folder = path.rsplit_once('/').map_or("w", |(folder, _)| folder);
        let victim = self.pick(&["out/victim", "home/.bashrc", "out/absent", "out/data", "out/sec/s1"]);
        for _ in 0..self.rng.between(1, 3) {
            let lines: Vec<String> = match self.rng.below(6) {
                0..=1 => vec![format!("unlink {path}"), format!("symlink {{top}}/{victim} {path}")],
                2 => vec![format!("unlink {path}"), format!("fifo {path}")],
                3 => vec![format!("unlink {path}"), format!("mkdir {path}")],
                4 => vec![format!("rename {folder} {folder}.old"), format!("symlink {{top}}/out {folder}")],
                _ => vec![format!("unlink {path}"), format!("link {victim} {path}")],
            };
            self.inside(0, &lines);
        }
        if self.rng.chance(30) {
            self.host(&["await 2", "replace out/victim", "go 2"]);
            self.inside(0, &["sync 2"]);
        }
    }

    /// Denied names that do not exist, and a path that changes while it is looked at.
    pub(super) fn race(&mut self) {
        let (denied, harmless, rule) = match self.rng.below(4) {
            0 | 1 => ("w/.git", "w/xgit", "w/.git"),
            2 => ("w/n", "w/m", "w/n/.git"),
            _ => ("w/sub/.mcp", "w/sub/xmcp", "w/sub/.mcp"),
        };
        self.node("dir w/sub");
        self.run()
            .flags
            .retain(|(flag, value)| !(flag == "--allow-write" || value == "w" || flag == "--reads"));
        self.flag("--allow-write", "w");
        let list = self.pick(&["--deny-write", "--deny-write", "--deny-read"]);
        self.flag(list, rule);
        if self.rng.chance(40) {
            self.inside(0, &[format!("flood {denied}.refused-by-kennel- 999")]);
        }
        let mode = self.pick(&["0755", "0755", "0555", "0000"]);
        self.inside(0, &["mkdir w/t", "mkdir w/t/.git", "put w/t/.git/f x", "put w/t/f x"]);
        if mode != "0755" {
            self.inside(0, &[format!("chmod w/t/.git {mode}"), format!("chmod w/t {mode}")]);
        }
        if self.rng.chance(25) && rule == "w/sub/.mcp" {
            // Without a change of memory: the folder itself is another one at each look.
            self.inside(0, &["mkdir w/other", "sync 6", "repeat 400 mkdir w/sub/.mcp"]);
            self.inside(1, &["sync 7", "flip w/sub w/other 60"]);
            self.host(&["await 6", "await 7", "go 7", "go 6"]);
            return;
        }
        let line = match self.rng.below(6) {
            0 => format!("race mkdir {harmless} {denied} 120"),
            1 => format!("race create {harmless} {denied} 120"),
            2 => format!("race symlink {harmless} {denied} 120"),
            3 => format!("race link w/t/f {harmless} {denied} 120"),
            _ => format!("race rename w/t {harmless} {denied} 120"),
        };
        self.inside(0, &[line]);
        if self.rng.chance(30) {
            let mode = self.pick(&["0555", "0755"]);
            self.inside(1, &[format!("chmod w {mode}"), "pause 1000".into()]);
        }
    }

    /// A first run leaves something behind for the rules of a second one.
    pub(super) fn planted(&mut self) {
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

    /// Limits, and cgroups that could be left.
    pub(super) fn limits(&mut self) {
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
    pub(super) fn special(&mut self) {
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
    pub(super) fn power(&mut self) {
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
    pub(super) fn streams(&mut self) {
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
    pub(super) fn binds(&mut self) {
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
    pub(super) fn globs(&mut self) {
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

    /// Repositories, and what git on the host would run later.
    pub(super) fn git(&mut self) {
        const EVIL: &str = "[core]%0A%09repositoryformatversion%20=%200%0A%09bare%20=%20false%0A%09fsmonitor%20=%20%22touch%20{mark};false%22%0A";
        const EVIL_TREE: &str = "[core]%0A%09repositoryformatversion%20=%200%0A%09bare%20=%20false%0A%09worktree%20=%20.%0A%09fsmonitor%20=%20%22touch%20{mark};false%22%0A";
        const SCRIPT: &str = "%23!/bin/sh%0Atouch%20{mark}%0A";
        if self.rng.chance(80) {
            self.node("repo w");
        }
        if self.rng.chance(30) {
            self.node("repo w/sub");
        }
        self.run().flags.retain(|(flag, _)| {
            !matches!(flag.as_str(), "--allow-write" | "--git" | "--profile" | "--reads" | "--precedence")
        });
        if self.rng.chance(30) {
            self.flag("--profile", "agent");
        } else {
            let level = self.pick(&[
                "hooks-and-config-read-only",
                "hooks-and-config-read-only",
                "hooks-read-only",
                "metadata-read-only",
            ]);
            self.flag("--allow-write", "w");
            self.flag("--git", level);
        }
        for _ in 0..self.rng.between(1, 3) {
            let folder = self.pick(&["w", "w/sub", "w/evil", "w/sub/deep"]);
            let lines: Vec<String> = match self.rng.below(10) {
                // The folder itself as a bare repository in disguise.
                0..=1 => vec![
                    format!("rename {folder}/.git/HEAD {folder}/.git/H"),
                    format!("mkdir {folder}/objects"),
                    format!("mkdir {folder}/refs"),
                    format!("put {folder}/HEAD ref:%20refs/heads/main%0A"),
                    format!("put {folder}/config {EVIL_TREE}"),
                ],
                // A repository of its own, which the one above lists.
                2..=3 => vec![
                    format!("git w init -q {}", folder.trim_start_matches("w/").replace('w', "evil")),
                    format!("git {folder} commit -q --allow-empty -m x"),
                    format!("put {folder}/.git/config {EVIL}"),
                    format!("git w add {}", folder.trim_start_matches("w/")),
                ],
                4 => vec![
                    format!("mkdir {folder}/.git"),
                    format!("mkdir {folder}/.git/objects"),
                    format!("mkdir {folder}/.git/refs"),
                    format!("put {folder}/.git/HEAD ref:%20refs/heads/main%0A"),
                    format!("put {folder}/.git/config {EVIL}"),
                ],
                5 => vec![
                    format!("put {folder}/.git/hooks/post-index-change {SCRIPT}"),
                    format!("put {folder}/.git/hooks/pre-commit {SCRIPT}"),
                ],
                6 => vec![
                    format!("put {folder}/.git/config {EVIL}"),
                    format!("put {folder}/.git/config.worktree {EVIL}"),
                ],
                // A pointer to a repository that is somewhere else.
                7 => vec![
                    "mkdir w/store".into(),
                    "mkdir w/store/objects".into(),
                    "mkdir w/store/refs".into(),
                    "put w/store/HEAD ref:%20refs/heads/main%0A".into(),
                    format!("put w/store/config {EVIL}"),
                    format!("rename {folder}/.git {folder}/.git.old"),
                    format!("put {folder}/.git gitdir:%20{{top}}/w/store%0A"),
                ],
                8 => vec![
                    format!("put {folder}/.git/commondir ../store%0A"),
                    "mkdir w/store".into(),
                    format!("put w/store/config {EVIL}"),
                ],
                _ => vec![
                    format!("rename {folder}/.git {folder}/.git2"),
                    format!("git {folder} init -q"),
                    format!("put {folder}/.git/config {EVIL}"),
                ],
            };
            self.inside(0, &lines);
        }
        if self.rng.chance(20) {
            let line = self.pick(&["gitconfig w", "gitinit w/sub"]);
            self.host(&["await 3", line, "go 3"]);
            let after =
                self.pick(&["append w/.git/config", "write w/.git/config", "put w/sub/.git/config x"]);
            self.inside(0, &["sync 3", after]);
        }
    }

    /// What others wait for.
    pub(super) fn grabs(&mut self) {
        let file = self.pick(&["out/victim", "w/a", "out/data/d1", "home/.bashrc"]);
        self.node(&format!("file {file}"));
        let (inside, host) = match self.rng.below(5) {
            0..=2 => (format!("lease {file}"), format!("open {file}")),
            3 => ("inotify 400".into(), "neighbour".into()),
            _ => (format!("lease {file}"), "neighbour".into()),
        };
        self.inside(1, &[inside, "sync 4".into()]);
        self.host(&["await 4".into(), host, "go 4".into()]);
    }

    /// Ways out by the network.
    pub(super) fn network(&mut self) {
        match self.rng.below(4) {
            0 => self.flag("--allow-domain", "example.com"),
            1 => self.flag("--allow-domain", "localhost:1"),
            _ => {}
        }
        for _ in 0..self.rng.between(1, 3) {
            let host = self.pick(&[
                "127.0.0.1",
                "localhost",
                "0.0.0.0",
                "::1",
                "127.1",
                "::ffff:127.0.0.1",
                "host.kennel.internal",
                "example.com",
            ]);
            let verb = self.pick(&["tcp", "tcp", "udp", "proxy"]);
            self.inside(0, &[format!("{verb} {host} {{port}}")]);
        }
    }

    /// Daemons of the host's.
    pub(super) fn sockets(&mut self) {
        self.node("sock out/d1.sock");
        self.node("sock w/d2.sock");
        match self.rng.below(5) {
            0 => self.flag("--unix-sockets", "listed"),
            1..=2 => self.flag("--allow-unix-socket", "out/d1.sock"),
            _ => {}
        }
        for _ in 0..self.rng.between(1, 4) {
            let line = self.pick(&[
                "unix out/d1.sock",
                "unix w/d2.sock",
                "sock w/own.sock",
                "exchange w/own.sock w/d2.sock",
                "unix w/own.sock",
                "rename w/d2.sock w/d3.sock",
                "unix w/d3.sock",
                "symlink {top}/out/d1.sock w/s",
                "unix w/s",
                "unlink out/d1.sock",
            ]);
            self.inside(0, &[line]);
        }
    }

    /// Settings of kennel's own, for the next run.
    pub(super) fn settings(&mut self) {
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
    pub(super) fn obstacles(&mut self) {
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
                3 => vec![format!("symlink {} {place}", crate::attack::word::name(place))],
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

    /// A second sandbox starts in the same tree, while the first one moves the ground under it.
    pub(super) fn beside(&mut self) {
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
}
