//! `kennel registries`: the registries that `--allow-registry` accepts, and their hosts.

use std::fmt::Write as _;

use kennel_policy::registries::{self, PACKAGES, Registry};
use serde_json::json;

use super::{json_text, policy, print};

/// Lists them.
pub fn registries(as_json: bool) -> i32 {
    let homes = policy::Lazy::default();
    let user = policy::user_mirrors(&homes);
    let own = |registry: &Registry| {
        let found = registry.mirrors_of(&user).into_iter();
        found.map(|(rule, place)| (rule.to_string(), place)).collect::<Vec<_>>()
    };
    if as_json {
        let list: Vec<_> = registries::all()
            .iter()
            .map(|registry| {
                let hosts = registry.hosts.iter().map(|host| {
                    json!({
                        "host": host.rule().map(|rule| rule.to_string()),
                        "serves": host.serves,
                        "takes_uploads": host.uploads,
                        "source": host.source,
                    })
                });
                let mirrors = own(registry).into_iter();
                let mirrors = mirrors.map(|(host, place)| json!({ "host": host, "named_in": place }));
                json!({
                    "name": registry.name,
                    "in_packages": registry.is_packages,
                    "tools": registry.tools,
                    "hosts": hosts.collect::<Vec<_>>(),
                    "mirrors": mirrors.collect::<Vec<_>>(),
                })
            })
            .collect();
        return print(&json_text(&json!({ "registries": list })));
    }
    let mut text = String::new();
    for (title, is_packages) in
        [(format!("Packages (`{PACKAGES}` means all of these):\n"), true), ("\nOthers:\n".to_owned(), false)]
    {
        text.push_str(&title);
        for registry in registries::all().iter().filter(|registry| registry.is_packages == is_packages) {
            let _ = writeln!(text, "  {:12} {}", registry.name, registry.tools);
            for host in &registry.hosts {
                let rule = host.rule().map(|rule| rule.to_string()).unwrap_or_default();
                let uploads = if host.uploads { "; also takes uploads" } else { "" };
                let _ = writeln!(text, "    {rule:40} {}{uploads}", host.serves);
            }
            for (rule, place) in own(registry) {
                let _ = writeln!(text, "    {rule:40} named in your {place}");
            }
        }
    }
    text.push_str("\nkennel run --allow-registry NAME,NAME -- COMMAND allows them.\n");
    print(&kennel_policy::printed::show_lines(&text))
}
