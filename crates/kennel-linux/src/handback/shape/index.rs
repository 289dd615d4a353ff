//! Whether an index is one that git itself could have written (`gitformat-index(5)`): git takes the paths in it as they
//! stand, and `git checkout .` writes what they name. Pure: bytes in, an answer out, in time and memory linear in them.
//!
//! The reader takes no more than git writes. An index may be read in two ways, from its beginning or by the table of
//! offsets at its end, and in both the entries have to be the same.

use std::collections::{HashMap, HashSet};

use super::paths::{self, EntryMode};

/// The longest index that is read: some millions of files.
pub const MAX_BYTES: usize = 128 << 20;
/// As many repositories in a tree are told of.
const MAX_EMBEDDED: usize = 64;
/// Folders in folders: more than a path can name.
const MAX_DEEP: usize = 2048;

/// Why git should not read an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is not written as git writes it: what was expected.
    Form(&'static str),
    /// It names a path that git would not put into a work tree.
    Path(Vec<u8>),
    /// Below an entry that is a link or a file there is another one.
    Below(Vec<u8>),
}

/// What an index says beside paths that git accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// The name of the shared index that it goes by (`sharedindex.…`).
    pub shared: Option<Vec<u8>>,
    /// Folders that a checkout would make into repositories.
    pub embedded: Vec<Embedded>,
}

/// A folder of a work tree with a `HEAD` and what else makes git take it for a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its path.
    pub folder: Vec<u8>,
    /// The object that is its configuration, if it has one.
    pub config: Option<Vec<u8>>,
    /// Whether a part of it is a link, or it says that its parts are elsewhere.
    pub links: bool,
    /// Whether it has a folder of hooks.
    pub hooks: bool,
}

/// One entry.
struct Entry<'a> {
    path: &'a [u8],
    mode: EntryMode,
    stage: u16,
    object: &'a [u8],
}

/// Where the entries end, and where each begins; the second says whether it takes nothing over from the one before.
struct Entries {
    end: usize,
    starts: Vec<(u32, bool)>,
    /// Whether there are folders that are not expanded.
    sparse: bool,
    /// Whether there are entries without a name, which stand for one of the shared index.
    nameless: bool,
}

/// Reads an index of a repository whose object names have `hash` bytes (20 or 32).
///
/// # Errors
/// When git could not have written it.
pub fn read(bytes: &[u8], hash: usize) -> Result<Index, Flaw> {
    let mut order = Order::default();
    let mut heads: HashSet<Vec<u8>> = HashSet::new();
    let entries = entries(bytes, hash, |entry| {
        if !paths::is_accepted(entry.path, entry.mode) {
            return Err(Flaw::Path(entry.path.to_vec()));
        }
        order.follows(&entry)?;
        if let (folder, b"HEAD") = split(entry.path)
            && heads.len() < 4096
            && !folder.is_empty()
        {
            heads.insert(folder.to_vec());
        }
        Ok(())
    })?;
    let shared = extensions(bytes, hash, &entries)?;
    let embedded = if heads.is_empty() { Vec::new() } else { embedded(bytes, hash, &heads)? };
    Ok(Index { shared, embedded })
}

/// Which of these folders an index has files of, and the name of the shared index that it goes by. The folders have a slash
/// at their ends, and come in their order, as the entries do.
///
/// # Errors
/// When git could not have written the index.
pub fn folders(bytes: &[u8], hash: usize, folders: &[&[u8]]) -> Result<(Vec<bool>, Option<Vec<u8>>), Flaw> {
    let index = read(bytes, hash)?;
    let mut found = vec![false; folders.len()];
    let mut at = 0;
    entries(bytes, hash, |entry| {
        // The first path that does not come before a folder is in it, or none is.
        while let Some(folder) = folders.get(at).filter(|folder| **folder <= entry.path) {
            found[at] = entry.path.starts_with(folder);
            at += 1;
        }
        Ok(())
    })?;
    Ok((found, index.shared))
}

/// The paths of an index that [`read`] accepts, each with its stage.
#[must_use]
pub fn paths(bytes: &[u8], hash: usize) -> Option<Vec<(u16, Vec<u8>)>> {
    read(bytes, hash).ok()?;
    let mut paths = Vec::new();
    let all = |entry: Entry| {
        paths.push((entry.stage, entry.path.to_vec()));
        Ok(())
    };
    entries(bytes, hash, all).ok()?;
    Some(paths)
}

/// Goes through the entries.
fn entries(
    bytes: &[u8],
    hash: usize,
    mut each: impl FnMut(Entry) -> Result<(), Flaw>,
) -> Result<Entries, Flaw> {
    let end = bytes.len().checked_sub(hash).ok_or(Flaw::Form("a header"))?;
    if bytes.get(..4) != Some(b"DIRC") {
        return Err(Flaw::Form("a header"));
    }
    let version = number(bytes, 4)
        .filter(|version| (2..=4).contains(version))
        .ok_or(Flaw::Form("version 2, 3 or 4"))?;
    let count = number(bytes, 8).ok_or(Flaw::Form("a header"))? as usize;
    let fixed = 40 + hash + 2;
    if count > bytes.len() / (fixed + 1) {
        return Err(Flaw::Form("as many entries as it says"));
    }
    let cut = || Flaw::Form("whole entries");
    let mut found = Entries { end: 12, starts: Vec::with_capacity(count), sparse: false, nameless: false };
    let mut path: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = found.end;
        if start + fixed > end {
            return Err(cut());
        }
        let mode =
            number(bytes, start + 24).and_then(EntryMode::new).ok_or(Flaw::Form("modes that git writes"))?;
        let object = &bytes[start + 40..start + 40 + hash];
        let flags = u16::from_be_bytes([bytes[start + fixed - 2], bytes[start + fixed - 1]]);
        let mut at = start + fixed;
        if flags & 0x4000 != 0 {
            let more = bytes.get(at..at + 2).ok_or_else(cut)?;
            if version < 3 || u16::from_be_bytes([more[0], more[1]]) & !0x6000 != 0 {
                return Err(Flaw::Form("flags that git writes"));
            }
            at += 2;
        }
        let mut whole = true;
        if version == 4 {
            let (dropped, after) = varint(bytes, at, end).ok_or_else(cut)?;
            whole = dropped == path.len();
            path.truncate(path.len().checked_sub(dropped).ok_or_else(cut)?);
            at = after;
        } else {
            path.clear();
        }
        let rest = &bytes[at..end];
        let length = rest.iter().take(path.len() + 8192).position(|byte| *byte == 0).ok_or_else(cut)?;
        path.extend_from_slice(&rest[..length]);
        if usize::from(flags & 0xfff) != path.len().min(0xfff) {
            return Err(Flaw::Form("names as long as they say"));
        }
        found.end = if version == 4 {
            at + length + 1
        } else {
            // Up to eight NULs, to a multiple of eight.
            let next = start + ((at - start + length + 8) & !7);
            if bytes.get(at + length..next).is_none_or(|fill| fill.iter().any(|byte| *byte != 0))
                || next > end
            {
                return Err(cut());
            }
            next
        };
        let start = u32::try_from(start).map_err(|_| cut())?;
        found.starts.push((start, whole));
        found.sparse |= mode == EntryMode::SparseFolder;
        if path.is_empty() {
            // Of a split index: those come first, and have their names elsewhere.
            if found.starts.len() > 1 && !found.nameless {
                return Err(Flaw::Path(Vec::new()));
            }
            found.nameless = true;
            continue;
        }
        each(Entry { path: &path, mode, stage: flags >> 12 & 3, object })?;
    }
    Ok(found)
}

/// Entries come in their order, and none is below another.
#[derive(Default)]
struct Order {
    last: Vec<u8>,
    stage: u16,
    /// Of the entries so far those whose paths are the beginning of the last: its length, and whether nothing may be
    /// below.
    above: Vec<(usize, bool)>,
}

impl Order {
    fn follows(&mut self, entry: &Entry) -> Result<(), Flaw> {
        let Entry { path, mode, stage, .. } = *entry;
        if (self.last.as_slice(), self.stage) >= (path, stage) && !self.last.is_empty() {
            return Err(Flaw::Form("entries in their order"));
        }
        let common = self.last.iter().zip(path).take_while(|(one, other)| one == other).count();
        while self.above.last().is_some_and(|(length, _)| *length > common) {
            self.above.pop();
        }
        let is_above = |(length, closed): &(usize, bool)| *closed && path.get(*length) == Some(&b'/');
        if self.above.iter().any(is_above) {
            return Err(Flaw::Below(path.to_vec()));
        }
        // Of a conflict, a file on one side may be a folder on the other.
        let closed = mode == EntryMode::Link || stage == 0;
        self.above.push((path.len(), closed && mode != EntryMode::SparseFolder));
        self.last.clear();
        self.last.extend_from_slice(path);
        self.stage = stage;
        Ok(())
    }
}

/// Reads what follows the entries. Returns the name of the shared index.
fn extensions(bytes: &[u8], hash: usize, entries: &Entries) -> Result<Option<Vec<u8>>, Flaw> {
    let end = bytes.len() - hash;
    let (mut at, mut seen, mut shared) = (entries.end, Vec::new(), None);
    let mut end_of_entries = None;
    while at < end {
        let broken = Flaw::Form("whole extensions");
        let (name, size) = match (bytes.get(at..at + 4), number(bytes, at + 4)) {
            (Some(name), Some(size)) if at + 8 <= end => (name, size as usize),
            _ => return Err(broken),
        };
        let data = size.checked_add(at + 8).filter(|after| *after <= end).map(|after| &bytes[at + 8..after]);
        let data = data.ok_or(broken)?;
        if seen.contains(&name) {
            return Err(Flaw::Form("each extension once"));
        }
        seen.push(name);
        match name {
            b"TREE" => cached_trees(data, hash)?,
            b"REUC" => resolved(data, hash)?,
            b"link" => {
                let base = data.get(..hash).ok_or(Flaw::Form("the name of a shared index"))?;
                shared = base.iter().any(|byte| *byte != 0).then(|| hex(base));
            }
            // Which files are untracked: git takes nothing from it but what it need not look at.
            b"UNTR" => {}
            b"FSMN" => monitor(data)?,
            b"EOIE" => {
                let is_last = at + 8 + size == end && size == 4 + hash;
                if !is_last || number(data, 0).map(|end| end as usize) != Some(entries.end) {
                    return Err(Flaw::Form("the end of the entries where it says"));
                }
                end_of_entries = Some(at);
            }
            b"IEOT" => offsets(data, entries)?,
            b"sdir" if data.is_empty() => {}
            _ => return Err(Flaw::Form("extensions of git's own")),
        }
        at += 8 + size;
    }
    // Git looks for this one from the end of the file, whatever it is a part of.
    if let Some(place) = end.checked_sub(8 + 4 + hash)
        && bytes[place..].starts_with(b"EOIE")
        && end_of_entries != Some(place)
        && place + 8 >= entries.end
    {
        return Err(Flaw::Form("the end of the entries where it says"));
    }
    if entries.sparse && !seen.contains(&b"sdir".as_slice()) {
        return Err(Flaw::Form("folders in a sparse index only"));
    }
    if entries.nameless && !seen.contains(&b"link".as_slice()) {
        return Err(Flaw::Path(Vec::new()));
    }
    Ok(shared)
}

/// The table by which git reads the entries in several threads: each of its blocks has to begin with an entry that
/// takes nothing over from the one before.
fn offsets(data: &[u8], entries: &Entries) -> Result<(), Flaw> {
    let wrong = Flaw::Form("the offsets of its entries");
    let mut left = entries.starts.iter();
    if number(data, 0) != Some(1) || data.len() % 8 != 4 {
        return Err(wrong);
    }
    for block in data[4..].chunks_exact(8) {
        let (offset, count) = (number(block, 0), number(block, 4).unwrap_or(0) as usize);
        let first = left.as_slice().first();
        if count == 0 || first.is_none_or(|(start, whole)| Some(*start) != offset || !whole) {
            return Err(wrong);
        }
        // Past the end there is none left.
        left.nth(count - 1).ok_or(wrong.clone())?;
    }
    if left.len() == 0 { Ok(()) } else { Err(wrong) }
}

/// The trees that git need not compute again: names of folders, in each other.
fn cached_trees(data: &[u8], hash: usize) -> Result<(), Flaw> {
    let wrong = || Flaw::Form("cached trees");
    let (mut rest, mut open) = (data, vec![1u64]);
    while let Some(left) = open.last_mut() {
        if *left == 0 {
            open.pop();
            continue;
        }
        *left -= 1;
        let end = rest.iter().position(|byte| *byte == 0).ok_or_else(wrong)?;
        let (name, after) = (&rest[..end], &rest[end + 1..]);
        let is_root = open.len() == 1;
        let fits = if is_root {
            name.is_empty()
        } else {
            !name.contains(&b'/') && paths::is_name(name, EntryMode::SparseFolder)
        };
        let line = after.iter().take(32).position(|byte| *byte == b'\n').ok_or_else(wrong)?;
        let numbers = std::str::from_utf8(&after[..line]).map_err(|_| wrong())?;
        let (count, folders) = numbers.split_once(' ').ok_or_else(wrong)?;
        let (Ok(count), Ok(folders)) = (count.parse::<i64>(), folders.parse::<u32>()) else {
            return Err(wrong());
        };
        if !fits || open.len() > MAX_DEEP {
            return Err(wrong());
        }
        rest = after.get(line + 1 + if count < 0 { 0 } else { hash }..).ok_or_else(wrong)?;
        open.push(folders.into());
    }
    if rest.is_empty() { Ok(()) } else { Err(wrong()) }
}

/// Conflicts that were resolved: paths that git puts back into the index when it is told to.
fn resolved(data: &[u8], hash: usize) -> Result<(), Flaw> {
    let wrong = || Flaw::Form("resolved conflicts");
    let mut rest = data;
    while !rest.is_empty() {
        let mut word = || {
            let end = rest.iter().take(8192).position(|byte| *byte == 0)?;
            let word = &rest[..end];
            rest = &rest[end + 1..];
            Some(word)
        };
        let path = word().ok_or_else(wrong)?;
        let mut objects = 0;
        for _ in 0..3 {
            let mode = std::str::from_utf8(word().ok_or_else(wrong)?).map_err(|_| wrong())?;
            match u32::from_str_radix(mode, 8).map_err(|_| wrong())? {
                0 => {}
                mode => {
                    let mode = EntryMode::new(mode).ok_or_else(wrong)?;
                    if !paths::is_accepted(path, mode) {
                        return Err(Flaw::Path(path.to_vec()));
                    }
                    objects += 1;
                }
            }
        }
        rest = rest.get(objects * hash..).ok_or_else(wrong)?;
    }
    Ok(())
}

/// What a monitor of files said last: git hands that to the program that the host's configuration names.
fn monitor(data: &[u8]) -> Result<(), Flaw> {
    let wrong = Flaw::Form("the token of a monitor of files");
    let token = match number(data, 0) {
        Some(1) => return Ok(()),
        Some(2) => &data[4..],
        _ => return Err(wrong),
    };
    let end = token.iter().take(1024).position(|byte| *byte == 0).ok_or(wrong.clone())?;
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b":._-".contains(byte);
    if token[..end].iter().all(plain) { Ok(()) } else { Err(wrong) }
}

/// Which of the folders with a `HEAD` are repositories.
fn embedded(bytes: &[u8], hash: usize, heads: &HashSet<Vec<u8>>) -> Result<Vec<Embedded>, Flaw> {
    #[derive(Default)]
    struct Parts {
        objects: bool,
        refs: bool,
        commondir: bool,
        hooks: bool,
        links: bool,
        config: Option<Vec<u8>>,
    }
    let mut found: HashMap<&[u8], Parts> = HashMap::new();
    entries(bytes, hash, |entry| {
        let slashes = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for at in slashes {
            let Some(folder) = heads.get(&entry.path[..at]) else { continue };
            let parts = found.entry(folder).or_default();
            let inner = &entry.path[at + 1..];
            let first = inner.split(|byte| *byte == b'/').next().unwrap_or_default();
            match first {
                b"objects" => parts.objects = true,
                b"refs" => parts.refs = true,
                b"commondir" => parts.commondir = true,
                b"hooks" => parts.hooks = true,
                b"config" if inner == first => parts.config = Some(entry.object.to_vec()),
                _ => {}
            }
            parts.links |= entry.mode == EntryMode::Link
                && matches!(first, b"objects" | b"refs" | b"HEAD" | b"config" | b"hooks");
        }
        Ok(())
    })?;
    let of_git = found.into_iter().filter(|(_, parts)| parts.commondir || (parts.objects && parts.refs));
    let mut list: Vec<Embedded> = of_git
        .map(|(folder, Parts { config, links, hooks, commondir, .. })| Embedded {
            folder: folder.to_vec(),
            config,
            links: links || commondir,
            hooks,
        })
        .collect();
    list.sort_by(|one, other| one.folder.cmp(&other.folder));
    list.truncate(MAX_EMBEDDED);
    Ok(list)
}

/// The folder that a path is in, and its last name.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// A number as git writes offsets, and where it ends.
fn varint(bytes: &[u8], at: usize, end: usize) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (index, byte) in bytes.get(at..end)?.iter().take(5).enumerate() {
        value = (value << 7) + usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, at + index + 1));
        }
        value += 1;
    }
    None
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
