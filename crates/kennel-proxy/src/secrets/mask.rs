//! A variable or a file in which only parts are secret: these parts get stand-ins, and the rest is shown as it is.

use std::io;
use std::ops::Range;

use kennel_policy::extract::{ExtractError, ExtractPattern};
use kennel_policy::secrets::SecretParts;

use super::jwt;
use super::locked::SecretValue;
use super::stand_in::{self, StandInError, stand_in_for};

/// What finds tokens in a file. Each is looked into: not all that has this shape is one.
const TOKENS: &str = r"(eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)";

/// What holds the secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A variable, which is a token as a whole if it is one.
    Variable,
    /// A file, which has tokens in it.
    File,
}

/// What is shown inside, and what stands for what in it.
#[derive(Debug)]
pub struct Masked {
    /// The text with stand-ins in it.
    pub shown: String,
    /// Each secret.
    pub parts: Vec<MaskedPart>,
}

/// One secret.
#[derive(Debug)]
pub struct MaskedPart {
    /// What is shown.
    pub stand_in: String,
    /// What it is.
    pub value: SecretValue,
}

/// Why a text cannot be shown at all. It quotes nothing of the text.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    /// Not UTF-8.
    #[error("it is not text")]
    NotText,
    /// No secret was found.
    #[error("the regular expression `{0}` matches nothing in it")]
    NoMatch(String),
    /// No token was found.
    #[error("it holds no JWT")]
    NoToken,
    /// No claim was found.
    #[error("it holds no JWT with one of these claims as a string: {0}")]
    NoClaim(String),
    /// The expression fits it in a way that it must not.
    #[error(transparent)]
    Extract(#[from] ExtractError),
    /// A secret that cannot be swapped.
    #[error("a part that is secret cannot be exchanged: {0}")]
    StandIn(#[from] StandInError),
    /// No memory, or no random bytes.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Puts stand-ins for the secret parts of a text, wherever each of these is in it.
///
/// ```
/// use kennel_policy::extract::ExtractPattern;
/// use kennel_policy::secrets::SecretParts;
/// use kennel_proxy::secrets::{Holder, mask_parts};
///
/// let parts = SecretParts { pattern: Some(ExtractPattern::parse(":([^@:]+)@")?), ..SecretParts::default() };
/// let masked = mask_parts(b"postgres://me:hunter2-hunter2@db.test/x", &parts, Holder::Variable)?;
/// assert!(masked.shown.starts_with("postgres://me:") && masked.shown.ends_with("@db.test/x"));
/// assert_eq!(masked.parts[0].value.expose(), b"hunter2-hunter2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where nothing secret is found, or something that cannot be exchanged: then the text must not be shown.
pub fn mask_parts(text: &[u8], parts: &SecretParts, holder: Holder) -> Result<Masked, MaskError> {
    let text = std::str::from_utf8(text).map_err(|_| MaskError::NotText)?;
    let spans = spans(text, parts, holder)?;
    let mut masking = Masking { text, places: Vec::new(), parts: Vec::new() };
    for span in spans {
        masking.part(span, parts)?;
    }
    if masking.parts.is_empty() {
        return Err(match (&parts.pattern, parts.jwt) {
            (_, true) if !parts.claims.is_empty() => MaskError::NoClaim(parts.claims.join(", ")),
            (Some(pattern), false) => MaskError::NoMatch(pattern.to_string()),
            _ => MaskError::NoToken,
        });
    }
    masking.elsewhere();
    Ok(masking.masked())
}

fn spans(text: &str, parts: &SecretParts, holder: Holder) -> Result<Vec<Range<usize>>, MaskError> {
    match (&parts.pattern, holder) {
        (Some(pattern), _) => Ok(pattern.find(text)?),
        (None, Holder::File) => Ok(ExtractPattern::parse(TOKENS)?.find(text)?),
        (None, Holder::Variable) => Ok(std::iter::once(0..text.len()).collect()),
    }
}

/// A text on its way.
struct Masking<'t> {
    text: &'t str,
    /// Where something is replaced, and by which part.
    places: Vec<(Range<usize>, usize)>,
    parts: Vec<MaskedPart>,
}

impl Masking<'_> {
    /// Hides one match.
    fn part(&mut self, span: Range<usize>, rules: &SecretParts) -> Result<(), MaskError> {
        let value = &self.text[span.clone()];
        if let Some(known) = self.parts.iter().position(|part| part.value.expose() == value.as_bytes()) {
            self.places.push((span, known));
            return Ok(());
        }
        let stand_in = match rules.jwt {
            false => stand_in_for(value.as_bytes())?,
            true if !jwt::is_jwt(value) => return Ok(()),
            true => {
                stand_in::check(value.as_bytes())?;
                match self.token(value, &rules.claims)? {
                    Some(stand_in) => stand_in,
                    None => return Ok(()),
                }
            }
        };
        self.places.push((span, self.parts.len()));
        self.parts.push(MaskedPart { stand_in, value: SecretValue::from_bytes(value.as_bytes().to_vec())? });
        Ok(())
    }

    /// A token for a token; `None` where it has none of the claims.
    fn token(&mut self, token: &str, names: &[String]) -> Result<Option<String>, MaskError> {
        if names.is_empty() {
            return Ok(Some(jwt::stand_in()?));
        }
        let Some((payload, claims)) = jwt::claims(token, names) else { return Err(MaskError::NotText) };
        if claims.is_empty() {
            return Ok(None);
        }
        let mut named = Vec::with_capacity(claims.len());
        for claim in claims {
            let known = self.parts.iter().find(|part| part.value.expose() == claim.value.as_slice());
            let stand_in = match known {
                Some(part) => part.stand_in.clone(),
                None => {
                    let stand_in = stand_in_for(&claim.value)?;
                    let value = SecretValue::from_bytes(claim.value.to_vec())?;
                    self.parts.push(MaskedPart { stand_in: stand_in.clone(), value });
                    stand_in
                }
            };
            named.push((claim, stand_in));
        }
        Ok(Some(jwt::rebuilt(token, &payload, &named)?))
    }

    /// Hides the same texts where no match was. The longest goes first, so that no shorter one leaves a rest of it.
    fn elsewhere(&mut self) {
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.parts[*at].value.expose().len()));
        for part in order {
            let value = self.parts[part].value.clone();
            let finder = memchr::memmem::Finder::new(value.expose());
            let mut from = 0;
            while let Some(at) = finder.find(&self.text.as_bytes()[from..]) {
                let found = from + at..from + at + value.expose().len();
                from = found.start + 1;
                let overlaps =
                    |(place, _): &(Range<usize>, usize)| found.start < place.end && place.start < found.end;
                if !self.places.iter().any(overlaps) {
                    self.places.push((found, part));
                }
            }
        }
        self.places.sort_by_key(|(place, _)| place.start);
    }

    fn masked(self) -> Masked {
        let mut shown = String::with_capacity(self.text.len());
        let mut from = 0;
        for (place, part) in self.places {
            shown.push_str(&self.text[from..place.start]);
            shown.push_str(&self.parts[part].stand_in);
            from = place.end;
        }
        shown.push_str(&self.text[from..]);
        Masked { shown, parts: self.parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(pattern: &str) -> SecretParts {
        SecretParts { pattern: Some(ExtractPattern::parse(pattern).unwrap()), ..SecretParts::default() }
    }

    fn jwt_parts(claims: &[&str]) -> SecretParts {
        SecretParts {
            jwt: true,
            claims: claims.iter().map(|claim| (*claim).to_owned()).collect(),
            ..SecretParts::default()
        }
    }

    /// What leaves when every stand-in is exchanged.
    fn sent(masked: &Masked) -> String {
        let mut text = masked.shown.clone();
        for part in &masked.parts {
            text = text.replace(&part.stand_in, std::str::from_utf8(part.value.expose()).unwrap());
        }
        text
    }

    const TOKEN: &str =
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJtZSIsImtleSI6InZlcnktc2VjcmV0LWNsYWltIn0.c2lnbmF0dXJl";

    #[test]
    fn only_the_parts_are_hidden() {
        let text = "machine a.test login me password hunter2-hunter2\nmachine b.test login me password other-password\n# hunter2-hunter2";
        let masked = mask_parts(text.as_bytes(), &parts(r"password (\S+)"), Holder::File).unwrap();
        assert_eq!(masked.parts.len(), 2);
        assert!(!masked.shown.contains("hunter2") && !masked.shown.contains("other-password"));
        assert!(masked.shown.starts_with("machine a.test login me password "));
        assert_eq!(sent(&masked), text);
    }

    #[test]
    fn what_is_part_of_a_longer_secret_leaves_no_rest_of_it() {
        let text = "a=password1 b=password1-and-more\n# password1-and-more";
        let masked = mask_parts(text.as_bytes(), &parts(r"\w=(\S+)"), Holder::File).unwrap();
        assert!(
            !masked.shown.contains("password1") && !masked.shown.contains("and-more"),
            "{}",
            masked.shown
        );
        assert_eq!(sent(&masked), text);
    }

    #[test]
    fn a_token_is_shown_as_a_token() {
        let text = format!("{{\"token\": \"{TOKEN}\", \"other\": \"eyJub.t.one\"}}");
        let masked = mask_parts(text.as_bytes(), &jwt_parts(&[]), Holder::File).unwrap();
        assert_eq!(masked.parts.len(), 1);
        assert!(jwt::is_jwt(&masked.parts[0].stand_in) && masked.shown.contains("eyJub.t.one"));
        assert_eq!(sent(&masked), text);
        let variable = mask_parts(TOKEN.as_bytes(), &jwt_parts(&[]), Holder::Variable).unwrap();
        assert!(jwt::is_jwt(&variable.shown) && variable.shown != TOKEN);
    }

    #[test]
    fn a_claim_is_a_secret_of_its_own_and_the_token_another() {
        let masked = mask_parts(TOKEN.as_bytes(), &jwt_parts(&["key", "none"]), Holder::Variable).unwrap();
        let values: Vec<&[u8]> = masked.parts.iter().map(|part| part.value.expose()).collect();
        assert_eq!(values, [b"very-secret-claim".as_slice(), TOKEN.as_bytes()]);
        assert_eq!(masked.shown, masked.parts[1].stand_in);
        let (payload, _) = jwt::claims(&masked.shown, &[]).unwrap();
        let payload = String::from_utf8(payload.to_vec()).unwrap();
        assert_eq!(payload, format!(r#"{{"iss":"me","key":"{}"}}"#, masked.parts[0].stand_in));
    }

    #[test]
    fn where_nothing_is_found_nothing_is_shown() {
        let why = |text: &[u8], parts: &SecretParts, holder| {
            mask_parts(text, parts, holder).unwrap_err().to_string()
        };
        assert_eq!(
            why(b"x", &parts("(y)"), Holder::File),
            "the regular expression `(y)` matches nothing in it"
        );
        assert_eq!(why(b"eyJ.a.b", &jwt_parts(&[]), Holder::File), "it holds no JWT");
        assert_eq!(why(format!(" {TOKEN}").as_bytes(), &jwt_parts(&[]), Holder::Variable), "it holds no JWT");
        assert!(why(TOKEN.as_bytes(), &jwt_parts(&["sub"]), Holder::File).ends_with("as a string: sub"));
        assert_eq!(why(b"\xff", &parts("(y)"), Holder::File), "it is not text");
        assert!(why(b"pw=short", &parts("pw=(.*)"), Holder::File).contains("less than 8 characters"));
        assert!(matches!(
            mask_parts(b"password one\ntwo two two", &parts(r"password ([^]*)"), Holder::File),
            Err(MaskError::StandIn(StandInError::ControlCharacter))
        ));
    }

    proptest! {
        #[test]
        #[kennel_claim::claim("secrets/srt-masks")]
        fn no_secret_is_shown_and_all_is_sent(
            secrets in prop::collection::vec("[a-z]{8,12}", 1..4),
            order in prop::collection::vec((0usize..4, any::<bool>(), "[A-Z \n]{0,3}"), 1..12),
        ) {
            let mut text = String::new();
            let mut marked = false;
            for (which, mark, between) in order {
                let secret = &secrets[which % secrets.len()];
                marked |= mark;
                text.push_str(if mark { "<" } else { "" });
                text.push_str(secret);
                text.push_str(if mark { ">" } else { "|" });
                text.push_str(&between);
            }
            let masked = mask_parts(text.as_bytes(), &parts("<([a-z]+)>"), Holder::File);
            prop_assert_eq!(masked.is_ok(), marked);
            if let Ok(masked) = masked {
                for part in &masked.parts {
                    prop_assert!(!masked.shown.contains(std::str::from_utf8(part.value.expose()).unwrap()));
                }
                prop_assert_eq!(sent(&masked), text);
            }
        }
    }
}
