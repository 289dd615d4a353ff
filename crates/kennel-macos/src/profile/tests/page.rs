//! The tables of docs/macos.md are the ones that profiles are made of. `UPDATE_DOCS=1` writes them.

use std::fmt::Write;
use std::path::Path;

use crate::profile::SYSTEM;
use crate::profile::services::{DEVICES, SERVICES};

fn services() -> String {
    let mut table = "| operation | on what | when | what for |\n|---|---|---|---|\n".to_owned();
    for row in SERVICES {
        let filter = match row.filter {
            "" => "everything".to_owned(),
            filter => format!("`{}`", filter.replace('|', "\\|")),
        };
        writeln!(table, "| `{}` | {filter} | {} | {} |", row.operation, row.when.words(), row.reason)
            .unwrap();
    }
    format!("\n{table}")
}

#[test]
fn the_page_on_macos_has_the_tables() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/macos.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let devices: Vec<String> = DEVICES.iter().map(|device| format!("`{}`", device.path)).collect();
    let system: Vec<String> = SYSTEM.iter().map(|row| format!("`{}` ({})", row.path, row.reason)).collect();
    let parts = [("services", services()), ("devices", devices.join(", ")), ("system", system.join(", "))];
    let mut expected = page.clone();
    for (name, text) in parts {
        let start = format!("<!-- {name} -->");
        let (before, rest) = expected.split_once(&start).unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        expected = format!("{before}{start}{text}<!-- end -->{after}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &expected).unwrap();
    } else {
        assert!(
            page == expected,
            "docs/macos.md is not what the tables say: UPDATE_DOCS=1 cargo test -p kennel-macos"
        );
    }
}
