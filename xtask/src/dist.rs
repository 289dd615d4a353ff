//! `cargo xtask dist`: what a release consists of.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::{cargo, elf};

/// Builds `dist/`: the static binaries, the manual page, the completions, the licences.
///
/// # Errors
/// When something does not build, or a binary is not static.
pub fn dist() -> Result<(), Failure> {
    let programs = cargo::build_release(&["kennel-cli", "kennel-entrypoint"])?;
    let folder = cargo::root().join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    for name in ["kennel", "kennel-entrypoint"] {
        let place = bin.join(name);
        fs::copy(&cargo::binary(&programs, name)?.path, &place)?;
        elf::expect_static(&place)?;
        println!("bin/{name}: static, {} bytes", fs::metadata(&place)?.len());
    }
    let kennel = bin.join("kennel");
    for (words, place) in [
        (["man", ""], "share/man/man1/kennel.1"),
        (["completions", "bash"], "share/bash-completion/completions/kennel"),
        (["completions", "zsh"], "share/zsh/site-functions/_kennel"),
        (["completions", "fish"], "share/fish/vendor_completions.d/kennel.fish"),
        (["schema", ""], "share/kennel/settings.schema.json"),
    ] {
        let words = words.iter().filter(|word| !word.is_empty());
        keep_output(Command::new(&kennel).args(words), &folder.join(place))?;
        println!("{place}");
    }
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(cargo::root().join(name), folder.join(name))?;
        println!("{name}");
    }
    Ok(())
}

fn keep_output(command: &mut Command, place: &Path) -> Result<(), Failure> {
    let output = command.output()?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("writing {}: {command:?}: {}", place.display(), output.status).into());
    }
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(place, output.stdout)?)
}
