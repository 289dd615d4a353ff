//! The tables of `docs/settings.md`, which have to say what the code says.

use std::fmt::Write;

use kennel_policy::gateway::known;
use kennel_policy::settings::keys::{self, FieldKind, Key, Kind, SECTIONS, Shape, Tighten, Zero};
use kennel_policy::settings::{Base, Format, Provenance, parse};

use crate::flags::table::{Effect, FLAGS};

const BEGIN: &str = "<!-- The tables up to the end mark are written by a test from the table of keys. -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn the_settings_page_has_every_key_as_it_is() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark where the tables begin");
    let (tables, after) = rest.split_once(END).expect("the mark where the tables end");
    let expected = reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(tables, expected, "run this test with UPDATE_DOCS=1 to write the page anew");
    }
}

#[test]
fn the_examples_of_the_pages_are_settings() {
    let page = |name: &str| {
        std::fs::read_to_string(format!("{}/../../docs/{name}.md", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let base = Base::new("/work", Some("/home/me".into()));
    let pages = page("settings") + &page("profiles") + &page("secrets");
    let examples: Vec<&str> =
        pages.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 6);
    for example in examples {
        parse(example.as_bytes(), Format::Toml, Provenance::File("example"), &base)
            .unwrap_or_else(|error| panic!("{error}:\n{example}"));
    }
}

fn reference() -> String {
    let mut text = String::new();
    for section in SECTIONS {
        let (prefix, title) = match section.name {
            "" => (String::new(), "At the top".to_owned()),
            name => (format!("{name}."), format!("`[{name}]`")),
        };
        let _ = writeln!(text, "\n### {title}\n\n{}\n", section.doc);
        text.push_str(
            "| key | value | default | flag | a found file may | meaning |\n|---|---|---|---|---|---|\n",
        );
        for key in section.keys {
            let flags = flags_of(&format!("{prefix}{}", key.name));
            let default = if key.default.is_empty() { "–" } else { key.default };
            let _ = writeln!(
                text,
                "| `{}` | {} | {default} | {flags} | {} | {} |",
                key.name,
                value_of(key),
                tighten_of(key),
                key.doc.replace('*', "\\*")
            );
        }
    }
    shape(
        &mut text,
        "A secret",
        "`[secrets.NAME]`, or `secrets = { NAME = {} }`. All of it can be left out.",
        &keys::SECRET,
    );
    let known: Vec<&str> = known::KNOWN.iter().map(|known| known.name).collect();
    let doc = format!(
        "`[gateway.NAME]`. Of {} kennel knows `api`, `key` and `upstream`; other names need them.",
        known.join(", ")
    );
    shape(&mut text, "A provider", &doc, &keys::PROVIDER);
    shape(&mut text, "A budget", "Each limit can be left out.", &keys::BUDGET);
    shape(&mut text, "A traffic budget", "Each limit can be left out.", &keys::TRAFFIC);
    shape(&mut text, "A price", "For a million tokens, in whatever unit.", &keys::PRICE);
    text.push('\n');
    text
}

/// The fields of what a table of tables holds.
fn shape(text: &mut String, title: &str, doc: &str, shape: &Shape) {
    let _ = writeln!(text, "\n### {title}\n\n{doc}\n\n| key | value | meaning |\n|---|---|---|");
    for field in shape.fields {
        let value = match field.kind {
            FieldKind::Text => "a string".to_owned(),
            FieldKind::Bool => "boolean".to_owned(),
            FieldKind::Size => "a size".to_owned(),
            FieldKind::Words(words) => {
                words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
            }
            FieldKind::Texts => "strings".to_owned(),
            FieldKind::Count => "a whole number".to_owned(),
            FieldKind::Amount => "a number".to_owned(),
            FieldKind::Table(_) => "a [budget](#a-budget)".to_owned(),
            FieldKind::Traffic => "a size, or a list of sizes and `\"HOST=SIZE\"`".to_owned(),
            FieldKind::Source => "a string, or `{ command = [\"PROGRAM\", \"ARGUMENT\"] }`".to_owned(),
        };
        let _ = writeln!(text, "| `{}` | {value} | {} |", field.name, field.doc.replace('*', "\\*"));
    }
}

fn flags_of(key: &str) -> String {
    let says = |effect: Effect| matches!(effect, Effect::Says(own) | Effect::SaysWord(own, _) | Effect::SaysPart(own, _) if own.name == key);
    let flags = FLAGS.iter().filter(|flag| says(flag.effect));
    let spelled = flags.map(|flag| match flag.value {
        Some(value) => format!("`--{} {}`", flag.name, value.replace('|', "\\|")),
        None => format!("`--{}`", flag.name),
    });
    spelled.collect::<Vec<_>>().join(" ")
}

fn value_of(key: &Key) -> String {
    match &key.kind {
        Kind::Bool(_) | Kind::Switch(_) => "boolean".to_owned(),
        Kind::Profiles(_) => "a profile's name, or a list of them".to_owned(),
        Kind::Lists(_) => "a list's name, or a list of them".to_owned(),
        Kind::Hostname(_) => "a host name".to_owned(),
        Kind::Folder(_) => "a folder".to_owned(),
        Kind::Choice(choices) => {
            choices.words().iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Size(_, Zero::Allowed) => "a size".to_owned(),
        Kind::Size(_, Zero::Refused) => "a size above 0".to_owned(),
        Kind::Time(_) => "a duration".to_owned(),
        Kind::Cpus(_) => "a number".to_owned(),
        Kind::Count(_) => "a whole number".to_owned(),
        Kind::Paths(..) => "paths".to_owned(),
        Kind::Hosts(..) => "hosts".to_owned(),
        Kind::Gpus(_) => "graphics cards".to_owned(),
        Kind::Registries(_) => "registries".to_owned(),
        Kind::HostsAndRequests(..) => "hosts and requests".to_owned(),
        Kind::Files(_) => "files".to_owned(),
        Kind::File(_) => "a file".to_owned(),
        Kind::Providers(_) => "a [provider](#a-provider)".to_owned(),
        Kind::Budget(_) => "a [budget](#a-budget)".to_owned(),
        Kind::Traffic(_) => "a [traffic budget](#a-traffic-budget)".to_owned(),
        Kind::Prices(_) => "a table of [prices](#a-price)".to_owned(),
        Kind::Secrets(_) => "a table of [secrets](#a-secret)".to_owned(),
        Kind::Mounts(_) => "mounts".to_owned(),
        Kind::Tmpfs(_) => "tmpfs folders".to_owned(),
        Kind::Names(_) => "names".to_owned(),
        Kind::Variables(_) => "a table of strings".to_owned(),
        Kind::Text(_) | Kind::Proxy(_) => "a string".to_owned(),
        Kind::Port(_) => "a port".to_owned(),
        Kind::Ports(_) => "ports".to_owned(),
        Kind::Users(_) => "users".to_owned(),
    }
}

fn tighten_of(key: &Key) -> String {
    match (key.tighten, &key.kind) {
        (Tighten::No, _) => "not set it".to_owned(),
        (Tighten::Add, _) => "add to it".to_owned(),
        (Tighten::Lower, _) => "lower it".to_owned(),
        (Tighten::To(value), _) => format!("make it {value}"),
        (Tighten::Stricter, Kind::Choice(choices)) => format!("move it towards {}", choices.words()[0]),
        (Tighten::Stricter, _) => "make it stricter".to_owned(),
    }
}
