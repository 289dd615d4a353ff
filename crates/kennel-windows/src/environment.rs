//! Which variables the command sees, and how they are handed to it.
//!
//! Names are compared without case, as Windows does: a rule about `path` is about `Path`. A block is sorted, since the
//! functions that read it may search it so.

use std::ffi::{OsStr, OsString};

use kennel_policy::policy::{EnvironmentBase, EnvironmentPolicy};

/// What passes even when the environment is cleared: without these neither Windows' own libraries nor most programs start.
const BASIC: &[&str] = &[
    "ALLUSERSPROFILE",
    "APPDATA",
    "COLORTERM",
    "CommonProgramFiles",
    "CommonProgramFiles(x86)",
    "CommonProgramW6432",
    "COMPUTERNAME",
    "ComSpec",
    "DriverData",
    "HOMEDRIVE",
    "HOMEPATH",
    "LANG",
    "LOCALAPPDATA",
    "NO_COLOR",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "ProgramData",
    "ProgramFiles",
    "ProgramFiles(x86)",
    "ProgramW6432",
    "PUBLIC",
    "SystemDrive",
    "SystemRoot",
    "TEMP",
    "TERM",
    "TMP",
    "TZ",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "windir",
];

/// What a program cannot start without: the loader of sockets and of cryptography looks for `SystemRoot`.
const NEEDED: &str = "SystemRoot";

/// Why variables cannot be handed over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// A name that would be read as another.
    #[error("the name of variable {0:?} is empty or contains an equals sign")]
    Name(String),
    /// A zero would end it.
    #[error("variable {0:?} contains a NUL character")]
    Nul(String),
}

/// The command's variables: of those `inherited` from the caller what the policy passes on, then `added` (those of the
/// network and of the private folder for temporary files), then what the policy sets.
///
/// A caller's variable without a proper name is left out: `=C:` and the like hold the folders in which the caller was on
/// each drive.
#[must_use]
pub fn variables<'v>(
    policy: &EnvironmentPolicy,
    inherited: impl Iterator<Item = (&'v OsStr, &'v OsStr)>,
    added: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let among = |names: &[OsString], name: &OsStr| names.iter().any(|own| is_same(own, name));
    let passes = |name: &OsStr| {
        let is_basic = || BASIC.iter().any(|basic| is_same(OsStr::new(basic), name));
        !among(&policy.unset, name)
            && (policy.base == EnvironmentBase::Inherit || among(&policy.pass, name) || is_basic())
    };
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &OsStr, value: &OsStr| {
        variables.retain(|(own, _)| !is_same(own, name));
        variables.push((name.to_owned(), value.to_owned()));
    };
    for (name, value) in inherited {
        let bytes = name.as_encoded_bytes();
        if !bytes.is_empty() && !bytes.contains(&b'=') && (passes(name) || is_same(name, OsStr::new(NEEDED)))
        {
            set(name, value);
        }
    }
    for (name, value) in added.iter().chain(&policy.set) {
        set(name, value);
    }
    variables
}

/// Whether two names are one to Windows.
#[must_use]
pub fn is_same(one: &OsStr, other: &OsStr) -> bool {
    match (one.to_str(), other.to_str()) {
        (Some(one), Some(other)) => {
            one.len() == other.len() && one.eq_ignore_ascii_case(other)
                || folded(&one.encode_utf16().collect::<Vec<_>>())
                    == folded(&other.encode_utf16().collect::<Vec<_>>())
        }
        _ => one == other,
    }
}

/// Writes variables as `CreateProcess` takes them: `NAME=value`, each with a zero at its end, sorted by name without case,
/// and another zero.
///
/// # Errors
/// When a name or value cannot be written so.
pub fn block(variables: &[(Vec<u16>, Vec<u16>)]) -> Result<Vec<u16>, BlockError> {
    for (name, value) in variables {
        let shown = || String::from_utf16_lossy(name);
        if name.is_empty() || name.contains(&u16::from(b'=')) {
            return Err(BlockError::Name(shown()));
        }
        if name.contains(&0) || value.contains(&0) {
            return Err(BlockError::Nul(shown()));
        }
    }
    let mut sorted: Vec<_> = variables.iter().map(|variable| (folded(&variable.0), variable)).collect();
    // Stable, and the last of one name is the one that counts.
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    let mut block = Vec::new();
    for (index, (name, (own, value))) in sorted.iter().enumerate() {
        if sorted.get(index + 1).is_some_and(|next| next.0 == *name) {
            continue;
        }
        block.extend(own);
        block.push(b'='.into());
        block.extend(value);
        block.push(0);
    }
    if block.is_empty() {
        // One zero alone would be read as one more variable's beginning by old programs.
        block.push(0);
    }
    block.push(0);
    Ok(block)
}

/// A name in capitals, unit by unit as Windows does it: what has no capital of one unit stays.
fn folded(name: &[u16]) -> Vec<u16> {
    let capital = |unit: u16| {
        let Some(character) = char::from_u32(unit.into()) else { return unit };
        let mut capitals = character.to_uppercase();
        match (capitals.next(), capitals.next()) {
            (Some(capital), None) => u16::try_from(u32::from(capital)).unwrap_or(unit),
            _ => unit,
        }
    };
    name.iter().map(|unit| capital(*unit)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(policy: &EnvironmentPolicy, added: &[(&str, &str)]) -> Vec<String> {
        let inherited = [
            ("=C:", "C:\\here"),
            ("Path", "C:\\bin"),
            ("TOKEN", "secret"),
            ("Keep", "1"),
            ("SYSTEMROOT", "C:\\Windows"),
            ("temp", "C:\\theirs"),
        ];
        let inherited = inherited.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
        let added: Vec<(OsString, OsString)> =
            added.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let all = variables(policy, inherited, &added);
        all.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn names_are_compared_without_case() {
        let policy = EnvironmentPolicy {
            unset: vec!["token".into()],
            set: vec![("PATH".into(), "D:\\bin".into())],
            ..Default::default()
        };
        assert_eq!(
            with(&policy, &[("TEMP", "C:\\ours")]),
            ["Keep=1", "SYSTEMROOT=C:\\Windows", "TEMP=C:\\ours", "PATH=D:\\bin"]
        );
    }

    #[test]
    fn a_cleared_environment_keeps_what_programs_need_and_what_is_passed_by_name() {
        let policy = EnvironmentPolicy {
            base: EnvironmentBase::Clear,
            pass: vec!["KEEP".into()],
            unset: vec!["systemroot".into()],
            ..Default::default()
        };
        assert_eq!(
            with(&policy, &[]),
            ["Path=C:\\bin", "Keep=1", "SYSTEMROOT=C:\\Windows", "temp=C:\\theirs"]
        );
    }

    fn wide(pairs: &[(&str, &str)]) -> Vec<(Vec<u16>, Vec<u16>)> {
        let wide = |text: &str| text.encode_utf16().collect();
        pairs.iter().map(|(name, value)| (wide(name), wide(value))).collect()
    }

    #[test]
    fn a_block_is_sorted_without_case_and_has_each_name_once() {
        let made =
            block(&wide(&[("b", "1"), ("A", "2"), ("_", "3"), ("é", "5"), ("É", "6"), ("B", "4")])).unwrap();
        assert_eq!(String::from_utf16(&made).unwrap(), "A=2\0B=4\0_=3\0É=6\0\0");
        assert_eq!(block(&[]).unwrap(), [0, 0]);
    }

    #[test]
    fn what_would_be_read_as_another_variable_is_refused() {
        assert!(matches!(block(&wide(&[("A=B", "x")])), Err(BlockError::Name(_))));
        assert!(matches!(block(&wide(&[("", "x")])), Err(BlockError::Name(_))));
        assert!(matches!(block(&wide(&[("A", "x\0B=y")])), Err(BlockError::Nul(_))));
    }

    proptest! {
        #[test]
        fn a_block_says_what_was_put_in(pairs in prop::collection::btree_map("[A-Z_][A-Z0-9_()]{0,8}", "[^\0]{0,12}", 0..12)) {
            let given: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let made = String::from_utf16(&block(&wide(&given)).unwrap()).unwrap();
            prop_assert!(made.ends_with("\0\0"));
            let read: Vec<(&str, &str)> =
                made.split('\0').filter(|line| !line.is_empty()).map(|line| line.split_once('=').unwrap()).collect();
            prop_assert_eq!(read, given);
        }
    }
}
