//! kennel under other names beside the programs of these names, and the search for repositories in a large workspace.

use std::process::Command;

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

fn main() -> std::process::ExitCode {
    kennel_bench::run(dropins)
}

fn dropins() -> Result<(), Failure> {
    srt()?;
    codex()?;
    workspace()
}

/// kennel by another name.
fn named(name: &str, folder: &Folder) -> Result<Command, Failure> {
    let link = folder.path().join(name);
    if !link.exists() {
        std::os::unix::fs::symlink(programs::beside("kennel")?, &link)?;
    }
    Ok(programs::quiet(&link, &[]))
}

/// `srt -c true` with an allow list and a write root.
fn srt() -> Result<(), Failure> {
    let folder = Folder::new("srt")?;
    let work = folder.path().join("work");
    std::fs::create_dir(&work)?;
    let settings = folder.path().join("settings.json");
    let text = r#"{"network": {"allowedDomains": ["example.com"], "deniedDomains": []},
        "filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}"#;
    std::fs::write(&settings, text)?;
    let words = ["-s".as_ref(), settings.as_os_str(), "-c".as_ref(), "true".as_ref()];
    let mut kennel = named("srt", &folder)?;
    kennel.args(words).current_dir(&work).env("HOME", folder.path());
    let mut ways = vec![Way::command("kennel as srt", kennel)];
    if let Some(mut real) = programs::srt() {
        real.args(words);
        real.current_dir(&work).env("HOME", folder.path());
        ways.push(Way::command("srt 0.0.83", real));
    }
    let rounds = if quick() { 3 } else { 50 };
    take_turns(&mut ways, rounds)?;
    println!("`srt -c true` with an allow list and a write root, {rounds} rounds.\n");
    println!("{}", table::of(&ways, &[0]));
    if ways.len() > 1 {
        print!("{}", table::goal("kennel × srt", table::ratio(&ways[0], &ways[1]), 0.01));
    }
    Ok(())
}

/// A workspace that can be written, in a repository.
fn codex() -> Result<(), Failure> {
    let folder = Folder::new("codex")?;
    let work = folder.path().join("work");
    std::fs::create_dir_all(work.join(".git/hooks"))?;
    std::fs::write(work.join(".git/config"), "")?;
    let place = work.display().to_string();
    let profile = r#"{"type":"managed","file_system":{"type":"restricted","entries":[
        {"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
        {"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}]},"network":"restricted"}"#;
    let words = ["--sandbox-policy-cwd", &place, "--permission-profile", profile, "--", "/bin/true"];
    let mut kennel = named("codex-linux-sandbox", &folder)?;
    kennel.args(words).current_dir(&work).env("HOME", folder.path());
    let mut ways = vec![Way::command("kennel as codex-linux-sandbox", kennel)];
    if let Some(modules) = programs::peers("Codex") {
        let short = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let codex = modules.join(format!("@openai/codex-linux-{short}/vendor/{triple}/bin/codex"));
        // The helper is the command itself under the other name, by which it also calls itself inside.
        let place = folder.path().join("real");
        std::fs::create_dir(&place)?;
        std::os::unix::fs::symlink(&codex, place.join("codex-linux-sandbox"))?;
        let mut real = programs::quiet(&place.join("codex-linux-sandbox"), &[]);
        real.args(words).current_dir(&work).env("HOME", folder.path());
        ways.push(Way::command("codex-linux-sandbox 0.166", real));
    }
    let rounds = if quick() { 3 } else { 200 };
    take_turns(&mut ways, rounds)?;
    println!(
        "\n`codex-linux-sandbox … -- /bin/true` with a workspace that can be written, {rounds} rounds.\n"
    );
    println!("{}", table::of(&ways, &[0]));
    if ways.len() > 1 {
        print!("{}", table::goal("kennel × codex-linux-sandbox", table::ratio(&ways[0], &ways[1]), 0.1));
    }
    Ok(())
}

/// 100,000 files, 300 repositories in them and a `node_modules`: what it costs to find and keep these.
fn workspace() -> Result<(), Failure> {
    const REPOSITORIES: usize = 300;
    let folder = Folder::new("workspace")?;
    folder.fill(3000, 22)?;
    for number in 0..REPOSITORIES {
        repository(&folder.path().join(format!("part-{}/repository-{number}", number % 20)))?;
    }
    for package in 0..1500 {
        let lib = folder.path().join(format!("node_modules/package-{package}/lib"));
        std::fs::create_dir_all(&lib)?;
        for file in 0..19 {
            std::fs::write(lib.join(format!("{file}.js")), "")?;
        }
    }
    repository(folder.path())?;
    let place = folder.text("");
    let kennel = |level: &str| -> Result<Command, Failure> {
        let mut command = programs::kennel(&["--allow-write", &place, "--git", level])?;
        command.arg("/bin/true");
        Ok(command)
    };
    let mut ways = vec![
        Way::command("off", kennel("off")?),
        Way::command("metadata-read-only", kennel("metadata-read-only")?),
        Way::command("hooks-and-config-read-only", kennel("hooks-and-config-read-only")?),
    ];
    let rounds = if quick() { 5 } else { 100 };
    take_turns(&mut ways, rounds)?;
    println!(
        "\n`--git LEVEL` in a workspace of 100,000 files with {REPOSITORIES} repositories, {rounds} rounds.\n"
    );
    println!("{}", table::of(&ways, &[0]));
    for (way, name) in ways.iter().zip(["off", "metadata-read-only", "hooks-and-config-read-only"]).skip(1) {
        print!("{}", table::goal(&format!("{name}, in ms"), way.median().as_secs_f64() * 1000.0, 40.0));
    }
    Ok(())
}

/// What `git init` makes, as far as it matters here.
fn repository(place: &std::path::Path) -> Result<(), Failure> {
    let git = place.join(".git");
    for name in ["hooks", "info", "objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        std::fs::create_dir_all(git.join(name))?;
    }
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n")?;
    std::fs::write(git.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")?;
    Ok(())
}
