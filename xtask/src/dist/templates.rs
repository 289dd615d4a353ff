//! Files of `packaging/` that name a version, an address or a checksum: a release has copies in which these are its own.

use std::fs;
use std::path::Path;

use super::release::{Release, root_file};
use super::{digest, source_archive};
use crate::Failure;
use crate::cargo;

/// The SSH public key that signs releases, where there is one.
const SIGNER: &str = "packaging/release-key.pub";

/// Writes the install script and the formula.
///
/// # Errors
/// When one of them does not have the line that is to be changed.
pub fn fill(release: &Release, folder: &Path) -> Result<(), Failure> {
    let signer = fs::read_to_string(cargo::root().join(SIGNER)).unwrap_or_default();
    let mut script = text("packaging/install.sh")?;
    for (key, value) in
        [("version", release.version.as_str()), ("url", &release.url), ("signer", signer.trim())]
    {
        if value.contains(['\'', '\n']) {
            return Err(format!("{key} {value:?} cannot be put into the install script").into());
        }
        script = with_line(&script, &format!("{key}='"), &format!("{key}='{value}'"))?;
    }
    fs::write(folder.join("install.sh"), script)?;

    let source = source_archive(release, folder);
    if source.exists() {
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut formula = text("packaging/homebrew/kennel.rb")?;
        for (start, line) in [
            ("  homepage \"", format!("  homepage \"{}\"", release.url)),
            ("  url \"", format!("  url \"{}/v{}/{name}\"", release.url, release.version)),
            ("  sha256 \"", format!("  sha256 \"{}\"", digest::sha256(&fs::read(&source)?))),
        ] {
            formula = with_line(&formula, start, &line)?;
        }
        fs::write(folder.join("kennel.rb"), formula)?;
    }
    Ok(())
}

fn text(path: &str) -> Result<String, Failure> {
    Ok(String::from_utf8(root_file(path)?)?)
}

/// The text with the one line that starts like this replaced.
fn with_line(text: &str, start: &str, line: &str) -> Result<String, Failure> {
    let mut found = text.lines().filter(|old| old.starts_with(start));
    let (Some(old), None) = (found.next(), found.next()) else {
        return Err(format!("not one line starts with {start:?}").into());
    };
    Ok(text.replacen(&format!("{old}\n"), &format!("{line}\n"), 1))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn release() -> Release {
        Release {
            version: "9.8.7".into(),
            time: 0,
            url: "https://dl.example/releases".into(),
            maintainer: "M <m@m.example>".into(),
        }
    }

    #[test]
    fn the_files_of_packaging_name_this_version_and_this_address() {
        let version = env!("CARGO_PKG_VERSION");
        let url = Release::read().unwrap().url;
        for (path, expected) in [
            ("packaging/install.sh", format!("\nversion='{version}'\nurl='{url}'\nsigner=")),
            ("packaging/homebrew/kennel.rb", format!("\"{url}/v{version}/kennel-{version}-source.tar.gz\"")),
            ("packaging/nix/package.nix", format!("version = \"{version}\";")),
            ("packaging/container/Containerfile", format!("ARG VERSION={version}\n")),
            ("README.md", format!("sudo dpkg --install kennel_{version}_amd64.deb ")),
            ("docs/install.md", format!("sudo dpkg --install kennel_{version}_amd64.deb\n")),
        ] {
            assert!(text(path).unwrap().contains(&expected), "{path} does not have {expected:?}");
        }
    }

    #[test]
    fn a_release_has_its_own_version_address_and_checksum_in_them() {
        let folder = std::env::temp_dir().join(format!("kennel-templates-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(source_archive(&release(), &folder), "source").unwrap();
        fill(&release(), &folder).unwrap();
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let (script, formula) = (read("install.sh"), read("kennel.rb"));
        fs::remove_dir_all(&folder).unwrap();
        assert!(script.contains("\nversion='9.8.7'\nurl='https://dl.example/releases'\n"), "{script}");
        assert!(formula.contains("url \"https://dl.example/releases/v9.8.7/kennel-9.8.7-source.tar.gz\""));
        assert!(formula.contains(&format!("sha256 \"{}\"", digest::sha256(b"source"))));
        assert!(with_line("a\na\n", "a", "b").is_err());
    }

    #[test]
    fn the_formula_is_ruby() {
        let formula = cargo::root().join("packaging/homebrew/kennel.rb");
        match Command::new("ruby").arg("-c").arg(&formula).output() {
            Err(_) => println!("SKIPPED: there is no ruby"),
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// The paths that the container's recipe copies are those that `dist` writes.
    #[test]
    fn the_container_recipe_copies_what_a_release_has() {
        let recipe = text("packaging/container/Containerfile").unwrap();
        let copied: Vec<&str> = recipe
            .lines()
            .filter_map(|line| line.strip_prefix("COPY kennel-${VERSION}-${ARCH}-linux/")?.split(' ').next())
            .collect();
        assert_eq!(copied, ["bin/kennel", "libexec/kennel/kennel-entrypoint", "share/doc/kennel"]);
    }
}
