//! Files of Debian packages, without installing them: fetched and unpacked into a folder. Packages may be for another
//! architecture than this machine's (`amd64`, `arm64`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The architecture of packages that are the same for all, and of those for this machine.
const HERE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

/// A folder with the unpacked files of one Debian package, fetched once.
pub fn unpacked(state: &Path, suite: &str, architecture: &str, package: &str) -> Result<PathBuf, String> {
    let folder = state.join(format!("{package}-{suite}-{architecture}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let apt = Apt::new(state, suite, architecture)?;
    apt.update()?;
    unpack(&apt, &[package.to_owned()], &folder)
}

/// A folder with the files of the kernel that a suite's `linux-image-cloud-…` stands for: the image and its modules.
pub fn unpacked_kernel(state: &Path, suite: &str, architecture: &str) -> Result<PathBuf, String> {
    let folder = state.join(format!("linux-{suite}-{architecture}"));
    if folder.is_dir() {
        return Ok(folder);
    }
    let apt = Apt::new(state, suite, architecture)?;
    apt.update()?;
    let package = format!("linux-image-cloud-{architecture}");
    let image = apt.dependency(&package).ok_or_else(|| format!("{suite} has no {package}"))?;
    // From some release on the image is in a package of its own beside the modules.
    let binary = image.replacen("linux-image-", "linux-binary-", 1);
    let modules = image.replacen("linux-image-", "linux-modules-", 1);
    let packages = if apt.knows(&binary) { vec![binary, modules] } else { vec![image] };
    unpack(&apt, &packages, &folder)
}

/// Downloads packages and unpacks them into one folder, which is complete once it has its name.
fn unpack(apt: &Apt, packages: &[String], folder: &Path) -> Result<PathBuf, String> {
    let partial = partial(folder);
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    for package in packages {
        let archive = apt.download(package, &partial)?;
        run(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&partial))?;
        let _ = fs::remove_file(&archive);
    }
    fs::rename(&partial, folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder.to_owned())
}

/// Where a folder grows: its name alone, as `with_extension` would cut `6.1`.
fn partial(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Some Debian packages with all that they depend on, fetched and unpacked once into the folder `name`.
pub fn unpacked_with_dependencies(
    state: &Path,
    suite: &str,
    architecture: &str,
    name: &str,
    packages: &[&str],
) -> Result<PathBuf, String> {
    let folder = state.join(format!("{name}-{suite}-{architecture}"));
    // What it was made of: another list of packages makes another folder.
    let list = packages.join(" ");
    if fs::read_to_string(folder.join(LIST)).is_ok_and(|text| text == list) {
        return Ok(folder);
    }
    let apt = Apt::new(state, suite, architecture)?;
    apt.update()?;
    let partial = partial(&folder);
    let _ = fs::remove_dir_all(&partial);
    let archives = partial.join("archives");
    fs::create_dir_all(archives.join("partial"))
        .map_err(|error| format!("{}: {error}", partial.display()))?;
    apt.download_with_dependencies(packages, &archives)?;
    let entries = fs::read_dir(&archives).map_err(|error| format!("{}: {error}", archives.display()))?;
    for archive in entries.flatten().filter(|entry| is_package(&entry.path())) {
        run(Command::new("dpkg-deb").arg("--extract").arg(archive.path()).arg(&partial))?;
    }
    let _ = fs::remove_dir_all(&archives);
    fs::write(partial.join(LIST), list).map_err(|error| format!("{}: {error}", partial.display()))?;
    let _ = fs::remove_dir_all(&folder);
    fs::rename(&partial, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The file that tells which packages were asked for.
pub const LIST: &str = "packages";

/// Suites that have newer packages than most hosts, the ones that change least first.
const SUITES: [&str; 4] = ["stable-backports", "stable", "testing", "unstable"];

/// A folder of a Debian package in the version of one release of what it packs, of whichever suite has that, fetched and
/// unpacked once.
pub fn unpacked_folder(state: &Path, package: &str, release: &str, part: &str) -> Result<PathBuf, String> {
    let folder = state.join(format!("{package}-{release}"));
    if folder.is_dir() {
        return Ok(folder.join(part));
    }
    let mut failure = format!("Debian has no {package} {release}");
    for suite in SUITES {
        let found = Apt::new(state, suite, HERE).and_then(|apt| {
            apt.update()?;
            Ok(apt.version(package, release)?.map(|version| (apt, version)))
        });
        let (apt, version) = match found {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(error) => {
                failure = error;
                continue;
            }
        };
        let partial = state.join(format!("{package}-{release}.partial"));
        let _ = fs::remove_dir_all(&partial);
        fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
        let archive = apt.download(&format!("{package}={version}"), &partial)?;
        let tar = partial.join("package.tar");
        let file = fs::File::create(&tar).map_err(|error| format!("{}: {error}", tar.display()))?;
        let mut unpack = Command::new("dpkg-deb");
        let unpacked = unpack.arg("--fsys-tarfile").arg(&archive).stdout(file).status();
        if !unpacked.is_ok_and(|end| end.success()) {
            return Err(format!("dpkg-deb cannot unpack {}", archive.display()));
        }
        run(Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&partial).arg(format!("./{part}")))?;
        for used in [archive, tar] {
            let _ = fs::remove_file(used);
        }
        fs::rename(&partial, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        return Ok(folder.join(part));
    }
    Err(failure)
}

fn is_package(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "deb")
}

/// A file below a folder.
pub fn find_file(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            if let Some(path) = find_file(&entry.path(), is_wanted) {
                return Some(path);
            }
        } else if kind.is_file() && is_wanted(&entry.path()) {
            return Some(entry.path());
        }
    }
    None
}

/// apt with a state of its own, so that the host's package lists stay as they are and no root is needed.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(state: &Path, suite: &str, architecture: &str) -> Result<Self, String> {
        let mirror = mirror().ok_or("no Debian mirror is configured on this host")?;
        let folder = state.join("apt").join(format!("{suite}-{architecture}"));
        let place = folder.display();
        for below in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(below)).map_err(|error| format!("{place}: {error}"))?;
        }
        let sources = format!(
            "deb [arch={architecture} signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n"
        );
        for (name, text) in [("sources.list", sources.as_str()), ("status", "")] {
            fs::write(folder.join(name), text).map_err(|error| format!("{place}: {error}"))?;
        }
        let options = [
            format!("Dir::Etc::sourcelist={place}/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("Dir::State::lists={place}/lists"),
            format!("Dir::State::status={place}/status"),
            format!("Dir::Cache={place}/cache"),
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures::={architecture}"),
            "Acquire::Languages=none".to_owned(),
            "Debug::NoLocking=1".to_owned(),
        ];
        Ok(Self { options: options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect() })
    }

    fn update(&self) -> Result<(), String> {
        run(Command::new("apt-get").args(&self.options).args(["update", "-qq"])).map(drop)
    }

    /// What a package that stands for the current kernel depends on.
    fn dependency(&self, package: &str) -> Option<String> {
        let text = run(Command::new("apt-cache").args(&self.options).args(["depends", package])).ok()?;
        let mut names = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        names.find(|name| name.starts_with("linux-image-")).map(str::to_owned)
    }

    fn knows(&self, package: &str) -> bool {
        run(Command::new("apt-cache").args(&self.options).args(["show", "--no-all-versions", package]))
            .is_ok_and(|text| !text.is_empty())
    }

    /// The version of a package that packs this release: `1.2.3+dfsg-1` packs 1.2.3.
    fn version(&self, package: &str, release: &str) -> Result<Option<String>, String> {
        let table = run(Command::new("apt-cache").args(&self.options).args(["madison", package]))?;
        Ok(version_in(&table, release).map(str::to_owned))
    }

    fn download(&self, package: &str, into: &Path) -> Result<PathBuf, String> {
        run(Command::new("apt-get")
            .args(&self.options)
            .args(["download", "-qq", package])
            .current_dir(into))?;
        find_file(into, &is_package).ok_or_else(|| format!("apt-get did not download {package}"))
    }

    /// apt takes nothing for installed here, so this is everything down to the C library.
    fn download_with_dependencies(&self, packages: &[&str], into: &Path) -> Result<(), String> {
        let into = format!("Dir::Cache::archives={}", into.display());
        let options = ["install", "--download-only", "--no-install-recommends", "-y", "-qq"];
        run(Command::new("apt-get").args(&self.options).args(["-o", &into]).args(options).args(packages))
            .map(drop)
    }
}

/// The version in a table of apt's, one to a line, that packs a release.
fn version_in<'t>(table: &'t str, release: &str) -> Option<&'t str> {
    let mut versions = table.lines().filter_map(|line| line.split('|').nth(1).map(str::trim));
    let packs =
        |version: &&str| version.strip_prefix(release).is_some_and(|rest| rest.starts_with(['+', '-', '~']));
    versions.find(packs)
}

/// The mirror that the host itself uses, from either form of apt's list of sources.
pub fn mirror() -> Option<String> {
    let mut files: Vec<PathBuf> = fs::read_dir("/etc/apt/sources.list.d")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension == "sources" || extension == "list")
    });
    files.sort();
    files.push("/etc/apt/sources.list".into());
    files.iter().filter_map(|path| fs::read_to_string(path).ok()).find_map(|text| {
        text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let uri = match words.as_slice() {
                ["URIs:", uri, ..] => uri,
                ["deb", uri, ..] if uri.contains("://") => uri,
                ["deb", options, uri, ..] if options.starts_with('[') => uri,
                _ => return None,
            };
            uri.trim_end_matches('/').ends_with("/debian").then(|| (*uri).to_owned())
        })
    })
}

/// Runs a command for what it prints; an error holds the last line of what it complained of.
pub fn run(command: &mut Command) -> Result<String, String> {
    let shown = format!("{}", command.get_program().display());
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{shown}: {}", said.lines().last().unwrap_or("failed without a word")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_of_a_release_only_if_all_of_its_number_is() {
        let table = "  rust-src | 1.95.10+dfsg1-2 | http://x stable/main amd64 Packages\n  \
                     rust-src | 1.95.1+dfsg1-2~bpo13+1 | http://x stable/main amd64 Packages\n";
        assert_eq!(version_in(table, "1.95.1"), Some("1.95.1+dfsg1-2~bpo13+1"));
        assert_eq!(version_in(table, "1.95.2"), None);
        assert_eq!(version_in(table, "1.95.1-nightly"), None);
    }
}
