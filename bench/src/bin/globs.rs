//! What globs cost: rules with `**` over a tree of 200,000 files, beside `find` over the same tree. However many globs
//! there are, the tree is walked once.

use kennel_bench::fixture::Folder;
use kennel_bench::rounds::{Way, take_turns};
use kennel_bench::{Failure, programs, quick, table};

fn main() -> std::process::ExitCode {
    kennel_bench::run(globs)
}

fn globs() -> Result<(), Failure> {
    let tree = Folder::new("globs")?;
    let (folders, per_folder) = if quick() { (100, 100) } else { (1000, 200) };
    tree.fill(folders, per_folder)?;
    std::fs::write(tree.path().join("part-1/module-1/server.pem"), "")?;
    let globs: Vec<String> = ["pem", "key", "p12", "env", "secret", "token", "pfx", "jks"]
        .map(|end| tree.text(&format!("**/*.{end}")))
        .into();
    let flags = |count: usize| -> Vec<&str> {
        globs[..count].iter().flat_map(|glob| ["--deny-read", glob.as_str()]).collect()
    };
    let kennel = |count: usize| -> Result<_, Failure> {
        let mut command = programs::kennel(&flags(count))?;
        command.arg("/bin/true");
        Ok(command)
    };
    let mut ways = vec![
        Way::command("kennel, no globs", kennel(0)?),
        Way::command("kennel, 1 glob", kennel(1)?),
        Way::command("kennel, 8 globs", kennel(globs.len())?),
    ];
    if let Some(find) = programs::installed("find") {
        ways.push(Way::command("find", programs::quiet(&find, &[&tree.text(""), "-name", "*.pem"])));
    }
    take_turns(&mut ways, if quick() { 3 } else { 15 })?;
    println!("`/bin/true`, a tree of {} files.\n", folders * per_folder);
    let against = if ways.len() > 3 { &[3][..] } else { &[] };
    println!("{}", table::of(&ways, against));
    Ok(())
}
