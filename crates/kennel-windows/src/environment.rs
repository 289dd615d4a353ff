//! The command's variables as Windows hands them over. Which ones they are is `kennel_policy::environment`'s to say.
//!
//! A block is sorted by name without case, since the functions that read it may search it so.

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

/// Whether a variable of the caller's is one that people see. The others, such as `=C:`, hold the folders in which the caller
/// was on each drive.
#[must_use]
pub fn is_visible(name: &std::ffi::OsStr) -> bool {
    !name.as_encoded_bytes().starts_with(b"=")
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
