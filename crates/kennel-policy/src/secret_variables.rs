//! Variables that look like secrets, by their names and by the form of their values.
//!
//! A shell carries about what its user needs: keys of clouds, tokens of forges, the way to the agent that signs for them. A
//! command that may talk to the network needs few of them, and those it needs can be named. No list is complete, so this one
//! goes by how such variables are named and by what keys look like; it can be printed (`kennel secrets`), added to
//! (`environment.secret_names`), and passed by (`environment.pass`).

use std::ffi::OsStr;

use crate::ostext::is_same;
use crate::policy::{EnvironmentPolicy, SecretVariables};

/// What names of secrets look like, in whatever case: `*` stands for anything, also for nothing at all.
pub const NAMES: &[&str] = &[
    "*_TOKEN",
    "*_KEY",
    "*_SECRET",
    "*_PASSWORD",
    "*_PASSWD",
    "*_PASSPHRASE",
    "*_PASS",
    "*_PAT",
    "*_CREDENTIALS",
    "*_CONNECTION_STRING",
    "*_API_TOKENS",
    "*_API_KEYS",
    "*_ACCESS_KEY_ID",
    "*APIKEY",
    // npm's settings are variables too: npm_config_//registry.npmjs.org/:_authToken, npm_config__auth.
    "*AUTHTOKEN",
    "*__AUTH",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PGPASSWORD",
    "MYSQL_PWD",
    "REDISCLI_AUTH",
    "DOCKER_AUTH_CONFIG",
    "BW_SESSION",
    "RESTIC_PASSWORD_COMMAND",
    // Ways to something that signs or decrypts, or to the user's tickets.
    "SSH_AUTH_SOCK",
    "GPG_AGENT_INFO",
    "GNOME_KEYRING_CONTROL",
    "KRB5CCNAME",
];

/// What a word of a value looks like that is a secret whatever the variable's name: `Authorization: token ghp_…` as well as
/// `ghp_…`. A path is one word, so that a folder may be called as it likes.
pub struct NameForm {
    /// How the word starts.
    pub start: &'static str,
    /// How many more letters, digits, `-`, `_`, `.` and `=` follow at least.
    pub more: usize,
    /// What it is.
    pub what: &'static str,
}

/// The forms of keys that name their maker.
pub const FORMS: &[NameForm] = &[
    NameForm { start: "sk-", more: 16, what: "a key of OpenAI, Anthropic and others" },
    NameForm { start: "sk_live_", more: 16, what: "a key of Stripe" },
    NameForm { start: "rk_live_", more: 16, what: "a key of Stripe" },
    NameForm { start: "ghp_", more: 20, what: "a token of GitHub" },
    NameForm { start: "gho_", more: 20, what: "a token of GitHub" },
    NameForm { start: "ghu_", more: 20, what: "a token of GitHub" },
    NameForm { start: "ghs_", more: 20, what: "a token of GitHub" },
    NameForm { start: "ghr_", more: 20, what: "a token of GitHub" },
    NameForm { start: "github_pat_", more: 20, what: "a token of GitHub" },
    NameForm { start: "glpat-", more: 16, what: "a token of GitLab" },
    NameForm { start: "xoxb-", more: 10, what: "a token of Slack" },
    NameForm { start: "xoxp-", more: 10, what: "a token of Slack" },
    NameForm { start: "xoxa-", more: 10, what: "a token of Slack" },
    NameForm { start: "xoxs-", more: 10, what: "a token of Slack" },
    NameForm { start: "xapp-", more: 10, what: "a token of Slack" },
    NameForm { start: "AKIA", more: 16, what: "a key of AWS" },
    NameForm { start: "ASIA", more: 16, what: "a key of AWS" },
    NameForm { start: "AIza", more: 30, what: "a key of Google" },
    NameForm { start: "ya29.", more: 20, what: "a token of Google" },
    NameForm { start: "hf_", more: 20, what: "a token of Hugging Face" },
    NameForm { start: "npm_", more: 30, what: "a token of npm" },
    NameForm { start: "pypi-", more: 30, what: "a token of PyPI" },
    NameForm { start: "dop_v1_", more: 30, what: "a token of DigitalOcean" },
    NameForm { start: "eyJ", more: 30, what: "a signed token (JWT)" },
];

/// What else a value can hold: these are looked for anywhere in it.
pub const ANYWHERE: &[&str] =
    &["-----BEGIN … PRIVATE KEY-----", "://USER:PASSWORD@", "Authorization: …", "X-Api-Key: …"];

/// Fields of requests that hold a secret, in lower case: of git's `http.extraHeader` and others' lists of headers.
const FIELDS: &[&[u8]] =
    &[b"authorization:", b"x-api-key:", b"x-goog-api-key:", b"api-key:", b"private-token:"];

/// Whether a variable of the caller's is kept back because it looks like a secret. Unless the policy names it in `pass`.
#[must_use]
pub fn is_withheld(policy: &EnvironmentPolicy, name: &OsStr, value: &OsStr) -> bool {
    policy.secrets == SecretVariables::Withhold
        && !policy.pass.iter().any(|pass| is_same(pass, name))
        && !value.is_empty()
        && (is_named_so(&policy.secret_names, name) || has_form(value.as_encoded_bytes()))
}

/// Whether its name is that of a secret; `more` are names beyond [`NAMES`].
fn is_named_so(more: &[std::ffi::OsString], name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    NAMES.iter().any(|pattern| matches(pattern.as_bytes(), name))
        || more.iter().any(|pattern| matches(pattern.as_encoded_bytes(), name))
}

/// Whether an entry of `environment.secret_names` means a variable.
pub(crate) fn is_like(pattern: &OsStr, name: &OsStr) -> bool {
    matches(pattern.as_encoded_bytes(), name.as_encoded_bytes())
}

/// Whether a name is like the pattern, in whatever case.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // The text after the last `*` that was met, and what of the name it was compared with: `*` takes one more byte each time
    // that the rest does not fit.
    let (mut at, mut taken) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while taken < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                star = Some((at, taken));
            }
            Some(byte) if byte.eq_ignore_ascii_case(&name[taken]) => {
                at += 1;
                taken += 1;
            }
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (at, taken) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

pub(crate) fn has_form(value: &[u8]) -> bool {
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_.=".contains(byte);
    let starts = |word: &[u8]| {
        FORMS.iter().any(|form| {
            let rest = word.strip_prefix(form.start.as_bytes());
            rest.is_some_and(|rest| rest.iter().take(form.more).take_while(is_part).count() >= form.more)
        })
    };
    words(value).any(|word| starts(word) || has_field(word)) || has_private_key(value) || has_login(value)
}

/// The bytes that something above starts with. Every start of kennel asks about each word of the environment, and most words end
/// here.
const FIRST: [bool; 256] = {
    let mut first = [false; 256];
    let mut at = 0;
    while at < FORMS.len() {
        first[FORMS[at].start.as_bytes()[0] as usize] = true;
        at += 1;
    }
    at = 0;
    while at < FIELDS.len() {
        first[FIELDS[at][0] as usize] = true;
        first[FIELDS[at][0].to_ascii_uppercase() as usize] = true;
        at += 1;
    }
    first
};

/// What follows each place where such a word can start.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let before = |byte: u8| byte.is_ascii_whitespace() || b":=,;\"'`()[]{}<>|&?".contains(&byte);
    let starts = (0..value.len()).filter(move |at| match at.checked_sub(1) {
        _ if !FIRST[usize::from(value[*at])] => false,
        None => true,
        Some(last) => before(value[last]),
    });
    starts.map(|at| &value[at..])
}

/// Whether a field with a secret starts here, and has a value.
fn has_field(word: &[u8]) -> bool {
    let value = FIELDS.iter().find_map(|field| {
        let (name, value) = word.split_at_checked(field.len())?;
        name.eq_ignore_ascii_case(field).then_some(value)
    });
    value.is_some_and(|value| !value.trim_ascii().is_empty())
}

fn has_private_key(value: &[u8]) -> bool {
    let find = |text: &[u8], value: &[u8]| value.windows(text.len()).position(|part| part == text);
    let start = find(b"-----BEGIN ", value);
    start.is_some_and(|start| find(b"PRIVATE KEY", &value[start..]).is_some())
}

/// Whether there is an address in it with a user and a password.
fn has_login(value: &[u8]) -> bool {
    let mut rest = value;
    while let Some(at) = rest.windows(3).position(|part| part == b"://") {
        rest = &rest[at + 3..];
        let end = rest.iter().position(|byte| b"/?# \t\r\n\"'<>".contains(byte)).unwrap_or(rest.len());
        let login = rest[..end].iter().rposition(|byte| *byte == b'@').map(|at| &rest[..at]);
        let password = login.and_then(|login| login.splitn(2, |byte| *byte == b':').nth(1));
        if password.is_some_and(|password| !password.is_empty()) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn withheld(name: &str, value: &str) -> bool {
        let policy = EnvironmentPolicy {
            secrets: SecretVariables::Withhold,
            pass: vec!["OWN_TOKEN".into()],
            secret_names: vec!["MY_*_code".into()],
            ..Default::default()
        };
        is_withheld(&policy, OsStr::new(name), OsStr::new(value))
    }

    #[test]
    fn names_and_values_of_secrets_are_known() {
        for name in ["GITHUB_TOKEN", "github_token", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"]
        {
            assert!(withheld(name, "x"), "{name}");
        }
        for name in [
            "npm_config_//registry.npmjs.org/:_authToken",
            "npm_config__auth",
            "NODE_AUTHTOKEN",
            "ACME_APIKEY",
        ] {
            assert!(withheld(name, "x"), "{name}");
        }
        for name in ["AWS_ACCESS_KEY_ID", "SSH_AUTH_SOCK", "MY_DOOR_CODE", "MY__CODE", "DB_PASS", "_KEY"] {
            assert!(withheld(name, "x"), "{name}");
        }
        for value in [
            "sk-ant-api03-0123456789abcdef",
            "ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "AKIAIOSFODNN7EXAMPLE",
            "postgres://me:word@db.example/x",
            "see https://a.example/ and redis://:word@b.example",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn",
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln",
            "Authorization: token ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "AUTHORIZATION: basic eDp4",
            "X-One: 1\nX-Api-Key: plain",
            "{\"token\":\"sk-ant-api03-0123456789abcdef\"}",
            "--key=AIzaSyA0123456789abcdefghijABCDEFGHIJ012",
            "https://a.test/?key=AIzaSyA0123456789abcdefghijABCDEFGHIJ012",
        ] {
            assert!(withheld("PLAIN", value), "{value}");
        }
    }

    #[test]
    fn what_only_resembles_them_passes() {
        for name in [
            "PATH",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "MONKEY",
            "PWD",
            "COMPASS",
            "TOKENS",
            "SSH_AGENT_PID",
        ] {
            assert!(!withheld(name, "x"), "{name}");
        }
        for value in [
            "sk-",
            "sk-short",
            "https://a.example/x@y:z",
            "http://user@host",
            "eyJ",
            "AKIA",
            "-----BEGIN CERTIFICATE-----",
            "/opt/sk-a-folder-with-a-long-name:/usr/lib/npm_0123456789abcdefghijABCDEFGHIJ",
            "risk-0123456789abcdefghij",
            "Authorization:",
            "reauthorization: x",
        ] {
            assert!(!withheld("PLAIN", value), "{value}");
        }
        assert!(!withheld("EMPTY_TOKEN", ""), "an empty variable is no secret");
        assert!(!withheld("OWN_TOKEN", "x"), "what the policy names passes");
        let lax = EnvironmentPolicy::default();
        assert!(!is_withheld(&lax, OsStr::new("GITHUB_TOKEN"), OsStr::new("x")));
    }

    #[test]
    fn a_long_value_takes_no_time() {
        let value = "sk-".repeat(1 << 15) + &":".repeat(1 << 15) + &"a=".repeat(1 << 15);
        let start = std::time::Instant::now();
        assert!(!has_form(value.trim_start_matches("sk-").as_bytes()));
        assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
    }

    #[test]
    fn a_pattern_with_many_stars_takes_no_time() {
        assert!(!matches(b"*a*a*a*a*a*a*a*a*a*a*b", &[b'a'; 100_000][..2000]));
        assert!(matches(b"**a**", b"bab"));
    }
}
