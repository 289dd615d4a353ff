//! A pattern in pieces, for whoever has to say it in another language.

use std::ops::RangeInclusive;

use super::{PathPattern, Segment, Token, Unit};

/// One component of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Component {
    /// `**`: any number of components, none included.
    AnyDepth,
    /// A name, or a name with special characters.
    Name(Vec<Piece>),
}

/// A piece of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes, which need not be text.
    Literal(Vec<u8>),
    /// `*`: any run of characters.
    Run,
    /// So many characters, or at least so many; those beyond U+FFFF may count twice.
    Characters {
        /// How many.
        count: usize,
        /// Whether there may be more.
        or_more: bool,
    },
    /// One character of a set. A byte that is part of none is numbered after the last character.
    Set {
        /// Whether it is one that is not in the set.
        negated: bool,
        /// What is in it.
        ranges: Vec<RangeInclusive<u32>>,
    },
}

impl PathPattern {
    /// The pattern in pieces, component by component.
    ///
    /// ```
    /// use kennel_policy::pattern::{Component, PathPattern, Piece};
    /// let pattern = PathPattern::parse("/a/**/*.b")?;
    /// let pieces = vec![Piece::Run, Piece::Literal(b".b".to_vec())];
    /// assert_eq!(pattern.pieces()[1..], [Component::AnyDepth, Component::Name(pieces)]);
    /// # Ok::<(), kennel_policy::pattern::PatternError>(())
    /// ```
    #[must_use]
    pub fn pieces(&self) -> Vec<Component> {
        let component = |segment: &Segment| match segment {
            Segment::AnyDepth => Component::AnyDepth,
            Segment::Literal(name) => Component::Name(vec![Piece::Literal(name.to_vec())]),
            Segment::Glob(tokens) => Component::Name(pieces(tokens)),
        };
        self.segments.iter().map(component).collect()
    }
}

fn pieces(tokens: &[Token]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for token in tokens {
        let piece = match token {
            Token::Unit(unit) => {
                if let Some(Piece::Literal(bytes)) = pieces.last_mut() {
                    bytes.extend(bytes_of(*unit));
                    continue;
                }
                Piece::Literal(bytes_of(*unit))
            }
            Token::One => Piece::Characters { count: 1, or_more: false },
            Token::Utf16 { count, open } => Piece::Characters { count: *count, or_more: *open },
            Token::Run => Piece::Run,
            Token::Set { negated, ranges } => {
                let ranges = ranges.iter().map(|(low, high)| *low..=*high).collect();
                Piece::Set { negated: *negated, ranges }
            }
        };
        pieces.push(piece);
    }
    pieces
}

fn bytes_of(unit: Unit) -> Vec<u8> {
    match char::from_u32(unit) {
        Some(character) => character.to_string().into_bytes(),
        None => vec![(unit - u32::from(char::MAX) - 1) as u8],
    }
}
