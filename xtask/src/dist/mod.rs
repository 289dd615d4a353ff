//! `cargo xtask dist`: what a release consists of.
//!
//! For each architecture static binaries with their manual, completions and documents, as an archive, as a Debian package and
//! as an RPM; a bill of materials; the source; the install script and the files for other package managers with the
//! version and the checksums in them; and `SHA256SUMS` over all of it. The same source gives the same bytes.

mod again;
mod contents;
mod crates;
mod date;
mod deb;
mod digest;
mod publish;
mod release;
mod rpm;
mod sbom;
mod templates;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::debian::run;
use crate::packages::in_path;
use crate::static_linux::StaticLinux;
use crate::{cargo, elf};
use contents::{Contents, gzip};
pub use digest::sha256;
pub use publish::publish;
use release::{Release, root_file};

/// The programs of a release.
const PACKAGES: [&str; 2] = ["kennel-cli", "kennel-entrypoint"];

/// What was asked for.
struct Wanted {
    architectures: Vec<&'static str>,
    install: bool,
    /// The tag that the release is to have.
    tag: Option<String>,
    /// Whether to build it a second time, and compare.
    twice: bool,
}

/// Builds `dist/`.
///
/// # Errors
/// When something does not build, or a binary is not static.
pub fn dist(words: &[String]) -> Result<(), Failure> {
    let wanted = parse(words)?;
    let release = Release::read()?;
    if let Some(tag) = &wanted.tag {
        expect_tag(&release, tag)?;
    }
    let folder = cargo::root().join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut pages = None;
    for arch in &wanted.architectures {
        let is_ours = *arch == std::env::consts::ARCH;
        let platform = match StaticLinux::find(arch, wanted.install) {
            Ok(platform) => platform,
            Err(reason) if is_ours => return Err(reason.into()),
            Err(reason) => {
                println!("SKIPPED: dist for {arch}: {reason}");
                continue;
            }
        };
        println!("{arch}: building for {}", platform.target);
        build(&release, arch, &platform, &mut pages, &folder)?;
    }
    write_source(&release, &folder)?;
    templates::fill(&release, &folder)?;
    let sums = checksums(&folder)?;
    fs::write(folder.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    publish::sign(&folder)?;
    if wanted.twice {
        again::compare(&wanted.architectures, &sums)?;
    }
    Ok(())
}

/// A release is called after its version.
fn expect_tag(release: &Release, tag: &str) -> Result<(), Failure> {
    let expected = format!("v{}", release.version);
    if tag == expected {
        return Ok(());
    }
    Err(format!("the tag is {tag}, and Cargo.toml has the version of {expected}").into())
}

/// Debian's package for an architecture, made now unless it is there.
///
/// # Errors
/// When it cannot be made.
pub fn debian_package(arch: &str) -> Result<PathBuf, Failure> {
    let package = cargo::root().join("dist").join(deb::file_name(&Release::read()?, arch));
    if !package.exists() {
        dist(&[arch.to_owned()])?;
    }
    Ok(package)
}

/// This machine's architecture comes first: its kennel writes the manual for all.
fn parse(words: &[String]) -> Result<Wanted, Failure> {
    let all = if std::env::consts::ARCH == "aarch64" { ["aarch64", "x86_64"] } else { ["x86_64", "aarch64"] };
    let mut wanted = Wanted { architectures: Vec::new(), install: true, tag: None, twice: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--tag" => wanted.tag = Some(words.next().ok_or("dist: --tag requires a value")?.clone()),
            "--twice" => wanted.twice = true,
            "--no-install" => wanted.install = false,
            name => {
                let known = all.iter().find(|known| **known == name);
                wanted
                    .architectures
                    .push(known.ok_or_else(|| {
                        format!("dist: unexpected argument {name}; try {}", all.join(", "))
                    })?);
            }
        }
    }
    if wanted.architectures.is_empty() {
        wanted.architectures = all.to_vec();
    }
    wanted.architectures.sort_by_key(|arch| *arch != std::env::consts::ARCH);
    Ok(wanted)
}

/// What is in every package whatever its architecture.
type Pages = Contents;

fn build(
    release: &Release,
    arch: &'static str,
    platform: &StaticLinux,
    pages: &mut Option<Pages>,
    folder: &Path,
) -> Result<(), Failure> {
    let built = platform.build_release(&PACKAGES)?;
    let mut programs = Vec::new();
    for name in ["kennel", "kennel-entrypoint"] {
        let path = &cargo::binary(&built.programs, name)?.path;
        elf::expect_static(path)?;
        elf::expect_architecture(path, arch)?;
        programs.push((name, fs::read(path)?));
    }
    let pages = match pages {
        Some(pages) => pages,
        None => pages.insert(write_pages(&cargo::binary(&built.programs, "kennel")?.path)?),
    };
    let linked = crates::linked(&PACKAGES, &platform.target)?;
    for id in &built.libraries {
        if !linked.contains_key(id) {
            return Err(format!("{} {} was linked and is not in the bill of materials", id.0, id.1).into());
        }
    }
    let bytes: Vec<(&str, &[u8])> = programs.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let rust = run(cargo::rustc().arg("--version"))?;
    let rust = rust.split(' ').nth(1).unwrap_or_default();
    let about = sbom::About {
        target: &platform.target,
        version: &release.version,
        rust,
        time: release.time,
        programs: &bytes,
    };
    let bill = sbom::write(&about, &linked);

    let mut files = pages.clone();
    files.program("bin/kennel", programs[0].1.clone());
    files.program("libexec/kennel/kennel-entrypoint", programs[1].1.clone());
    let licences = gzip(crates::licence_texts(&linked)?.as_bytes())?;
    files.file("share/doc/kennel/third-party-licences.txt.gz", licences);
    files.file("share/doc/kennel/sbom.cdx.json.gz", gzip(bill.as_bytes())?);

    let name = format!("kennel-{}-{arch}-linux", release.version);
    files.write(&folder.join(&name))?;
    fs::write(folder.join(format!("{name}.cdx.json")), bill)?;
    fs::write(folder.join(format!("{name}.tar.gz")), gzip(&files.tar(&format!("{name}/"), release.time))?)?;
    fs::write(folder.join(rpm::file_name(release, arch)), rpm::pack(release, arch, &files)?)?;
    let package = folder.join(deb::file_name(release, arch));
    fs::write(&package, deb::pack(release, arch, &files)?)?;
    check_package(&package)
}

/// The manual, completions and documents; `kennel` is a program of this machine.
fn write_pages(kennel: &Path) -> Result<Pages, Failure> {
    let mut pages = Contents::default();
    for (words, place) in [
        (["completions", "bash"].as_slice(), "share/bash-completion/completions/kennel"),
        (&["completions", "zsh"], "share/zsh/vendor-completions/_kennel"),
        (&["completions", "fish"], "share/fish/vendor_completions.d/kennel.fish"),
        (&["schema"], "share/kennel/settings.schema.json"),
    ] {
        pages.file(place, output(Command::new(kennel).args(words))?);
    }
    pages.file("share/man/man1/kennel.1.gz", gzip(&output(Command::new(kennel).arg("man"))?)?);
    pages.file("share/kennel/apparmor/kennel", root_file("packaging/apparmor/kennel")?);
    // Folders to put in front of PATH for programs that start others by these names.
    for name in ["srt", "codex-linux-sandbox"] {
        pages.link(&format!("libexec/kennel/names/{name}"), "../../../bin/kennel");
    }
    let doc = "share/doc/kennel";
    for name in ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        pages.file(&format!("{doc}/{name}"), root_file(name)?);
    }
    for entry in fs::read_dir(cargo::root().join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.file(&format!("{doc}/docs/{name}"), root_file(&format!("docs/{name}"))?);
        }
    }
    Ok(pages)
}

fn output(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let output = command.output()?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Ok(output.stdout)
}

/// Lintian's opinion, where there is one. An error of its is one of the release.
fn check_package(package: &Path) -> Result<(), Failure> {
    if in_path("lintian").is_none() {
        println!("note: there is no lintian to check {}", package.display());
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error", "--no-tag-display-limit"]).arg(package);
    let output = lintian.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !said.trim().is_empty() {
        println!("{}", said.trim());
    }
    if output.status.success() { Ok(()) } else { Err(format!("lintian: {}", package.display()).into()) }
}

/// The source as the last commit has it.
fn write_source(release: &Release, folder: &Path) -> Result<(), Failure> {
    let mut git = Command::new("git");
    git.args(["archive", "--format=tar", &format!("--prefix=kennel-{}/", release.version), "HEAD"]);
    match output(git.current_dir(cargo::root())) {
        Ok(tar) => Ok(fs::write(source_archive(release, folder), gzip(&tar)?)?),
        Err(error) => {
            println!("SKIPPED: the archive of the source: {error}");
            Ok(())
        }
    }
}

fn source_archive(release: &Release, folder: &Path) -> PathBuf {
    folder.join(format!("kennel-{}-source.tar.gz", release.version))
}

/// A line for each file of the folder, as `sha256sum` reads it.
fn checksums(folder: &Path) -> Result<String, Failure> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let mut sums = String::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sums += &format!("{}  {name}\n", digest::sha256(&fs::read(&path)?));
    }
    Ok(sums)
}
