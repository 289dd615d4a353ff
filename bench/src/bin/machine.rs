//! The machine that the other benchmarks run on, so that their numbers can be judged.

use std::fs;
use std::process::Command;

fn main() {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let processor = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = processor.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, value)| value).to_owned()
    };
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let virtualised = match field("flags").split(' ').any(|flag| flag == "hypervisor") {
        true if vendor.is_empty() => "yes".to_owned(),
        true => format!("yes ({vendor})"),
        false => "no".to_owned(),
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read("/proc/meminfo");
    let memory =
        memory.lines().next().and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok());
    let system = read("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    println!("- kernel: Linux {}", read("/proc/sys/kernel/osrelease"));
    println!("- system: {}", system.trim_matches('"'));
    println!("- processor: {}, {cores} of them usable; virtualised: {virtualised}", field("model name"));
    println!("- memory: {:.0} GiB", memory.unwrap_or(0.0) / f64::from(1 << 20));
    println!(
        "- load before the run: {}",
        read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
    );
    println!("- kennel: {}", version(&beside("kennel"), "version"));
    println!("- bwrap: {}; git: {}", version("bwrap", "--version"), version("git", "--version"));
}

fn beside(name: &str) -> String {
    let path = std::env::current_exe().map(|path| path.with_file_name(name));
    path.map_or(name.to_owned(), |path| path.display().to_string())
}

fn version(program: &str, word: &str) -> String {
    let output = Command::new(program).arg(word).output();
    output.map_or("not installed".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
