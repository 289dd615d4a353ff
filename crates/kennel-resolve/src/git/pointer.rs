//! The two one-line files by which git says that something is elsewhere. Pure: the bytes of a file in, a path out.
//!
//! Whoever writes the tree writes these files, so what they say is a claim, to be checked before it is acted on.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest such file that is looked at: a path of the longest kind, and what stands around it.
pub const MAX_BYTES: usize = 4096 + 64;

/// What a `.git` that is a file points to: `gitdir: PATH`. A relative path is relative to the file's folder.
pub fn gitdir(text: &[u8]) -> Option<&Path> {
    line(text.strip_prefix(b"gitdir: ")?)
}

/// What a `commondir` says, or the `gitdir` of a worktree's own folder: a path. A relative path is relative to the
/// folder that the file is in.
pub fn bare_path(text: &[u8]) -> Option<&Path> {
    line(text)
}

fn line(text: &[u8]) -> Option<&Path> {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let path = &text[..end];
    let sound = !path.is_empty() && text.len() <= MAX_BYTES && !path.contains(&0);
    sound.then(|| Path::new(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_as_git_reads_it() {
        assert_eq!(gitdir(b"gitdir: ../.git/modules/x\n"), Some(Path::new("../.git/modules/x")));
        assert_eq!(gitdir(b"gitdir: /a b/c\r\n\n"), Some(Path::new("/a b/c")));
        assert_eq!(gitdir(b"gitdir: /a\nb\n"), Some(Path::new("/a\nb")), "a name may hold a line break");
        for wrong in [&b""[..], b"gitdir:", b"gitdir: \n", b"gitdir:/x", b"Gitdir: /x", b"gitdir: a\0b", b"x"]
        {
            assert_eq!(gitdir(wrong), None, "{wrong:?}");
        }
        assert_eq!(gitdir(&[b"gitdir: ".as_slice(), &[b'a'; MAX_BYTES + 1]].concat()), None);
    }

    #[test]
    fn a_common_dir_is_a_path() {
        assert_eq!(bare_path(b"../..\n"), Some(Path::new("../..")));
        assert_eq!(bare_path(b"\n"), None);
    }
}
