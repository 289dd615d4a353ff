//! What a program that starts sandboxes holds, and its zygote: counted where the kernel keeps it.

use std::fmt;
use std::fs;

use kennel_tests::leftovers::children_of;

/// What may not grow with the number of sandboxes that have been.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    counts: Vec<(String, u64)>,
}

impl Holdings {
    /// Those of this process and of others: of its zygote, of the PID 1 of its session. Of PID 1 only root learns some of
    /// it; to others that is nothing, before and after.
    pub fn now(others: &[(&str, Option<u32>)]) -> Holdings {
        let mut counts = Vec::new();
        let others = others.iter().filter_map(|(name, pid)| Some((*name, (*pid)?)));
        for (name, pid) in [("controller", std::process::id())].into_iter().chain(others) {
            let mut add = |what: &str, count: u64| counts.push((format!("{what} of the {name}"), count));
            // Reading a folder takes a descriptor itself, each time.
            add("descriptors", entries(&format!("/proc/{pid}/fd")));
            add("threads", entries(&format!("/proc/{pid}/task")));
            // Without those that another test has made in a folder of its own meanwhile.
            add("mounts", lines_without(&format!("/proc/{pid}/mountinfo"), Some("kennel-test")));
            add("mappings", lines_without(&format!("/proc/{pid}/maps"), None));
            add("kB of memory", resident(pid));
            add("children", children_of(pid).len() as u64);
            add("children that nobody waited for", zombies(pid));
        }
        Holdings { counts }
    }

    /// What has grown since `before`, by more than it may: memory by a little, because allocators keep some.
    pub fn grown_since(&self, before: &Holdings) -> Vec<String> {
        let allowed = |what: &str| match what.split(" of the ").next() {
            // It keeps up to sixteen networks that nobody has used, and holds two descriptors for each that is lent.
            Some("descriptors") if what.ends_with("lender of networks") => 48,
            Some("kB of memory") => 2048,
            Some("mappings") => 16,
            _ => 0,
        };
        let both = self.counts.iter().zip(&before.counts);
        both.filter(|((what, after), (_, before))| *after > before + allowed(what))
            .map(|((what, after), (_, before))| format!("{before} {what} became {after}"))
            .collect()
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&counts.join(", "))
    }
}

fn entries(folder: &str) -> u64 {
    fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}

fn lines_without(file: &str, word: Option<&str>) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| word.is_none_or(|word| !line.contains(word))).count() as u64
}

fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4)
}

fn zombies(pid: u32) -> u64 {
    let is_zombie =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    children_of(pid).iter().filter(|pid| is_zombie(pid)).count() as u64
}

/// Namespaces and mounts that the kernel has, whoever holds them; `None` where only root may know. Others make some as well,
/// and the kernel takes its time to free them: what is left of each sandbox shows only in the number of many.
pub fn of_the_kernel() -> Option<Vec<(String, u64)>> {
    let text = fs::read_to_string("/proc/slabinfo").ok()?;
    let counted = ["net_namespace", "pid_namespace", "user_namespace", "mnt_cache"];
    let counts = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|name| counted.contains(name))?;
        Some((name.to_owned(), words.next()?.parse().ok()?))
    });
    Some(counts.collect())
}

/// Sockets with a name of kennel's.
pub fn named_sockets() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    text.lines()
        .filter(|line| {
            line.contains("kennel") && !line.contains("kennel-test") && !line.contains("kennel-attack")
        })
        .map(str::to_owned)
        .collect()
}
