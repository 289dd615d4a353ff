//! Registries as the hosts that they stand for, with the mirrors that the user has.

use crate::domain::HostRule;
use crate::policy::Origin;
use crate::registries::UserMirrors;
use crate::settings::{NetworkSettings, Settings, Stated};

/// Lets the command reach the hosts of the registries, unless a rule covers them: rules about requests stay all that is allowed.
pub(super) fn settle(settings: &mut Settings, user: &dyn UserMirrors) {
    let network = &mut settings.network;
    if !network.mode.as_ref().is_some_and(|mode| mode.value.is_gated()) {
        return;
    }
    let mut done: Vec<&str> = Vec::new();
    for Stated { value: registry, origin } in std::mem::take(&mut network.allow_registries) {
        if done.contains(&registry.name) {
            continue;
        }
        done.push(registry.name);
        for host in &registry.hosts {
            let why = Origin(format!("registry {}, {origin}", registry.name));
            host.rule().into_iter().for_each(|rule| allow(network, rule.from_origin(why.clone())));
        }
        for (rule, place) in registry.mirrors_of(user) {
            let why = Origin(format!("registry {}, {origin}: named in {place}", registry.name));
            allow(network, rule.from_origin(why));
        }
    }
}

fn allow(network: &mut NetworkSettings, rule: HostRule) {
    let covers =
        |own: &HostRule| own.host.covers(&rule.host) && own.port.is_none_or(|port| Some(port) == rule.port);
    let by_request = network.http.iter().any(|request| request.host.host.covers(&rule.host));
    if !by_request && !network.allow.iter().any(covers) {
        network.allow.push(rule);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::merge::{Merged, Sources, merge, merge_with};
    use crate::policy::NetworkMode;
    use crate::profiles::NoOwnProfiles;
    use crate::registries::UserMirrors;
    use crate::settings::{Base, Format, Provenance, Settings, parse};

    /// Somebody with an `.npmrc` and a `GOPROXY`.
    struct Someone;

    impl UserMirrors for Someone {
        fn file(&self, below_home: &str) -> Option<Vec<u8>> {
            (below_home == ".npmrc").then(|| b"registry=https://me:pass@npm.corp.example/x".to_vec())
        }

        fn variable(&self, name: &str) -> Option<OsString> {
            (name == "GOPROXY").then(|| "https://go.corp.example,direct".into())
        }
    }

    fn settings(text: &str) -> Settings {
        let base = Base::new("/work", Some("/home/me".into()));
        parse(text.as_bytes(), Format::Toml, Provenance::File("a.toml"), &base).unwrap()
    }

    fn sources(text: &str) -> Sources {
        Sources::flags(Base::new("/work", Some("/home/me".into())), settings(text))
    }

    fn merged(text: &str) -> Merged {
        merge_with(sources(text), &NoOwnProfiles, &Someone).unwrap_or_else(|error| panic!("{error}"))
    }

    fn hosts(merged: &Merged) -> Vec<String> {
        merged.policy.network.allow.iter().map(|rule| format!("{rule} ({})", rule.origin)).collect()
    }

    #[test]
    #[kennel_claim::claim("network/mirrors-are-names")]
    fn a_registry_is_its_hosts_and_the_users_own_mirrors_of_it() {
        let npm = merged("network.allow_registries = [\"npm\", \"npm\"]");
        assert_eq!(npm.policy.network.mode, NetworkMode::AllowList);
        assert_eq!(
            hosts(&npm),
            [
                "registry.npmjs.org:443 (registry npm, a.toml:1)",
                "registry.yarnpkg.com:443 (registry npm, a.toml:1)",
                "npm.corp.example:443 (registry npm, a.toml:1: named in ~/.npmrc)",
            ]
        );
        let all = hosts(&merged("network.allow_registries = [\"packages\"]"));
        for host in ["static.crates.io:443", "go.corp.example:443", "npm.corp.example:443"] {
            assert!(all.iter().any(|own| own.starts_with(host)), "{host}: {all:?}");
        }
        assert!(!all.iter().any(|own| own.starts_with("github.com")), "{all:?}");
        let only_pypi = hosts(&merged("network.allow_registries = [\"pypi\"]"));
        assert!(!only_pypi.iter().any(|own| own.contains("corp.example")), "{only_pypi:?}");
    }

    #[test]
    fn a_rule_about_requests_to_a_registry_stays_all_that_is_allowed() {
        let locked =
            merged("network.allow_registries = [\"npm\"]\nnetwork.allow = [\"GET registry.npmjs.org/**\"]");
        assert!(
            !hosts(&locked).iter().any(|own| own.starts_with("registry.npmjs.org")),
            "{:?}",
            hosts(&locked)
        );
        assert_eq!(locked.policy.network.http.len(), 1);
    }

    #[test]
    fn a_registry_needs_an_allow_list() {
        let error = |text: &str| merge(sources(text)).unwrap_err().to_string();
        assert!(error("network.allow_registries = [\"npm\"]\nnetwork.mode = \"host\"").starts_with(
            "network.allow_registries `npm` (a.toml:1) cannot be used with network mode `host`"
        ));
        // Another mode than the profile's replaces what that one allows.
        let none = merged("profile = \"claude\"\nnetwork.mode = \"none\"");
        assert!(none.policy.network.allow.is_empty());
    }

    #[test]
    fn a_settings_file_that_was_found_allows_no_registry() {
        let project = vec![settings("network.allow_registries = [\"npm\"]")];
        let sources = Sources { project, ..sources("network.mode = \"allow-list\"") };
        let found = merge_with(sources, &NoOwnProfiles, &Someone).unwrap();
        assert!(found.policy.network.allow.is_empty());
        assert_eq!(found.notes[0].key, "network.allow_registries");
    }

    #[test]
    fn a_word_that_is_no_registry_names_the_nearest() {
        let error = |text: &str| {
            let base = Base::new("/work", None);
            parse(text.as_bytes(), Format::Toml, Provenance::File("a.toml"), &base).unwrap_err().to_string()
        };
        assert_eq!(
            error("network.allow_registries = [\"nmp\"]"),
            "a.toml:1: `network.allow_registries`: there is no registry `nmp`; did you mean `npm`?"
        );
        assert!(error("network.allow_registries = [\"x\"]").ends_with("`kennel registries` lists them"));
    }
}
