//! Debian's package, written here: an `ar` archive of a version, of a tar archive with what dpkg has to know, and of a tar
//! archive with the files. The scripts that dpkg runs are in `packaging/debian/`.

use super::contents::{Contents, gzip};
use super::release::{Release, root_file};
use super::{date, digest};
use crate::Failure;

/// What Debian calls an architecture.
pub fn architecture(rust: &str) -> &str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The name of the package's file.
pub fn file_name(release: &Release, arch: &str) -> String {
    format!("kennel_{}_{}.deb", release.version, architecture(arch))
}

/// The package.
///
/// # Errors
/// When a file of `packaging/debian/` cannot be read, or gzip is missing.
pub fn pack(release: &Release, arch: &str, files: &Contents) -> Result<Vec<u8>, Failure> {
    let data = data(release, files)?;
    let mut control = Contents::default();
    let sums: String =
        data.files().map(|(path, bytes)| format!("{}  {path}\n", digest::md5(bytes))).collect();
    control.file("control", description(release, arch, &data));
    control.file("md5sums", sums);
    control.file("triggers", root_file("packaging/debian/triggers")?);
    for script in ["postinst", "prerm", "postrm"] {
        control.program(script, root_file(&format!("packaging/debian/{script}"))?);
    }
    let mut archive = b"!<arch>\n".to_vec();
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&control.tar("./", release.time))?),
        ("data.tar.gz", gzip(&data.tar("./", release.time))?),
    ];
    for (name, bytes) in members {
        let time = release.time;
        archive.extend(
            format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len()).into_bytes(),
        );
        archive.extend(&bytes);
        if !bytes.len().is_multiple_of(2) {
            archive.push(b'\n');
        }
    }
    Ok(archive)
}

/// The files where Debian wants them.
fn data(release: &Release, files: &Contents) -> Result<Contents, Failure> {
    let mut data = files.below("usr");
    let doc = "usr/share/doc/kennel";
    data.file(&format!("{doc}/copyright"), root_file("packaging/debian/copyright")?);
    let changelog = format!(
        "kennel ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- {}  {}\n",
        release.version,
        release.maintainer,
        date::rfc2822(release.time)
    );
    data.file(&format!("{doc}/changelog.gz"), gzip(changelog.as_bytes())?);
    data.file("usr/share/lintian/overrides/kennel", root_file("packaging/debian/lintian-overrides")?);
    Ok(data)
}

fn description(release: &Release, arch: &str, data: &Contents) -> String {
    // Debian counts in KiB, each file rounded up, and one for everything else.
    let sizes = data.entries().map(|(_, entry)| match entry {
        super::contents::Entry::File { bytes, .. } => bytes.len().div_ceil(1024),
        _ => 1,
    });
    format!(
        "Package: kennel\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\nSuggests: uidmap\n\
         Section: utils\nPriority: optional\nHomepage: {}\nDescription: run a command so that it can do only what you allow\n \
         kennel decides which files a command may read and write, which hosts it\n may reach, and how much memory, CPU and \
         time it may use. It is for running\n AI agents, build steps, plugins, and other people's code.\n .\n It needs no \
         root, no daemon and no helper programs. A sandbox costs a few\n milliseconds and leaves nothing behind.\n .\n Where \
         AppArmor denies user namespaces, a profile lets kennel alone use them.\n",
        release.version,
        architecture(arch),
        release.maintainer,
        sizes.sum::<usize>(),
        release.url,
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::cargo;

    fn packed() -> (tempfile::Folder, std::path::PathBuf) {
        let release = Release::read().unwrap();
        let mut files = Contents::default();
        files.program("bin/kennel", "#!/bin/sh\nexec true\n");
        let folder = tempfile::Folder::new("deb");
        let place = folder.0.join(file_name(&release, "x86_64"));
        fs::write(&place, pack(&release, "x86_64", &files).unwrap()).unwrap();
        (folder, place)
    }

    mod tempfile {
        pub struct Folder(pub std::path::PathBuf);
        impl Folder {
            pub fn new(name: &str) -> Folder {
                let path = std::env::temp_dir().join(format!("kennel-{name}-{}", std::process::id()));
                std::fs::create_dir_all(&path).unwrap();
                Folder(path)
            }
        }
        impl Drop for Folder {
            fn drop(&mut self) {
                let _ = std::fs::remove_dir_all(&self.0);
            }
        }
    }

    #[test]
    fn dpkg_reads_the_package_that_is_written_here() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!("SKIPPED: there is no dpkg-deb");
            return;
        }
        let (_folder, place) = packed();
        let ask = |what: &[&str]| {
            let output = Command::new("dpkg-deb").args(what).arg(&place).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let fields = ask(&["--field"]);
        assert!(fields.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{fields}");
        assert!(fields.contains("Architecture: amd64\n"), "{fields}");
        let files = ask(&["--contents"]);
        assert!(files.contains("-rwxr-xr-x root/root"), "{files}");
        assert!(files.contains("./usr/bin/kennel\n") && files.contains("./usr/share/doc/kennel/copyright\n"));
        // Nothing in /etc is the package's: the profile is put there only where AppArmor can read it.
        assert!(!files.contains("./etc/"), "{files}");
    }

    #[test]
    fn the_same_files_are_the_same_package() {
        let release = Release::read().unwrap();
        let mut files = Contents::default();
        files.program("bin/kennel", "x");
        assert_eq!(pack(&release, "aarch64", &files).unwrap(), pack(&release, "aarch64", &files).unwrap());
    }

    #[test]
    fn the_scripts_are_sound_for_a_plain_shell() {
        for script in ["postinst", "prerm", "postrm"] {
            let place = cargo::root().join("packaging/debian").join(script);
            let text = fs::read_to_string(&place).unwrap();
            assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\n"), "{script}");
            let checked = Command::new("sh").arg("-n").arg(&place).status().unwrap();
            assert!(checked.success(), "{script}");
        }
    }
}
