//! What every history has: a tree, a policy, and operations on any path.

use super::Draft;
use crate::attack::script::{Op, Run};

/// Nodes that most trees have. The folders are `w`, where a sandbox usually works, `home`, which kennel takes for the
/// user's, and `out` beside them.
const NODES: &[&str] = &[
    "file w/a",
    "file w/.env",
    "dir w/conf",
    "file w/conf/key",
    "file w/conf/open.conf",
    "dir w/sub",
    "file w/sub/f",
    "dir w/sub/deep",
    "file w/sub/deep/g.conf",
    "file out/victim",
    "dir out/sec",
    "file out/sec/s1",
    "file out/sec/s2.conf 0600",
    "file out/sec/KCNRY00000000000001",
    "dir out/data",
    "file out/data/d1",
    "file home/.bashrc",
    "file home/.ssh/id 0600",
    "file home/.netrc",
    "dir home/.config",
];

/// Nodes that some trees have.
const EXTRAS: &[&str] = &[
    "link w/l ../out",
    "link w/lf ../out/victim",
    "link w/lc conf",
    "link w/sub/up ..",
    "link w/dangling nowhere",
    "link w/abs {top}/out/sec",
    "link out/lw ../w",
    "link out/ls sec",
    "link home/work ../w",
    "hard w/h w/a",
    "hard w/hv out/victim",
    "hard out/data/h2 out/data/d1",
    "fifo w/pipe",
    "fifo out/pipe",
    "file w/two%20words",
    "file w/-dash",
    "file w/line%0Abreak",
    "file w/%FF%FEodd",
    "dir w/a.very.long.name.that.goes.on.and.on.and.on.until.nobody.wants.to.read.it.any.more.and.then.some.more",
    "dir w/1/2/3/4/5/6",
    "file w/1/2/3/4/5/6/deep",
    "dir w/shut 0500",
    "file w/shut/f",
    "file w/ro 0400",
];

/// Names that no tree has at first.
pub(super) const ABSENT: &[&str] = &[
    "w/.git",
    "w/new",
    "w/.mcp.json",
    "w/conf/new",
    "w/sub/.git",
    "w/x/y",
    "out/new",
    "home/.aws",
    "home/.aws/key",
];

/// How a path can be given to the kernel.
const WAYS: &[&str] = &["@dirfd", "@procfd", "@root", "@thread", "@dots", "@slashes"];

impl Draft<'_> {
    pub(super) fn base(&mut self) {
        for folder in ["dir w", "dir out", "dir home"] {
            self.node(folder);
        }
        for node in NODES {
            if self.rng.chance(75) {
                self.node(node);
            }
        }
        for _ in 0..self.rng.between(0, 4) {
            let node = self.rng.pick(EXTRAS);
            self.add_extra(node);
        }
        self.runs.push(Run::default());
        self.policy();
        for actor in 0..self.rng.between(1, 3) {
            for _ in 0..self.rng.between(1, 5) {
                let line = self.operation();
                self.inside(actor, &[line]);
            }
        }
    }

    /// A node that may need another one first.
    fn add_extra(&mut self, node: &str) {
        let op = Op::of(node);
        if op.verb == "hard" {
            self.node(&format!("file {}", op.word(1)));
        }
        self.node(node);
    }

    /// Whether there is nothing to be added at the end.
    pub(super) fn finish(&mut self) {
        for index in 0..self.runs.len() {
            if self.rng.chance(60) {
                let run = &mut self.runs[index];
                if run.inside.is_empty() {
                    run.inside.push(Vec::new());
                }
                run.inside[0].push(Op::of("sweep"));
            }
        }
        // Nodes that kinds added may stand below others: the order is that of paths, but links and second names last.
        self.tree.sort_by_key(|node| match node.verb.as_str() {
            "dir" | "file" | "repo" => 0,
            "bind" => 2,
            _ => 1,
        });
        // Shut folders are shut when they are full.
        let shut: Vec<Op> =
            self.tree.iter().filter(|node| node.verb == "dir" && !node.word(1).is_empty()).cloned().collect();
        self.tree.retain(|node| !shut.contains(node));
        self.tree.extend(shut);
    }

    /// A path of the tree.
    pub(super) fn existing(&mut self) -> String {
        let paths: Vec<&str> = self
            .tree
            .iter()
            .map(|node| if node.verb == "bind" { node.word(1) } else { node.word(0) })
            .collect();
        self.rng.pick(&paths).to_owned()
    }

    /// A path that exists, or one that does not.
    pub(super) fn any_path(&mut self) -> String {
        match self.rng.below(10) {
            0..=6 => self.existing(),
            7 => {
                let folder = self.existing();
                format!("{folder}/{}", self.pick(&["f", "new", "key", ".git", "x"]))
            }
            _ => self.pick(ABSENT).to_owned(),
        }
    }

    /// A path in the folder where sandboxes work.
    pub(super) fn own_path(&mut self) -> String {
        for _ in 0..20 {
            let path = self.any_path();
            if path.starts_with("w/") {
                return path;
            }
        }
        "w/own".into()
    }

    /// A path that a rule of this run denies, if there is one.
    pub(super) fn denied(&mut self) -> String {
        let run = self.run();
        let denied: Vec<String> = run
            .all("--deny-read")
            .chain(run.all("--deny-write"))
            .filter(|path| !path.contains(['*', '?']))
            .map(str::to_owned)
            .collect();
        if denied.is_empty() { self.any_path() } else { self.rng.one_of(&denied).clone() }
    }

    /// A path worth attacking: one that is denied, or any.
    pub(super) fn target(&mut self) -> String {
        match self.rng.below(10) {
            0..=3 => self.denied(),
            4 => {
                let denied = self.denied();
                format!("{denied}/{}", self.pick(&["f", "s1", "key", "new"]))
            }
            5 if self.run().all("--mount").next().is_some() => {
                let name = self.pick(&["victim", "s1", "f", "new"]);
                format!("/mnt/a/{name}")
            }
            _ => self.any_path(),
        }
    }

    fn policy(&mut self) {
        let roots = ["w", "w", "w", "w", "w", "w", "w/sub", "w/conf", ".", "home", "out/data", ""];
        let write = self.pick(&roots);
        if !write.is_empty() {
            self.flag("--allow-write", write);
        }
        self.run().cwd = "w".into();
        // Mostly few rules, so that most of the tree can be read and written; sometimes many.
        let most = if self.rng.chance(20) { 6 } else { 3 };
        for _ in 0..self.rng.between(0, most) {
            let list = self.pick(&["--deny-read", "--deny-write"]);
            let path = if self.rng.chance(80) { self.any_path() } else { self.denied() };
            self.flag(list, &path);
        }
        for _ in 0..self.rng.below(most - 1) {
            let list = self.pick(&["--allow-read", "--allow-write"]);
            let path = self.existing();
            self.flag(list, &path);
        }
        if self.rng.chance(14) {
            self.flag("--reads", "listed");
        }
        for _ in 0..self.rng.below(8).saturating_sub(5) {
            let source =
                self.pick(&["out", "out/data", "w/sub", "out/sec", "w", "w/conf", "home", "w/l", "."]);
            let target = self.pick(&["/mnt/a", "/mnt/a", "/mnt/b", "w/sub", "out/data", "/mnt/a/sub"]);
            let access = self.pick(&["", ":rw"]);
            self.flag("--mount", &format!("{source}:{target}{access}"));
        }
        let seldom: [(usize, &str, &[&str]); 7] = [
            (4, "--tmpfs", &["w/sub", "/mnt/b", "out/sec", "w/conf"]),
            (4, "--precedence", &["deny-write"]),
            (7, "--profile", &["agent", "build"]),
            (3, "--host-tmp", &[""]),
            (6, "--seccomp", &["strict", "permissive"]),
            (4, "--user", &["root"]),
            (4, "--git", &["metadata-read-only", "hooks-and-config-read-only", "hooks-read-only"]),
        ];
        for (chance, flag, values) in seldom {
            if self.rng.chance(chance) {
                let value = self.pick(values);
                self.flag(flag, value);
            }
        }
    }

    /// Any operation on any path.
    pub(super) fn operation(&mut self) -> String {
        let (path, other) = (self.target(), self.own_path());
        let way = if self.rng.chance(25) { format!(" {}", self.pick(WAYS)) } else { String::new() };
        let slot = self.rng.between(5, 7);
        match self.rng.below(44) {
            0..=3 => format!("read {path}{way}"),
            4 => format!("list {path}"),
            5 => format!("readlink {path}{way}"),
            6..=8 => format!("write {path}{way}"),
            9 => format!("append {path}{way}"),
            10 => format!("create {path}{way}"),
            11 => format!("trunc {path}"),
            12 => format!("mmap {path}{way}"),
            13 => format!("copy {path} {other}"),
            14 => format!("tmpfile w {path}"),
            15..=16 => format!("mkdir {path}"),
            17 => format!("fifo {path}{way}"),
            18 => format!("rmdir {path}{way}"),
            19..=20 => format!("unlink {path}{way}"),
            21..=22 => format!("rename {path} {other}{way}"),
            23 => format!("rename {other} {path}{way}"),
            24 => format!("exchange {path} {other}{way}"),
            25 => format!("noreplace {other} {path}{way}"),
            26..=27 => format!("link {path} {other}{way}"),
            28 => format!("symlink {{top}}/{path} {other}{way}"),
            29 => {
                let to = self.existing();
                format!("symlink {{top}}/{to} {path}{way}")
            }
            30 => format!("chmod {path} {}{way}", self.pick(&["0000", "0777", "0644", "0555"])),
            31 => format!("utimes {path}{way}"),
            32 => format!("xattr {path} user.evil{way}"),
            33 => format!("open {path} {slot} {}", self.pick(&["r", "w", "rw", "path"])),
            34 => format!("reopen {slot} {} {slot}", self.pick(&["r", "w", "rw"])),
            35 => format!("fdwrite {slot}"),
            36 => format!("fdlink {slot} {other}"),
            37 => format!("pass {slot}"),
            38 => format!("take {slot}"),
            39 => format!("umount {path}"),
            40 => format!("mount {path} {other}"),
            41 => self
                .pick(&["ptrace", "unshare", "chdir w/sub", "kill init", "node w/node", "procs"])
                .to_owned(),
            42 => {
                let verb = self.pick(&["write", "read", "unlink", "mkdir"]);
                format!("daemon {} {verb} {path}", self.pick(&["0", "500", "20000"]))
            }
            _ => format!("pause {}", self.pick(&["0", "100", "1000"])),
        }
    }
}
