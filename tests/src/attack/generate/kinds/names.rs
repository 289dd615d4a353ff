//! Paths that are not what they were when kennel looked: the report's, and those that the guard looks at.

use crate::attack::generate::Draft;

impl Draft<'_> {
    /// The report's place is within reach of the sandbox.
    pub(in crate::attack::generate) fn report(&mut self) {
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
    pub(in crate::attack::generate) fn race(&mut self) {
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
}
