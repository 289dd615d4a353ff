//! The gate reads requests in one way, and the architecture page names what kennel is built from.

use std::fs;

use super::module_order::{code, rust_files};
use crate::cargo;

/// Files of the gate's code, by their path in its source, that have this text.
fn having(text: &str) -> Vec<String> {
    let source = cargo::root().join("crates/kennel-proxy/src");
    let has = |path: &std::path::PathBuf| code(&fs::read_to_string(path).unwrap()).contains(text);
    let name = |path: std::path::PathBuf| path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
    rust_files(&source).into_iter().filter(has).map(name).filter(|file| !file.ends_with("tests.rs")).collect()
}

#[test]
fn one_reader_of_requests_stands_behind_every_door() {
    assert_eq!(having("Request::parse("), ["forward/requests.rs"]);
    assert_eq!(having("httparse"), Vec::<String>::new());
    // A server of another library's reads heads by itself. In HTTP/2 they are frames.
    assert_eq!(having("server::conn::http1"), Vec::<String>::new());
    assert_eq!(having("server::conn::auto"), Vec::<String>::new());
    assert_eq!(having("server::conn::http2"), ["services/inspect/mod.rs"]);
    for user in ["doors/proxy.rs", "forward/origin.rs", "services/http1.rs"] {
        assert!(
            having("next_request(").iter().any(|file| file == user),
            "{user} reads requests in another way"
        );
    }
}

#[test]
fn a_protocol_of_models_is_a_file_and_a_row() {
    assert_eq!(having(" Api::"), ["gateway/api/mod.rs"]);
}

#[test]
fn what_a_listener_is_for_is_told_by_one_list() {
    let enums: Vec<String> = ["Proxy,", "DnsUdp,", "OutboundSocket,"]
        .iter()
        .flat_map(|variant| having(&format!("    {variant}\n")))
        .collect();
    assert!(
        enums.is_empty(),
        "{enums:?} have a list of listeners beside kennel_policy::listeners::SocketRole"
    );
}

#[test]
fn the_architecture_page_has_a_reason_for_each_dependency() {
    let manifest = fs::read_to_string(cargo::root().join("Cargo.toml")).unwrap();
    let (_, list) = manifest.split_once("[workspace.dependencies]\n").unwrap();
    let lines = list.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    let foreign: Vec<&str> = names.filter(|name| !name.starts_with("kennel")).collect();
    assert!(foreign.len() > 20, "the manifest was not understood: {foreign:?}");
    let page = fs::read_to_string(cargo::root().join("docs/architecture.md")).unwrap();
    let (_, section) = page.split_once("\n## Dependencies\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let missing: Vec<&&str> = foreign.iter().filter(|name| !section.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/architecture.md does not say why kennel uses {missing:?}");
}
