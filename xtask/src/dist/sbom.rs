//! The bill of materials of a release, in the JSON of CycloneDX 1.5: each crate that is linked, with its version, licence
//! and checksum, and what it stands on. The standard library and musl, which every program has in it, are named too.

use std::fmt::Write as _;

use super::crates::{Crates, Linked};
use super::{date, digest};

/// What a bill of materials is about.
pub struct About<'a> {
    /// As in `x86_64-unknown-linux-musl`.
    pub target: &'a str,
    pub version: &'a str,
    /// The release of Rust whose standard library is linked.
    pub rust: &'a str,
    pub time: u64,
    /// Programs by name, and their bytes.
    pub programs: &'a [(&'a str, &'a [u8])],
}

/// Writes it.
pub fn write(about: &About<'_>, crates: &Crates) -> String {
    let mut components: Vec<String> = crates.values().map(component).collect();
    components.push(standard_library(about));
    components.extend(about.programs.iter().map(|(name, bytes)| program(name, bytes)));
    let mut dependencies = vec![depends_on(
        "kennel",
        crates
            .values()
            .filter(|linked| linked.checksum.is_none())
            .map(reference)
            .chain(["rust-std".to_owned()]),
    )];
    dependencies.extend(crates.values().map(|linked| {
        let needs = linked.needs.iter().filter_map(|id| crates.get(id)).map(reference);
        depends_on(&reference(linked), needs)
    }));
    let body = format!(
        "  \"metadata\": {{\n    \"timestamp\": {},\n    \"component\": {{\n      \"type\": \"application\", \"bom-ref\": \
         \"kennel\", \"name\": \"kennel\", \"version\": {},\n      \"licenses\": [{{\"expression\": \"MIT OR \
         Apache-2.0\"}}],\n      \"properties\": [{{\"name\": \"kennel:target\", \"value\": {}}}]\n    }}\n  }},\n  \
         \"components\": [\n    {}\n  ],\n  \"dependencies\": [\n    {}\n  ]\n}}\n",
        quoted(&date::iso(about.time)),
        quoted(about.version),
        quoted(about.target),
        components.join(",\n    "),
        dependencies.join(",\n    ")
    );
    // A number of its own, as CycloneDX wants, but the same for the same contents.
    let id = digest::sha256(body.as_bytes());
    let serial =
        format!("urn:uuid:{}-{}-5{}-8{}-{}", &id[..8], &id[8..12], &id[13..16], &id[17..20], &id[20..32]);
    format!(
        "{{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"serialNumber\": {},\n  \"version\": 1,\n{body}",
        quoted(&serial)
    )
}

fn component(linked: &Linked) -> String {
    let hashes = linked.checksum.as_ref().map_or(String::new(), |checksum| {
        format!(", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": {}}}]", quoted(checksum))
    });
    format!(
        "{{\"type\": \"library\", \"bom-ref\": {}, \"name\": {}, \"version\": {}, \"purl\": {}, \"licenses\": \
         [{{\"expression\": {}}}]{hashes}}}",
        quoted(&reference(linked)),
        quoted(&linked.name),
        quoted(&linked.version),
        quoted(&format!("pkg:cargo/{}@{}", linked.name, linked.version.replace('+', "%2B"))),
        quoted(&linked.licence),
    )
}

/// musl's target has the C library in the standard library's files.
fn standard_library(about: &About<'_>) -> String {
    let what = if about.target.ends_with("-musl") {
        "The standard library of Rust, with the C library musl as it comes with it"
    } else {
        "The standard library of Rust; the C library is that of the machine that linked it"
    };
    format!(
        "{{\"type\": \"library\", \"bom-ref\": \"rust-std\", \"name\": \"rust-std\", \"version\": {}, \"description\": \
         {}, \"licenses\": [{{\"expression\": \"MIT OR Apache-2.0\"}}]}}",
        quoted(about.rust),
        quoted(what)
    )
}

fn program(name: &str, bytes: &[u8]) -> String {
    format!(
        "{{\"type\": \"file\", \"bom-ref\": {}, \"name\": {}, \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": {}}}]}}",
        quoted(&format!("file:{name}")),
        quoted(name),
        quoted(&digest::sha256(bytes))
    )
}

fn depends_on(of: &str, on: impl Iterator<Item = String>) -> String {
    let on: Vec<String> = on.map(|reference| quoted(&reference)).collect();
    format!("{{\"ref\": {}, \"dependsOn\": [{}]}}", quoted(of), on.join(", "))
}

fn reference(linked: &Linked) -> String {
    format!("{}@{}", linked.name, linked.version)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use serde_json::Value;

    use super::*;
    use crate::cargo;
    use crate::debian::run;
    use crate::dist::crates;

    const TARGET: &str = "x86_64-unknown-linux-musl";

    fn bill() -> Value {
        let crates = crates::linked(&["kennel-cli", "kennel-entrypoint"], TARGET).unwrap();
        let programs: &[(&str, &[u8])] = &[("kennel", b"abc")];
        let about = About { target: TARGET, version: "1.2.3", rust: "1.95.0", time: 0, programs };
        serde_json::from_str(&write(&about, &crates)).unwrap()
    }

    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
    }

    /// Against what cargo says elsewhere: the graph of `cargo metadata`, gone through from the two programs. It knows
    /// the union of all features of the workspace, so it may know more crates; it must not know fewer, and for every
    /// crate the two must agree.
    #[test]
    #[kennel_claim::claim("releases/bill-of-materials")]
    fn each_linked_crate_of_cargo_lock_is_in_it_with_version_licence_and_checksum() {
        let bill = bill();
        let lock = fs::read_to_string(cargo::root().join("Cargo.lock")).unwrap();
        let mut metadata = cargo::cargo();
        metadata.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]);
        let metadata: Value = serde_json::from_str(&run(&mut metadata).unwrap()).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let package = |id: &Value| packages.iter().find(|package| package["id"] == *id).unwrap();
        let mut reached = BTreeSet::new();
        let mut todo: Vec<&Value> = packages
            .iter()
            .filter(|package| ["kennel-cli", "kennel-entrypoint"].contains(&text(&package["name"])))
            .map(|package| &package["id"])
            .collect();
        while let Some(id) = todo.pop() {
            let is_macro = package(id)["targets"][0]["kind"][0] == "proc-macro";
            if is_macro || !reached.insert(text(id)) {
                continue;
            }
            let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
            let node = nodes.iter().find(|node| node["id"] == *id).unwrap();
            for dependency in node["deps"].as_array().unwrap() {
                if dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null()) {
                    todo.push(&dependency["pkg"]);
                }
            }
        }
        let components = bill["components"].as_array().unwrap();
        let crates: Vec<&Value> =
            components.iter().filter(|component| component["purl"].is_string()).collect();
        assert!(crates.len() > 30, "{}", crates.len());
        for linked in &crates {
            let (name, version) = (text(&linked["name"]), text(&linked["version"]));
            let known =
                packages.iter().find(|known| known["name"] == name && known["version"] == version).unwrap();
            assert!(reached.contains(text(&known["id"])), "{name} {version}: not linked");
            assert_eq!(
                text(&linked["licenses"][0]["expression"]),
                text(&known["license"]).replace('/', " OR ")
            );
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            let entry = lock.split_once(&entry).unwrap_or_else(|| panic!("{name}: not in Cargo.lock")).1;
            let entry = entry.split("[[package]]").next().unwrap();
            match known["source"].as_str() {
                Some(_) => {
                    let checksum = text(&linked["hashes"][0]["content"]);
                    assert!(entry.contains(&format!("checksum = \"{checksum}\"")), "{name} {version}");
                }
                None => assert!(linked["hashes"].is_null(), "{name}: a checksum from nowhere"),
            }
        }
        let in_bill = |id: &str| {
            let known = package(&Value::from(id));
            crates.iter().any(|c| c["name"] == known["name"] && c["version"] == known["version"])
        };
        // What is reached and not linked was left out by a feature: whoever is linked and could need it says so.
        for id in reached.iter().filter(|id| !in_bill(id)) {
            let name = &package(&Value::from(*id))["name"];
            let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
            let needs_it = |node: &&Value| {
                node["deps"].as_array().unwrap().iter().any(|dependency| dependency["pkg"] == *id)
            };
            for parent in nodes
                .iter()
                .filter(|node| reached.contains(text(&node["id"])) && in_bill(text(&node["id"])))
                .filter(needs_it)
            {
                let known = package(&parent["id"])["dependencies"].as_array().unwrap();
                let is_optional = known
                    .iter()
                    .filter(|known| known["name"] == *name && known["kind"].is_null())
                    .any(|known| known["optional"] == true);
                assert!(is_optional, "{} is linked with {name}, which is not in the bill", parent["id"]);
            }
        }
    }

    #[test]
    fn it_has_the_form_that_cyclonedx_asks_for() {
        let bill = bill();
        assert_eq!(bill["bomFormat"], "CycloneDX");
        assert_eq!(bill["metadata"]["component"]["version"], "1.2.3");
        let serial = text(&bill["serialNumber"]).strip_prefix("urn:uuid:").unwrap();
        let parts: Vec<usize> = serial.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{serial}");
        // Every reference leads somewhere, and each thing has one of its own.
        let mut references = BTreeSet::from(["kennel"]);
        for component in bill["components"].as_array().unwrap() {
            assert!(references.insert(text(&component["bom-ref"])), "twice: {component}");
        }
        for dependency in bill["dependencies"].as_array().unwrap() {
            assert!(references.contains(text(&dependency["ref"])));
            for on in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(text(on)), "{on}");
            }
        }
        let file = bill["components"].as_array().unwrap().iter().find(|one| one["type"] == "file").unwrap();
        assert_eq!(file["hashes"][0]["content"], digest::sha256(b"abc"));
    }

    #[test]
    fn text_is_quoted_as_json_wants_it() {
        let odd = "a\"b\\c\nd\u{7f}é";
        assert_eq!(serde_json::from_str::<String>(&quoted(odd)).unwrap(), odd);
    }
}
