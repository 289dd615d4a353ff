//! The install script, `packaging/install.sh`: against a server on this machine with releases that are as they should be and
//! releases that are not, by several shells.

mod server;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kennel_tests::{Ran, Scratch, kennel_bin, ran, skipped};
use server::Server;

const SCRIPT: &str = include_str!("../../packaging/install.sh");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What runs the script: its words, and what its `PATH` is.
struct Shell {
    words: Vec<String>,
    path: String,
}

/// The shells of this host that a POSIX script has to work with: dash, bash as sh would be, and busybox with nothing but its
/// own programs.
fn shells(scratch: &Scratch) -> Vec<Shell> {
    let mut shells = Vec::new();
    for program in ["/bin/dash", "/bin/bash"] {
        if Path::new(program).exists() {
            let words = if program.ends_with("bash") { vec![program, "--posix"] } else { vec![program] };
            shells.push(Shell {
                words: words.into_iter().map(str::to_owned).collect(),
                path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
            });
        }
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    if let Some(busybox) = busybox {
        let folder = scratch.path().join("busybox");
        fs::create_dir_all(&folder).unwrap();
        let listed = Command::new(busybox).arg("--list").output().unwrap();
        for applet in String::from_utf8(listed.stdout).unwrap().lines() {
            let _ = symlink(busybox, folder.join(applet));
        }
        let path = folder.to_str().unwrap().to_owned();
        shells.push(Shell { words: vec![busybox.to_owned(), "sh".to_owned()], path });
    }
    shells
}

/// A home for somebody who installs, and what they run.
struct Place {
    scratch: Scratch,
    home: PathBuf,
    temporary: PathBuf,
    script: PathBuf,
}

impl Place {
    fn new() -> Place {
        let scratch = Scratch::new();
        // Blanks, quotes and stars in a path are for the script to mind.
        let home = scratch.path().join("a home's * place");
        let temporary = scratch.path().join("temporary files");
        let script = scratch.path().join("install.sh");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&temporary).unwrap();
        fs::write(&script, SCRIPT).unwrap();
        Place { scratch, home, temporary, script }
    }

    fn run(&self, shell: &Shell, server: &Server, words: &[&str]) -> Ran {
        let mut command = Command::new(&shell.words[0]);
        command.args(&shell.words[1..]).arg(&self.script).args(words).stdin(Stdio::null());
        command.env_clear().env("PATH", &shell.path).env("HOME", &self.home).env("TMPDIR", &self.temporary);
        command.env("KENNEL_URL", server.url());
        ran(&mut command)
    }

    fn everything(&self) -> Vec<String> {
        let mut list = Vec::new();
        walk(&self.home, &mut list);
        walk(&self.temporary, &mut list);
        list.sort();
        list
    }

    fn kennel(&self) -> PathBuf {
        self.home.join(".local/bin/kennel")
    }
}

fn walk(folder: &Path, list: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        list.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), list);
        }
    }
}

fn name() -> String {
    format!("kennel-{VERSION}-{}-linux", std::env::consts::ARCH)
}

/// The archive of a release: this kennel, a page, and a link.
fn archive(scratch: &Scratch) -> Vec<u8> {
    let tree = scratch.path().join("release").join(name());
    let folders = ["bin", "share/doc/kennel", "libexec/kennel/names"];
    folders.iter().for_each(|folder| fs::create_dir_all(tree.join(folder)).unwrap());
    fs::copy(kennel_bin(), tree.join("bin/kennel")).unwrap();
    fs::set_permissions(tree.join("bin/kennel"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tree.join("share/doc/kennel/README.md"), "a page\n").unwrap();
    symlink("../../../bin/kennel", tree.join("libexec/kennel/names/srt")).unwrap();
    // Without levels of compression: a debug build is large.
    let packed = scratch.path().join("release.tar.gz");
    let tar = Command::new("tar")
        .args(["-I", "gzip -1", "-cf"])
        .arg(&packed)
        .arg("-C")
        .arg(scratch.path().join("release"))
        .arg(name())
        .output();
    let tar = tar.unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    fs::read(packed).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    let mut child =
        Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha256sum");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

type Files = BTreeMap<String, Vec<u8>>;

/// What a server has of a release with this archive.
fn files(archive: &[u8]) -> Files {
    let sums = format!("{}  {}.tar.gz\n{}  other.tar.gz\n", sha256(archive), name(), "0".repeat(64));
    [("SHA256SUMS".to_owned(), sums.into_bytes()), (format!("{}.tar.gz", name()), archive.to_vec())].into()
}

fn served(files: Files) -> Server {
    Server::start(files.into_iter().map(|(name, bytes)| (format!("/v{VERSION}/{name}"), bytes)).collect())
}

#[test]
fn a_release_is_installed_again_and_removed_without_a_trace_by_every_shell() {
    let place = Place::new();
    let server = served(files(&archive(&place.scratch)));
    let shells = shells(&place.scratch);
    assert!(!shells.is_empty());
    let before = place.everything();
    for shell in &shells {
        let first = place.run(shell, &server, &[]);
        assert_eq!(first.code, 0, "{:?}: {}", shell.words, first.stderr);
        assert!(first.stdout.contains(&format!("version {VERSION} is installed")), "{}", first.stdout);
        let version = ran(Command::new(place.kennel()).arg("--version"));
        assert_eq!(version.stdout, format!("kennel {VERSION}\n"));
        let link = fs::read_link(place.home.join(".local/libexec/kennel/names/srt")).unwrap();
        assert_eq!(link, Path::new("../../../bin/kennel"));
        let installed = place.everything();
        assert!(!installed.iter().any(|path| path.contains("kennel-install.")), "{installed:?}");
        // Once more changes nothing.
        let second = place.run(shell, &server, &[]);
        assert_eq!(second.code, 0, "{:?}: {}", shell.words, second.stderr);
        assert_eq!(place.everything(), installed);
        let removed = place.run(shell, &server, &["--remove"]);
        assert_eq!(removed.code, 0, "{:?}: {}", shell.words, removed.stderr);
        assert_eq!(place.everything(), before, "{:?}", shell.words);
        let again = place.run(shell, &server, &["--remove"]);
        assert_eq!(again.code, 1);
        assert!(again.stderr.contains("nothing was installed there"), "{}", again.stderr);
    }
}

#[test]
fn what_others_put_beside_it_stays_and_what_an_older_version_had_goes() {
    let place = Place::new();
    let server = served(files(&archive(&place.scratch)));
    let shell = &shells(&place.scratch)[0];
    let theirs = place.home.join(".local/bin/theirs");
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "x").unwrap();
    assert_eq!(place.run(shell, &server, &[]).code, 0);
    let local = place.home.join(".local");
    let (old, list) = (local.join("share/kennel/old"), local.join("share/kennel/installed-files"));
    fs::write(&old, "x").unwrap();
    let listed = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{listed}share/kennel/old\n")).unwrap();
    assert_eq!(place.run(shell, &server, &[]).code, 0);
    assert!(!old.exists(), "a file of the older version is still there");
    assert_eq!(place.run(shell, &server, &["--remove"]).code, 0);
    let mut left = Vec::new();
    walk(&local, &mut left);
    left.sort();
    let bin = theirs.parent().unwrap().display().to_string();
    assert_eq!(left, [bin, theirs.display().to_string()]);
}

/// Installs from these files by every shell; nothing must come of it, and the reason must be told.
fn refuse(words: &[&str], expected: &str, change: impl Fn(&mut Files)) {
    let place = Place::new();
    let mut files = files(b"not unpacked in these tests, since its checksum comes first");
    change(&mut files);
    let server = served(files);
    let shells = shells(&place.scratch);
    let before = place.everything();
    for shell in &shells {
        let ran = place.run(shell, &server, words);
        assert_eq!(ran.code, 1, "{:?}: {} {}", shell.words, ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(expected), "{:?}: {}", shell.words, ran.stderr);
        assert_eq!(place.everything(), before, "{:?} left something", shell.words);
    }
}

#[test]
#[kennel_claim::claim("releases/checksums")]
fn an_archive_that_was_tampered_with_is_refused() {
    refuse(&[], "its checksum is", |files| {
        files.get_mut(&format!("{}.tar.gz", name())).unwrap()[0] ^= 1;
    });
}

#[test]
#[kennel_claim::claim("releases/checksums")]
fn an_archive_that_is_cut_short_is_refused() {
    refuse(&[], "its checksum is", |files| {
        files.get_mut(&format!("{}.tar.gz", name())).unwrap().truncate(10);
    });
}

#[test]
#[kennel_claim::claim("releases/checksums")]
fn an_archive_without_a_checksum_is_refused() {
    for sums in [
        String::new(),
        format!("{}  {}.tar.gz.asc\n", "0".repeat(64), name()),
        format!("{0}  {1}.tar.gz\n{0}  {1}.tar.gz\n", "0".repeat(64), name()),
        format!("*  {}.tar.gz\n", name()),
    ] {
        refuse(&[], "does not have one checksum", |files| {
            files.insert("SHA256SUMS".into(), sums.clone().into_bytes());
        });
    }
}

#[test]
fn a_file_that_is_not_there_is_told() {
    refuse(&[], "downloading http://127.0.0.1:", |files| {
        files.remove("SHA256SUMS");
    });
    refuse(&[], ".tar.gz: ", |files| {
        files.remove(&format!("{}.tar.gz", name()));
    });
}

#[test]
fn a_program_that_is_another_version_is_not_installed() {
    let place = Place::new();
    // By its checksum it is what the server wants it to be; it is not what was asked for.
    let tree = place.scratch.path().join("release").join(name().replace(VERSION, "9.9.9"));
    fs::create_dir_all(tree.join("bin")).unwrap();
    fs::copy(kennel_bin(), tree.join("bin/kennel")).unwrap();
    let tar = Command::new("tar")
        .args(["-I", "gzip -1", "-cf", "-", "-C"])
        .arg(tree.parent().unwrap())
        .arg(".")
        .output();
    let bytes = tar.unwrap().stdout;
    let file = format!("{}.tar.gz", name().replace(VERSION, "9.9.9"));
    let sums = format!("{}  {file}\n", sha256(&bytes));
    let files = [("/v9.9.9/SHA256SUMS".to_owned(), sums.into_bytes()), (format!("/v9.9.9/{file}"), bytes)];
    let server = Server::start(files.into());
    let before = place.everything();
    let ran = place.run(&shells(&place.scratch)[0], &server, &["--version", "9.9.9"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("it does not run on this system"), "{}", ran.stderr);
    assert_eq!(place.everything(), before);
}

#[test]
#[kennel_claim::claim("releases/checksums")]
fn only_https_is_accepted_from_elsewhere() {
    let place = Place::new();
    let server = served(Files::new());
    let shell = &shells(&place.scratch)[0];
    for url in [
        "http://example.com/releases",
        "ftp://127.0.0.1/x",
        "file:///etc",
        "http://127.0.0.1.example.com:80/x",
    ] {
        let ran = place.run(shell, &server, &["--url", url]);
        assert_eq!(ran.code, 1, "{url}");
        assert!(ran.stderr.contains("not an https address"), "{url}: {}", ran.stderr);
    }
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let place = Place::new();
    let server = served(Files::new());
    let shell = &shells(&place.scratch)[0];
    for (words, expected) in [
        (["--version", "../1"].as_slice(), "not a version"),
        (&["--prefix", "here"], "not an absolute path"),
        (&["--prefix"], "--prefix needs a value"),
        (&["now"], "unexpected argument now"),
    ] {
        let ran = place.run(shell, &server, words);
        assert_eq!(ran.code, 1, "{words:?}");
        assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    }
}

/// A key that signs, and its public part.
fn key(scratch: &Scratch, name: &str) -> Option<(PathBuf, String)> {
    let path = scratch.path().join(name);
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "release", "-f"]).arg(&path);
    if !keygen.status().is_ok_and(|status| status.success()) {
        skipped("there is no ssh-keygen");
        return None;
    }
    let public = fs::read_to_string(path.with_extension("pub")).unwrap().trim().to_owned();
    Some((path, public))
}

fn sign(scratch: &Scratch, key: &Path, namespace: &str, bytes: &[u8]) -> Vec<u8> {
    let file = scratch.path().join("to-sign");
    fs::write(&file, bytes).unwrap();
    let signature = scratch.path().join("to-sign.sig");
    let _ = fs::remove_file(&signature);
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-q", "-Y", "sign", "-n", namespace, "-f"]).arg(key).arg(&file);
    assert!(sign.stderr(Stdio::null()).status().unwrap().success());
    fs::read(signature).unwrap()
}

#[test]
#[kennel_claim::claim("releases/signatures")]
fn a_signer_has_to_have_signed_the_checksums() {
    let place = Place::new();
    let Some((private, public)) = key(&place.scratch, "ours") else { return };
    let Some((others, _)) = key(&place.scratch, "others") else { return };
    let shell = &shells(&place.scratch)[0];
    let good = files(&archive(&place.scratch));
    let sums = good["SHA256SUMS"].clone();
    let before = place.everything();
    let signatures = [
        ("none", None),
        ("another key's", Some(sign(&place.scratch, &others, "kennel-release", &sums))),
        ("for something else", Some(sign(&place.scratch, &private, "file", &sums))),
        ("of other checksums", Some(sign(&place.scratch, &private, "kennel-release", b"other"))),
    ];
    for (which, signature) in signatures {
        let mut files = good.clone();
        files.extend(signature.map(|signature| ("SHA256SUMS.sig".to_owned(), signature)));
        let ran = place.run(shell, &served(files), &["--signer", &public]);
        assert_eq!(ran.code, 1, "{which}: {}", ran.stdout);
        assert!(ran.stderr.contains("SHA256SUMS"), "{which}: {}", ran.stderr);
        assert_eq!(place.everything(), before, "{which}");
    }
    let mut files = good;
    files.insert("SHA256SUMS.sig".into(), sign(&place.scratch, &private, "kennel-release", &sums));
    let ran = place.run(shell, &served(files), &["--signer", &public]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
