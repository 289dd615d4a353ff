//! `[secrets.NAME]` and `--secret`: one secret, as it was written.
//!
//! People put a token where its source belongs. So nothing here repeats what was written for a source: the mistake is
//! explained, and the text is not shown.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::Base;
use super::text::{self, ValueError};
use crate::domain::{HostPattern, HostRule, ListKind};
use crate::nearest::nearest;
use crate::policy::Origin;
use crate::printed::show;
use crate::quantity;
use crate::secret_variables;
use crate::secrets::{SecretMode, SecretSource, SwapIn};

/// A secret, as one source of settings has it. A stronger source that names it too replaces all of it, so that no host of one
/// meets the value of another.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretEntry {
    /// What it is called.
    pub name: String,
    /// Where the real value comes from; by default the first of `files`, else the variable of its name.
    pub from: Option<SecretSource>,
    /// What the command gets.
    pub mode: SecretMode,
    /// The hosts that it is sent to; by default those of its name, if kennel knows it.
    pub hosts: Vec<HostRule>,
    /// The variable that holds it inside; by default the one of its name, and none if there are `files`.
    pub variable: Option<OsString>,
    /// Files that show it inside.
    pub files: Vec<PathBuf>,
    /// Whether these show the rest of the host's files, too.
    pub whole_files: bool,
    /// Where in a request it is put in, beside the header fields.
    pub swap_in: SwapIn,
    /// Where it was set.
    pub origin: Origin,
}

/// The ways to say where a value comes from.
const SCHEMES: [&str; 5] = ["env", "file", "fd", "command", "keyring"];

impl SecretEntry {
    /// A secret of which nothing but the name was said.
    ///
    /// # Errors
    /// When it is no name.
    pub fn named(name: &str, origin: Origin) -> Result<SecretEntry, ValueError> {
        Ok(SecretEntry {
            name: secret_name(name)?.to_owned(),
            from: None,
            mode: SecretMode::default(),
            hosts: Vec::new(),
            variable: None,
            files: Vec::new(),
            whole_files: false,
            swap_in: SwapIn::default(),
            origin,
        })
    }

    /// Adds it to others, in the place of one with its name.
    pub(crate) fn put(list: &mut Vec<SecretEntry>, entry: SecretEntry) {
        list.retain(|other| other.name != entry.name);
        list.push(entry);
    }

    /// Reads `NAME[=FROM][@HOST,…]`. What follows the last `@` are hosts.
    pub(super) fn parse(text: &OsStr, base: &Base, origin: Origin) -> Result<SecretEntry, ValueError> {
        let text = text.to_str().ok_or(ValueError::SecretSource { hint: None })?;
        let (rest, hosts) = match text.rsplit_once('@') {
            Some((rest, hosts)) => (rest, Some(hosts)),
            None => (text, None),
        };
        let (name, from) = match rest.split_once('=') {
            Some((name, from)) => (name, Some(from)),
            None => (rest, None),
        };
        let mut entry = SecretEntry::named(name, origin)?;
        entry.from = from.map(|from| source(from, base)).transpose()?;
        for one in hosts.into_iter().flat_map(|hosts| hosts.split(',')) {
            entry.hosts.push(host(one, entry.origin.clone())?);
        }
        Ok(entry)
    }
}

/// The name of a secret.
pub(super) fn secret_name(text: &str) -> Result<&str, ValueError> {
    // A token in the place of a name.
    if secret_variables::has_form(text.as_bytes()) {
        return Err(ValueError::SecretSource { hint: None });
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let valid = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    if valid { Ok(text) } else { Err(ValueError::SecretName(show(text.as_bytes()))) }
}

/// A host that a secret is sent to. It speaks HTTP, so no other protocol is named.
pub(super) fn host(text: &str, origin: Origin) -> Result<HostRule, ValueError> {
    let rule = text::host(text, ListKind::Allow, origin)?;
    match (&rule.protocol, &rule.host) {
        (Some(_), _) => Err(ValueError::SecretHost(show(text.as_bytes()))),
        // Who owns an address is nobody's knowledge: no certificate of the web's names one.
        (None, HostPattern::Ip(_) | HostPattern::Net(..)) => {
            Err(ValueError::SecretAddress(show(text.as_bytes())))
        }
        (None, _) => Ok(rule),
    }
}

/// Where a value comes from: `env:NAME`, `file:PATH`, `fd:N`, `command:PROGRAM ARGUMENT…`, `keyring:SERVICE/ACCOUNT`.
pub(super) fn source(text: &str, base: &Base) -> Result<SecretSource, ValueError> {
    let unclear = || {
        let scheme = text.split(':').next().unwrap_or_default();
        let near = text.contains(':').then(|| nearest(scheme, SCHEMES)).flatten();
        ValueError::SecretSource { hint: near.and_then(|near| SCHEMES.into_iter().find(|own| *own == near)) }
    };
    let (scheme, rest) = text.split_once(':').ok_or_else(unclear)?;
    if rest.is_empty() {
        return Err(unclear());
    }
    match scheme {
        "env" => Ok(SecretSource::Env(text::name(OsStr::new(rest)).map_err(|_| unclear())?)),
        "file" => Ok(SecretSource::File(base.path(OsStr::new(rest))?)),
        "fd" => {
            let number =
                quantity::count(rest, 0, i32::MAX as u32).ok().filter(|number| ![1, 2].contains(number));
            let number = number.and_then(|number| i32::try_from(number).ok());
            Ok(SecretSource::Fd(number.ok_or_else(|| ValueError::SecretFd(show(rest.as_bytes())))?))
        }
        "command" => {
            if rest.contains(['"', '\'', '\\', '$', '`', '|', '&', ';', '<', '>']) {
                return Err(ValueError::SecretCommand);
            }
            command(&rest.split_ascii_whitespace().collect::<Vec<_>>(), base)
        }
        "keyring" => match rest.split_once('/') {
            Some((service, account)) if !service.is_empty() && !account.is_empty() => {
                Ok(SecretSource::Keyring { service: service.to_owned(), account: account.to_owned() })
            }
            _ => Err(unclear()),
        },
        _ => Err(unclear()),
    }
}

/// A program and its arguments. A program with a slash in its name is a path like any other.
pub(super) fn command(words: &[&str], base: &Base) -> Result<SecretSource, ValueError> {
    let (program, arguments) = words.split_first().ok_or(ValueError::SecretCommand)?;
    if program.is_empty() || words.iter().any(|word| word.contains('\0')) {
        return Err(ValueError::SecretCommand);
    }
    let program = match program.contains('/') {
        true => base.path(OsStr::new(program))?.into_os_string(),
        false => OsString::from(program),
    };
    Ok(SecretSource::Command(
        std::iter::once(program).chain(arguments.iter().map(|word| OsString::from(*word))).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Base {
        Base::new("/work", Some("/home/me".into()))
    }

    fn read(text: &str) -> Result<SecretEntry, ValueError> {
        SecretEntry::parse(text.as_ref(), &base(), Origin("--secret".into()))
    }

    #[test]
    fn a_flag_says_a_name_a_source_and_hosts() {
        let shown = |text: &str| {
            let entry = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let hosts: Vec<String> = entry.hosts.iter().map(ToString::to_string).collect();
            let from = entry.from.map(|from| from.to_string()).unwrap_or_default();
            format!("{} {from} {}", entry.name, hosts.join(","))
        };
        assert_eq!(shown("GITHUB_TOKEN"), "GITHUB_TOKEN  ");
        assert_eq!(shown("T@a.test,*.b.test:443"), "T  a.test,*.b.test:443");
        assert_eq!(shown("T=env:U@a.test"), "T env:U a.test");
        assert_eq!(shown("T=file:~/t"), "T file:/home/me/t ");
        assert_eq!(shown("T=file:t"), "T file:/work/t ");
        assert_eq!(shown("T=fd:3"), "T fd:3 ");
        assert_eq!(shown("T=command:pass show me@x@a.test"), "T command:pass … a.test");
        assert_eq!(shown("T=command:./get"), "T command:/work/get ");
        assert_eq!(shown("T=keyring:svc/me/x"), "T keyring:svc/me/x ");
        assert_eq!(
            read("T=command:pass show x").unwrap().from,
            Some(SecretSource::Command(["pass", "show", "x"].map(OsString::from).into()))
        );
    }

    #[test]
    fn what_may_be_the_value_itself_is_not_repeated() {
        let value = "hunter2-0123456789abcdef";
        for text in [
            format!("T={value}"),
            format!("T=value:{value}"),
            format!("T=evn:{value}"),
            format!("T={value}@a.test"),
            format!("T=env:{value}=x"),
            format!("T=keyring:{value}"),
            format!("T=command:echo '{value}'"),
            "sk-ant-api03-0123456789abcdef".to_owned(),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(!error.contains(&value[..8]) && !error.contains("sk-ant"), "{error}");
        }
        assert!(read("T=evn:X").unwrap_err().to_string().contains("did you mean `env:`?"));
    }

    #[test]
    fn mistakes_are_explained() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            error("a b"),
            "`a b` is not a secret's name; write letters, digits, `-`, `_` and `.`, at most 64"
        );
        assert_eq!(
            error("T=fd:1"),
            "`fd:1`: write the number of a descriptor that was opened for this, 0 or above 2"
        );
        assert!(error("T@tcp://a.test:1").contains("sent by HTTP"));
        assert_eq!(
            error("T@10.0.0.1:80"),
            "`10.0.0.1:80`: a secret is bound to names; write the host's name"
        );
        assert!(error("T@10.0.0.0/8").contains("bound to names"));
        assert!(error("T@").contains("the host is empty"));
        assert!(error("T=command:a | b").starts_with("the program is started without a shell"));
    }
}
