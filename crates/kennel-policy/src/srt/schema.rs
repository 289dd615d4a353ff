//! Which values srt's settings can have, key by key, as its own schema has it: what it refuses is refused here, and what
//! it passes over is passed over. Settings that another program would not start with are a mistake that somebody should
//! hear of.

use std::path::Path;

use super::read::{refused_value, wrong_type};
use crate::extract::ExtractPattern;
use crate::printed::show;
use crate::settings::tree::{Fault, Node, Value};
use crate::settings::{Problem, ValueError};

/// What a value has to be.
enum Shape {
    Bool,
    Text,
    /// A string with something in it.
    NonEmpty,
    /// At most this many characters, and at least one.
    Short(usize),
    Absolute,
    Url,
    Uuid,
    Word(&'static [&'static str]),
    /// A POSIX name.
    Variable,
    /// With a star at its end at most.
    Prefix,
    /// A regular expression with a group.
    Extract,
    Whole(u32, u32),
    PortRange,
    /// A path, or a path that is marked as one.
    PathEntry,
    List(&'static Shape),
    /// A list that is not empty.
    Some(&'static Shape),
    Map(&'static Shape),
    /// An object, in which keys that are not known are passed over.
    Object(&'static [Field]),
    /// One in which they are mistakes.
    Strict(&'static [Field]),
    /// What only a program can provide.
    Function,
}

struct Field(&'static str, Need, Shape);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
}

use Need::{Optional, Required};
use Shape::{
    Absolute, Bool, Extract, Function, List, Map, NonEmpty, Object, PathEntry, PortRange, Prefix, Short,
    Some as Several, Strict, Text, Url, Uuid, Variable, Whole, Word,
};

const PATHS: Shape = List(&PathEntry);
const MODES: Shape = Word(&["deny", "mask"]);
const POLICIES: Shape = Word(&["deny", "passthrough"]);

const SETTINGS: Shape = Object(&[
    Field("network", Required, NETWORK),
    Field("filesystem", Required, FILESYSTEM),
    Field("credentials", Optional, CREDENTIALS),
    Field("ignoreViolations", Optional, Map(&List(&Text))),
    Field("enableWeakerNestedSandbox", Optional, Bool),
    Field("allowNestedUserNamespaces", Optional, Bool),
    Field("enableWeakerNetworkIsolation", Optional, Bool),
    Field("allowAppleEvents", Optional, Bool),
    Field(
        "ripgrep",
        Optional,
        Object(&[
            Field("command", Required, Text),
            Field("args", Optional, List(&Text)),
            Field("argv0", Optional, Text),
        ]),
    ),
    Field("mandatoryDenySearchDepth", Optional, Whole(1, 10)),
    Field("allowPty", Optional, Bool),
    Field("seccomp", Optional, Object(&[Field("applyPath", Optional, Text), Field("argv0", Optional, Text)])),
    Field("bwrapPath", Optional, Absolute),
    Field("socatPath", Optional, Absolute),
    Field("javaAgentJarPath", Optional, Absolute),
    Field("windows", Optional, WINDOWS),
    Field("git", Optional, Object(&[Field("safeDirectories", Optional, List(&Text))])),
]);

const NETWORK: Shape = Object(&[
    Field("allowedDomains", Required, List(&Text)),
    Field("deniedDomains", Required, List(&Text)),
    Field("deniedDomainReasons", Optional, Map(&NonEmpty)),
    Field("strictAllowlist", Optional, Bool),
    Field("deniedResolvedAddresses", Optional, List(&Text)),
    Field("allowUnixSockets", Optional, List(&Text)),
    Field("allowAllUnixSockets", Optional, Bool),
    Field("allowLocalBinding", Optional, Bool),
    Field("allowMachLookup", Optional, List(&Prefix)),
    Field("httpProxyPort", Optional, Whole(1, 65535)),
    Field("socksProxyPort", Optional, Whole(1, 65535)),
    Field(
        "mitmProxy",
        Optional,
        Object(&[Field("socketPath", Required, NonEmpty), Field("domains", Required, Several(&Text))]),
    ),
    Field("filterRequest", Optional, Function),
    Field("allowPlaintextHeaderSet", Optional, Bool),
    Field("stripResponseHeaders", Optional, List(&NonEmpty)),
    Field("refuseOpaqueTunnels", Optional, Bool),
    Field("requireHostMatch", Optional, Bool),
    Field("ambiguousRequestTarget", Optional, Word(&["refuse", "asSpelled", "normalize"])),
    Field(
        "tlsTerminate",
        Optional,
        Object(&[
            Field("caCertPath", Optional, NonEmpty),
            Field("caKeyPath", Optional, NonEmpty),
            Field("excludeDomains", Optional, List(&Text)),
            Field("extraCaCertPaths", Optional, List(&NonEmpty)),
            Field("maxTunnels", Optional, Whole(1, 65536)),
            Field("handshakeTimeoutMs", Optional, Whole(100, 600_000)),
        ]),
    ),
    Field(
        "parentProxy",
        Optional,
        Object(&[
            Field("http", Optional, Url),
            Field("https", Optional, Url),
            Field("noProxy", Optional, Text),
        ]),
    ),
]);

const FILESYSTEM: Shape = Object(&[
    Field("disabled", Optional, Bool),
    Field("denyRead", Required, PATHS),
    Field("allowRead", Optional, PATHS),
    Field("allowWrite", Required, PATHS),
    Field("denyWrite", Required, PATHS),
    Field("allowGitConfig", Optional, Bool),
]);

const CREDENTIALS: Shape = Strict(&[
    Field(
        "files",
        Optional,
        List(&Object(&[
            Field("path", Required, NonEmpty),
            Field("mode", Required, MODES),
            Field("extract", Optional, Extract),
            Field("onExtractNoMatch", Optional, Word(&["warn", "deny", "error"])),
            Field("decode", Optional, Word(&["jwt"])),
            Field("maskClaims", Optional, Several(&NonEmpty)),
            Field("maskDuplicates", Optional, Bool),
            Field("injectHosts", Optional, List(&Text)),
        ])),
    ),
    Field(
        "envVars",
        Optional,
        List(&Object(&[
            Field("name", Required, Variable),
            Field("mode", Required, MODES),
            Field("extract", Optional, Extract),
            Field("onExtractNoMatch", Optional, Word(&["warn", "deny", "error"])),
            Field("decode", Optional, Word(&["jwt"])),
            Field("maskClaims", Optional, Several(&NonEmpty)),
            Field("injectHosts", Optional, List(&Text)),
        ])),
    ),
    Field("allowPlaintextInject", Optional, Bool),
    Field(
        "awsPairs",
        Optional,
        List(&Strict(&[
            Field("accessKeyIdVar", Required, Variable),
            Field("secretAccessKeyVar", Required, Variable),
            Field("sessionTokenVar", Optional, Variable),
        ])),
    ),
    Field(
        "sigv4",
        Optional,
        Strict(&[
            Field("streaming", Optional, POLICIES),
            Field("presigned", Optional, POLICIES),
            Field("sigv4a", Optional, POLICIES),
        ]),
    ),
]);

const WINDOWS: Shape = Object(&[
    Field("backend", Optional, Word(&["mxc", "srt-win"])),
    Field("sandboxUser", Optional, Short(20)),
    Field("sublayerGuid", Optional, Uuid),
    Field("wfpSublayerGuid", Optional, Uuid),
    Field("proxyPortRange", Optional, PortRange),
    Field("srtWin", Optional, Object(&[Field("path", Required, NonEmpty)])),
]);

/// Refuses what srt's schema refuses. What an entry of a list of hosts or paths says is looked at where it is read.
pub(super) fn check(root: &Node<'_>) -> Result<(), Fault> {
    SETTINGS.check("", root)
}

impl Shape {
    fn check(&self, name: &str, node: &Node<'_>) -> Result<(), Fault> {
        let wrong =
            |expected: &str| Err(wrong_type(if name.is_empty() { "the file" } else { name }, expected, node));
        match (self, &node.value) {
            (Bool, Value::Bool(_)) | (Text, Value::Text(_)) => Ok(()),
            (Function, _) => {
                Err(refused_value(name, node, "only a program that embeds srt can provide a function"))
            }
            (NonEmpty, Value::Text(text)) if !text.is_empty() => Ok(()),
            (Short(most), Value::Text(text)) if (1..=*most).contains(&text.encode_utf16().count()) => Ok(()),
            (Absolute, Value::Text(text)) if Path::new(text.as_ref()).is_absolute() => Ok(()),
            (Url, Value::Text(text)) if is_url(text) => Ok(()),
            (Uuid, Value::Text(text)) if is_uuid(text) => Ok(()),
            (Word(words), Value::Text(text)) if words.contains(&text.as_ref()) => Ok(()),
            (Variable, Value::Text(text)) if is_variable(text) => Ok(()),
            (Prefix, Value::Text(text)) if !text.strip_suffix('*').unwrap_or(text).contains('*') => Ok(()),
            (Extract, Value::Text(text)) if ExtractPattern::parse(text).is_ok() => Ok(()),
            (Whole(least, most), Value::Number(text))
                if whole(text).is_some_and(|number| (*least..=*most).contains(&number)) =>
            {
                Ok(())
            }
            (PortRange, Value::List(items)) if is_port_range(items) => Ok(()),
            (PathEntry, _) if is_path_entry(node) => Ok(()),
            (List(shape) | Several(shape), Value::List(items)) => {
                if items.is_empty() && matches!(self, Several(_)) {
                    return wrong("a list with at least one entry");
                }
                items.iter().try_for_each(|item| shape.check(name, item))
            }
            (Map(shape), Value::Table(entries)) => {
                entries.iter().try_for_each(|entry| shape.check(&inside(name, &entry.key), &entry.node))
            }
            (Object(fields) | Strict(fields), Value::Table(entries)) => {
                for entry in entries {
                    match fields.iter().find(|Field(key, ..)| *key == entry.key) {
                        Some(Field(key, _, shape)) => shape.check(&inside(name, key), &entry.node)?,
                        None if matches!(self, Strict(_)) => {
                            let (key, inside) = (entry.key.to_string(), name.to_owned());
                            let problem = Problem::UnknownKey { key, inside, hint: None };
                            return Err(Fault { at: entry.at, problem });
                        }
                        None => {}
                    }
                }
                let missing = fields.iter().find(|Field(key, need, _)| {
                    *need == Required && !entries.iter().any(|entry| entry.key == *key)
                });
                match missing {
                    None => Ok(()),
                    Some(Field(key, ..)) => {
                        let inside = if name.is_empty() { "the file".to_owned() } else { name.to_owned() };
                        Err(Fault { at: node.at, problem: Problem::MissingKey { key, inside } })
                    }
                }
            }
            (
                Bool | Text | Whole(..) | PortRange | List(_) | Several(_) | Map(_) | Object(_) | Strict(_),
                _,
            ) => wrong(&self.expected()),
            (_, Value::Text(text)) => {
                let (text, expected) = (show(text.as_bytes()), self.expected());
                let problem =
                    Problem::Value { key: name.to_owned(), error: ValueError::Unfit { text, expected } };
                Err(Fault { at: node.at, problem })
            }
            _ => wrong(&self.expected()),
        }
    }

    fn expected(&self) -> String {
        match self {
            Bool => "true or false".into(),
            Text => "a string".into(),
            NonEmpty => "a string that is not empty".into(),
            Short(most) => format!("a string of 1 to {most} characters"),
            Absolute => "an absolute path".into(),
            Url => "a URL".into(),
            Uuid => "a UUID".into(),
            Word(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Variable => {
                "a variable's name: letters, digits and underscores, without a digit at its start".into()
            }
            Prefix => "a name, with a single `*` at its end at most".into(),
            Extract => "a regular expression with a group in parentheses, which is what to mask".into(),
            Whole(least, most) => format!("a whole number from {least} to {most}"),
            PortRange => "two ports, the lower one first, at most 64 apart".into(),
            PathEntry => "a path, or { \"path\": \"…\", \"literal\": true }".into(),
            List(_) | Several(_) => "a list".into(),
            Map(_) | Object(_) | Strict(_) => "an object".into(),
            Function => "something else".into(),
        }
    }
}

fn inside(name: &str, key: &str) -> String {
    if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") }
}

/// A number without a fraction, however it is written: `3.0` and `3e0` are 3 to JavaScript.
pub(super) fn whole(text: &str) -> Option<u32> {
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
}

pub(super) fn is_variable(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty() && text.bytes().all(word) && !text.as_bytes()[0].is_ascii_digit()
}

fn is_path_entry(node: &Node<'_>) -> bool {
    match &node.value {
        Value::Text(text) => !text.is_empty(),
        Value::Table(entries) => {
            let get =
                |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node.value);
            entries.len() == 2
                && matches!(get("path"), Some(Value::Text(text)) if !text.is_empty())
                && matches!(get("literal"), Some(Value::Bool(true)))
        }
        _ => false,
    }
}

fn is_port_range(items: &[Node<'_>]) -> bool {
    let port = |node: &Node<'_>| match &node.value {
        Value::Number(text) => whole(text),
        _ => None,
    };
    match items {
        [low, high] => matches!((port(low), port(high)),
            (Some(low @ 1..), Some(high @ ..=65535)) if low <= high && high - low <= 64),
        _ => false,
    }
}

/// What JavaScript's `URL` takes: a scheme, and for those of the web a host.
fn is_url(text: &str) -> bool {
    let text = text.trim_matches(|character: char| character <= ' ');
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let scheme = scheme.to_ascii_lowercase();
    let starts = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if !starts || !scheme.bytes().all(word) {
        return false;
    }
    if !matches!(scheme.as_str(), "http" | "https" | "ws" | "wss" | "ftp") {
        return true;
    }
    let authority =
        rest.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    let (host, port) =
        match place.rfind(']').map_or(place.rfind(':'), |end| place[end..].find(':').map(|at| end + at)) {
            Some(at) => (&place[..at], &place[at + 1..]),
            None => (place, ""),
        };
    let port =
        port.is_empty() || (port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok());
    !host.is_empty() && port && !host.contains([' ', '<', '>', '^', '|', '%', '`', '{', '}', '"'])
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
