//! The table is what it says, and holds hosts to download from.

use super::*;
use toml::de::{DeTable, DeValue};

#[test]
fn the_lines_are_read_as_toml_reads_them() {
    let table = DeTable::parse(include_str!("../registries.toml")).unwrap().into_inner();
    let rows = |name: &str, fields: &[&str]| -> Vec<Vec<String>> {
        let row = |row: &toml::Spanned<DeValue>| {
            let row = row.get_ref().as_table().unwrap();
            assert!(row.keys().all(|key| fields.contains(&key.get_ref().as_ref())), "{row:?}");
            let text = |name: &&str| row.get(*name).map_or("", |value| value.get_ref().as_str().unwrap());
            fields.iter().map(|name| text(name).to_owned()).collect()
        };
        let mut rows: Vec<Vec<String>> = table[name].get_ref().as_array().unwrap().iter().map(row).collect();
        rows.sort();
        rows
    };
    let sorted = |mut rows: Vec<Vec<String>>| {
        rows.sort();
        rows
    };
    let text = |row: &[&str]| row.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
    let group = |one: &Registry| if one.is_packages { PACKAGES } else { "other" };
    let read = all().iter().map(|one| text(&[one.name, group(one), one.tools])).collect();
    assert_eq!(sorted(read), rows("registries", &["name", "group", "tools"]));
    let hosts = |one: &'static Registry| {
        let yes = |uploads| if uploads { "yes" } else { "" };
        one.hosts
            .iter()
            .map(move |host| text(&[one.name, host.host, host.serves, yes(host.uploads), host.source]))
    };
    let fields = ["registry", "host", "serves", "uploads", "source"];
    assert_eq!(sorted(all().iter().flat_map(hosts).collect()), rows("hosts", &fields));
    let mirrors = |one: &'static Registry| {
        let form = |mirror: &Mirror| match mirror.form {
            _ if mirror.file.is_empty() => "",
            MirrorForm::Lines => "lines",
            MirrorForm::Xml => "xml",
        };
        let row =
            move |own: &Mirror| text(&[one.name, own.file, form(own), own.keys, own.variable, own.source]);
        one.mirrors.iter().map(row)
    };
    let fields = ["registry", "file", "form", "keys", "variable", "source"];
    assert_eq!(sorted(all().iter().flat_map(mirrors).collect()), rows("mirrors", &fields));
    assert_eq!(table.len(), 3);
}

#[test]
#[kennel_claim::claim("network/registries-download")]
fn every_host_is_one_to_download_from_with_a_source() {
    // Hosts that take uploads alone, or where anybody can store anything.
    let never = [
        "upload.pypi.org",
        "test.pypi.org",
        "crates.io",
        "www.nuget.org",
        "nuget.org",
        "central.sonatype.com",
        "oss.sonatype.org",
        "s01.oss.sonatype.org",
        "storage.googleapis.com",
        "api.github.com",
        "gist.github.com",
        "uploads.github.com",
        "s3.amazonaws.com",
        "packagist.org",
        "hex.pm",
        "anaconda.org",
        "www.npmjs.com",
    ];
    let mut words: Vec<&str> = words().collect();
    for registry in all() {
        assert!(!registry.hosts.is_empty() && !registry.tools.is_empty(), "{}", registry.name);
        for host in &registry.hosts {
            let rule = host.rule().unwrap_or_else(|| panic!("{}", host.host));
            assert!(matches!(rule.port, Some(80 | 443)) && rule.protocol.is_none(), "{}", host.host);
            assert!(host.source.starts_with("https://") && !host.serves.is_empty(), "{}", host.host);
            for never in never {
                let never = crate::domain::Host::parse(never).unwrap();
                assert!(!rule.host.matches(&never), "{} allows {never}", host.host);
            }
        }
        for mirror in &registry.mirrors {
            assert!(mirror.file.is_empty() != mirror.variable.is_empty(), "{}", registry.name);
            assert!(mirror.file.is_empty() || mirror.file.starts_with("~/"), "{}", mirror.file);
        }
    }
    words.sort_unstable();
    let all_words = words.len();
    words.dedup();
    assert_eq!(words.len(), all_words, "a word means one thing");
}
