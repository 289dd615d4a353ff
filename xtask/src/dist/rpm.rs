//! An RPM, written here: a lead, a header with checksums, a header with everything that is known about the package, and
//! the files as a compressed cpio archive. A header is a list of tags, each with a type, a place in the data behind the list, and
//! a count.

use super::contents::{Contents, Entry, gzip};
use super::digest::{md5, sha256};
use super::release::Release;
use crate::Failure;
use crate::cpio::Archive;

/// The name of the package's file.
pub fn file_name(release: &Release, arch: &str) -> String {
    format!("kennel-{}-1.{arch}.rpm", release.version)
}

/// The value of a tag.
enum Value {
    Int16(Vec<u16>),
    Int32(Vec<u32>),
    Text(String),
    Bytes(Vec<u8>),
    Texts(Vec<String>),
    /// A text that could be translated.
    Translated(String),
}

impl Value {
    fn kind(&self) -> u32 {
        match self {
            Value::Int16(_) => 3,
            Value::Int32(_) => 4,
            Value::Text(_) => 6,
            Value::Bytes(_) => 7,
            Value::Texts(_) => 8,
            Value::Translated(_) => 9,
        }
    }

    fn count(&self) -> usize {
        match self {
            Value::Int16(numbers) => numbers.len(),
            Value::Int32(numbers) => numbers.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Texts(texts) => texts.len(),
            Value::Text(_) | Value::Translated(_) => 1,
        }
    }

    fn put(&self, data: &mut Vec<u8>) {
        let text = |data: &mut Vec<u8>, text: &str| {
            data.extend(text.as_bytes());
            data.push(0);
        };
        match self {
            Value::Int16(numbers) => numbers.iter().for_each(|number| data.extend(number.to_be_bytes())),
            Value::Int32(numbers) => numbers.iter().for_each(|number| data.extend(number.to_be_bytes())),
            Value::Bytes(bytes) => data.extend(bytes),
            Value::Texts(texts) => texts.iter().for_each(|one| text(data, one)),
            Value::Text(one) | Value::Translated(one) => text(data, one),
        }
    }

    fn alignment(&self) -> usize {
        match self {
            Value::Int16(_) => 2,
            Value::Int32(_) => 4,
            _ => 1,
        }
    }
}

fn be(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("a package is below 4 GiB").to_be_bytes()
}

/// A header. Its first tag, `region`, says that all of it belongs together and is what was signed.
fn header(region: u32, tags: &[(u32, Value)]) -> Vec<u8> {
    let (mut index, mut data) = (Vec::new(), Vec::new());
    for (tag, value) in tags {
        data.resize(data.len().next_multiple_of(value.alignment()), 0);
        for field in [tag.to_be_bytes(), value.kind().to_be_bytes(), be(data.len()), be(value.count())] {
            index.extend(field);
        }
        value.put(&mut data);
    }
    let place = be(data.len());
    let size = i32::try_from(16 * (tags.len() + 1)).expect("few tags");
    for field in [region.to_be_bytes(), 7_u32.to_be_bytes(), (-size).to_be_bytes(), be(16)] {
        data.extend(field);
    }
    let mut header = b"\x8e\xad\xe8\x01\0\0\0\0".to_vec();
    for field in
        [be(tags.len() + 1), be(data.len()), region.to_be_bytes(), 7_u32.to_be_bytes(), place, be(16)]
    {
        header.extend(field);
    }
    header.extend(index);
    header.extend(data);
    header
}

/// A file of the package.
struct File<'c> {
    /// With a slash at its end, and one in front.
    folder: String,
    name: String,
    entry: &'c Entry,
}

/// The package.
///
/// # Errors
/// When gzip is missing.
pub fn pack(release: &Release, arch: &str, files: &Contents) -> Result<Vec<u8>, Failure> {
    let contents = placed(files);
    let files: Vec<File> = contents
        .entries()
        .filter(|(path, entry)| **entry != Entry::Folder || is_ours(path))
        .map(|(path, entry)| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            File { folder: format!("/{folder}/"), name: name.to_owned(), entry }
        })
        .collect();
    let mut archive = Archive::default();
    for file in &files {
        let path = format!(".{}{}", file.folder, file.name);
        match file.entry {
            Entry::Folder => archive.folder(&path, 0),
            Entry::Link(target) => archive.link(&path, target),
            Entry::File { mode, bytes } => archive.file(&path, *mode, bytes),
        }
    }
    let archive = archive.finish();
    let payload = gzip(&archive)?;
    let main = header(63, &tags(release, arch, &files, &payload)?);
    let both: Vec<u8> = main.iter().chain(&payload).copied().collect();
    let md5 = md5(&both);
    let md5: Vec<u8> =
        (0..16).filter_map(|at| u8::from_str_radix(&md5[2 * at..2 * at + 2], 16).ok()).collect();
    let checks = header(
        62,
        &[
            (273, Value::Text(sha256(&main))),
            (1000, Value::Int32(vec![u32::try_from(both.len())?])),
            (1004, Value::Bytes(md5)),
            (1007, Value::Int32(vec![u32::try_from(archive.len())?])),
        ],
    );
    let mut package = lead(release);
    package.extend(checks);
    package.resize(package.len().next_multiple_of(8), 0);
    package.extend(both);
    Ok(package)
}

/// Where systems with RPMs have what Debian has elsewhere.
fn placed(files: &Contents) -> Contents {
    let mut placed = Contents::default();
    for (path, entry) in files.below("usr").entries() {
        if *entry != Entry::Folder {
            placed.add(&path.replace("/zsh/vendor-completions/", "/zsh/site-functions/"), entry.clone());
        }
    }
    placed
}

/// Folders that are kennel's alone; the others belong to the system.
fn is_ours(path: &str) -> bool {
    ["usr/libexec/kennel", "usr/share/kennel", "usr/share/doc/kennel"]
        .iter()
        .any(|ours| path == *ours || path.strip_prefix(ours).is_some_and(|rest| rest.starts_with('/')))
}

/// What older programs look at to see that it is an RPM.
fn lead(release: &Release) -> Vec<u8> {
    let mut lead = b"\xed\xab\xee\xdb\x03\0\0\0\0\x01".to_vec();
    lead.extend(format!("kennel-{}-1", release.version).as_bytes());
    lead.resize(10 + 66, 0);
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

fn tags(release: &Release, arch: &str, files: &[File], payload: &[u8]) -> Result<Vec<(u32, Value)>, Failure> {
    // The kernel's number of a kind of file, and its permissions.
    let mode = |file: &File| match file.entry {
        Entry::Folder => 0o040_755,
        Entry::Link(_) => 0o120_777,
        Entry::File { mode, .. } => 0o100_000 | u16::try_from(*mode).unwrap_or(0o644),
    };
    let size = |file: &File| match file.entry {
        Entry::Folder => 4096,
        Entry::Link(target) => target.len(),
        Entry::File { bytes, .. } => bytes.len(),
    };
    let sizes = files.iter().map(|file| u32::try_from(size(file))).collect::<Result<Vec<u32>, _>>()?;
    let mut folders: Vec<String> = files.iter().map(|file| file.folder.clone()).collect();
    folders.dedup();
    folders.sort();
    folders.dedup();
    let folder_of = |file: &File| {
        u32::try_from(folders.iter().position(|one| *one == file.folder).unwrap_or(0)).unwrap_or(0)
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    let each = |number: u32| Value::Int32(vec![number; files.len()]);
    let all = |text: &str| Value::Texts(vec![text.to_owned(); files.len()]);
    let time = u32::try_from(release.time)?;
    Ok(vec![
        (100, texts(&["C"])),
        (1000, text("kennel")),
        (1001, text(&release.version)),
        (1002, text("1")),
        (1004, Value::Translated("Run a command so that it can do only what you allow".to_owned())),
        (
            1005,
            Value::Translated(
                "kennel decides which files a command may read and write, which hosts it may\nreach, and how much memory, CPU \
                 and time it may use. It needs no root, no daemon\nand no helper programs."
                    .to_owned(),
            ),
        ),
        (1006, Value::Int32(vec![time])),
        (1007, text("localhost")),
        (1009, Value::Int32(vec![sizes.iter().sum()])),
        (1014, text("MIT OR Apache-2.0")),
        (1016, Value::Translated("Unspecified".to_owned())),
        (1020, text(&release.url)),
        (1021, text("linux")),
        (1022, text(arch)),
        (1028, Value::Int32(sizes)),
        (1030, Value::Int16(files.iter().map(mode).collect())),
        (1033, Value::Int16(vec![0; files.len()])),
        (1034, each(time)),
        (
            1035,
            Value::Texts(
                files
                    .iter()
                    .map(|file| match file.entry {
                        Entry::File { bytes, .. } => sha256(bytes),
                        Entry::Folder | Entry::Link(_) => String::new(),
                    })
                    .collect(),
            ),
        ),
        (
            1036,
            Value::Texts(
                files
                    .iter()
                    .map(|file| match file.entry {
                        Entry::Link(target) => target.clone(),
                        Entry::Folder | Entry::File { .. } => String::new(),
                    })
                    .collect(),
            ),
        ),
        // Documents are told from the rest: they can be left out.
        (
            1037,
            Value::Int32(
                files
                    .iter()
                    .map(|file| {
                        let is_document = ["/usr/share/doc/", "/usr/share/man/"]
                            .iter()
                            .any(|folder| file.folder.starts_with(folder) && *file.entry != Entry::Folder);
                        if is_document { 2 } else { 0 }
                    })
                    .collect(),
            ),
        ),
        (1039, all("root")),
        (1040, all("root")),
        (1044, text(&format!("kennel-{}-1.src.rpm", release.version))),
        (1045, each(u32::MAX)),
        (1047, texts(&["kennel"])),
        // What the form of this package needs of rpm itself: less than or equal, and rpm's own.
        (1048, Value::Int32(vec![0x0100_000a; 3])),
        (1049, texts(&["rpmlib(CompressedFileNames)", "rpmlib(FileDigests)", "rpmlib(PayloadFilesHavePrefix)"])),
        (1050, texts(&["3.0.4-1", "4.6.0-1", "4.0-1"])),
        (1064, text("4.14.0")),
        (1095, each(1)),
        (1096, Value::Int32((1..).take(files.len()).collect())),
        (1097, all("")),
        (1112, Value::Int32(vec![8])),
        (1113, texts(&[&format!("{}-1", release.version)])),
        (1116, Value::Int32(files.iter().map(folder_of).collect())),
        (1117, Value::Texts(files.iter().map(|file| file.name.clone()).collect())),
        (1118, Value::Texts(folders.clone())),
        (1124, text("cpio")),
        (1125, text("gzip")),
        (1126, text("9")),
        (5011, Value::Int32(vec![8])),
        (5092, Value::Texts(vec![sha256(payload)])),
        (5093, Value::Int32(vec![8])),
    ])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn rpm_reads_the_package_that_is_written_here() {
        if Command::new("rpm").arg("--version").output().is_err() {
            println!("SKIPPED: there is no rpm");
            return;
        }
        let release = Release::read().unwrap();
        let mut files = Contents::default();
        files.program("bin/kennel", "#!/bin/sh\nexec true\n");
        files.file("share/doc/kennel/README.md", "a page\n");
        files.file("share/zsh/vendor-completions/_kennel", "x");
        files.link("libexec/kennel/names/srt", "../../../bin/kennel");
        let folder = std::env::temp_dir().join(format!("kennel-rpm-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let place = folder.join(file_name(&release, "x86_64"));
        fs::write(&place, pack(&release, "x86_64", &files).unwrap()).unwrap();
        let rpm = |words: &[&str]| {
            let mut rpm = Command::new("rpm");
            let database = format!("--dbpath={}", folder.join("db").display());
            let output = rpm.arg(database).args(words).arg(&place).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{words:?}: {said} {}", String::from_utf8_lossy(&output.stderr));
            said
        };
        let checked = rpm(&["--checksig", "--nosignature", "--verbose"]);
        for digest in ["Header SHA256 digest: OK", "Payload SHA256 digest: OK", "MD5 digest: OK"] {
            assert!(checked.contains(digest), "{checked}");
        }
        let about = rpm(&["--query", "--info", "--package"]);
        assert!(about.contains(&format!("Version     : {}", env!("CARGO_PKG_VERSION"))), "{about}");
        let list = rpm(&["--query", "--list", "--package"]);
        let list: Vec<&str> = list.lines().collect();
        assert_eq!(
            list,
            [
                "/usr/bin/kennel",
                "/usr/libexec/kennel",
                "/usr/libexec/kennel/names",
                "/usr/libexec/kennel/names/srt",
                "/usr/share/doc/kennel",
                "/usr/share/doc/kennel/README.md",
                "/usr/share/zsh/site-functions/_kennel"
            ]
        );
        // Installed into a folder, by who may do so, it is what was packed.
        if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
            let root = folder.join("root");
            fs::create_dir_all(&root).unwrap();
            let root_flag = format!("--root={}", root.display());
            let words = ["--install", "--nodeps", "--ignorearch", "--nosignature", &root_flag];
            let mut install = Command::new("rpm");
            let output = install.args(words).arg(&place).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(fs::read_to_string(root.join("usr/bin/kennel")).unwrap(), "#!/bin/sh\nexec true\n");
            let link = fs::read_link(root.join("usr/libexec/kennel/names/srt")).unwrap();
            assert_eq!(link.to_str(), Some("../../../bin/kennel"));
            let verify =
                Command::new("rpm").args([&root_flag, "--verify", "--nodeps", "kennel"]).output().unwrap();
            assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
