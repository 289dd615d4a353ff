//! Names that are not plain words: blanks, newlines, bytes that are no text, and paths as long as the kernel takes.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use kennel_tests::Scratch;

use crate::filesystem::{can_read, can_write, cannot_read, cannot_write, flags, inside};

const ODD: &[&[u8]] = &[
    b"two words",
    b"line\nbreak",
    b"not \xff\xfe text",
    b"tab\tand\\backslash",
    b"-dash",
    b"quote'\"$HOME`",
    "\u{fc}ml\u{e4}ut \u{202e}".as_bytes(),
    b"\x1b(31mred",
    b" ",
    b"a:b,c=d",
];

fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[test]
fn every_list_takes_any_name() {
    for odd in ODD {
        let scratch = Scratch::new();
        let folder = scratch.path().join(name(odd));
        std::fs::create_dir(&folder).unwrap();
        let files: Vec<PathBuf> =
            ["hidden", "shown", "kept", "free"].iter().map(|file| folder.join(file)).collect();
        files.iter().for_each(|file| std::fs::write(file, "x").unwrap());
        let before = scratch.listing();
        let rules = flags([
            ("--allow-write", folder.clone()),
            ("--deny-read", files[0].clone()),
            ("--allow-read", files[1].clone()),
            ("--deny-write", files[2].clone()),
        ]);
        cannot_read(&rules, &files[0]);
        can_read(&rules, &files[1]);
        cannot_write(&rules, &files[2]);
        can_write(&rules, &files[3]);
        let listed = [vec!["--reads".into(), "listed".into()], flags([("--allow-read", &files[1])])].concat();
        can_read(&listed, &files[1]);
        cannot_read(&listed, &files[3]);
        assert_eq!(before, scratch.listing(), "{}", folder.display());
    }
}

#[test]
fn globs_match_any_name() {
    let scratch = Scratch::new();
    let files: Vec<PathBuf> = ODD.iter().map(|odd| scratch.path().join(name(odd))).collect();
    files.iter().for_each(|file| std::fs::write(file, "x").unwrap());
    let rules = flags([("--deny-read", scratch.join("?*"))]);
    files.iter().for_each(|file| cannot_read(&rules, file));
}

#[test]
fn a_folder_with_an_odd_name_can_be_where_a_command_starts() {
    for odd in ODD {
        let scratch = Scratch::new();
        let folder = scratch.path().join(name(odd));
        std::fs::create_dir(&folder).unwrap();
        let mut command = crate::filesystem::command(&flags([("--allow-write", ".")]), "> made", &[]);
        kennel_tests::ran(command.current_dir(&folder)).ok();
        assert!(folder.join("made").exists());
    }
}

#[test]
fn errors_show_an_odd_name_on_one_line_and_without_control_characters() {
    let scratch = Scratch::new();
    for odd in
        [b"line\nbreak".as_slice(), b"\x1b(31mred", b"bell\x07", b"not \xff text", b"\xe2\x80\xaereversed"]
    {
        let path = scratch.path().join(name(odd));
        let mut mount = path.clone().into_os_string();
        mount.push(":/workspace");
        let missing: [(&str, OsString); 4] = [
            ("--allow-write", path.clone().into()),
            ("--device", path.clone().into()),
            ("--workdir", path.clone().into()),
            ("--mount", mount),
        ];
        for (flag, value) in missing {
            let ran = inside(&flags([(flag, value)]), "true", &[]).expect_code(125);
            let strange = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
            assert!(!ran.stderr.contains(strange), "{flag}: {:?}", ran.stderr);
            assert!(ran.stderr.lines().all(|line| !line.starts_with("break")), "{flag}: {:?}", ran.stderr);
        }
    }
}

#[test]
fn a_path_as_long_as_the_kernel_takes_works() {
    let scratch = Scratch::new();
    // 4095 bytes and the NUL is what one call takes.
    let mut folder = scratch.path().to_path_buf();
    let component = "d".repeat(200);
    while folder.as_os_str().len() + component.len() + 1 < 4096 - 16 {
        folder.push(&component);
    }
    std::fs::create_dir_all(&folder).unwrap();
    let (hidden, free) = (folder.join("hidden"), folder.join("free"));
    std::fs::write(&hidden, "x").unwrap();
    std::fs::write(&free, "x").unwrap();
    let rules = flags([("--allow-write", &folder), ("--deny-read", &hidden)]);
    cannot_read(&rules, &hidden);
    can_write(&rules, &free);
    let listed = [vec!["--reads".into(), "listed".into()], flags([("--allow-read", &free)])].concat();
    can_read(&listed, &free);
}

#[test]
fn a_path_that_is_too_long_is_an_error_and_not_a_crash() {
    let scratch = Scratch::new();
    let long = scratch.join(&"x".repeat(300));
    let longer = scratch.join(&"y/".repeat(4000));
    for path in [long, longer] {
        for flag in ["--allow-write", "--deny-read", "--workdir"] {
            let ran = inside(&flags([(flag, &path)]), "true", &[]);
            // A name that long cannot exist, so for a deny there may be nothing to do.
            assert!(ran.code == 125 || (ran.code == 0 && flag == "--deny-read"), "{flag}: {ran:?}");
        }
    }
}
