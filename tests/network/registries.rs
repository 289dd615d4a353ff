//! Registries, and profiles that allow no host: what is refused is refused at once, with the flag that allows it.

use std::process::Command;

use kennel_tests::world::{python, world};
use kennel_tests::{Scratch, kennel, program, ran, ran_within, skipped};

use crate::network::{BOTH, LONG, Told, Way, by, told_by};

/// A run with a home of its own.
fn at_home(home: &Scratch, flags: &[&str], words: &[&str]) -> Told {
    told_by(flags, words, |command| {
        let _ = std::fs::create_dir_all(home.join("work"));
        command.env("HOME", home.path()).current_dir(home.join("work"));
    })
}

#[test]
#[kennel_claim::claim("network/profiles-refuse-aloud")]
fn a_profile_without_hosts_refuses_at_once_and_names_the_flag() {
    let Some(_) = world() else { return };
    let home = Scratch::new();
    let url = "http://registry.yarnpkg.com:443/left-pad";
    for profile in ["agent", "build"] {
        let curl = ["curl", "-s", "-m", "30", "-w", "%{http_code}", url];
        let told = at_home(&home, &["--profile", profile], &curl);
        assert!(told.ran.stdout.ends_with("403"), "{told:#?}");
        assert!(told.ran.stdout.contains("registry.yarnpkg.com:443: not on the allow list"), "{told:#?}");
        let line = "registry.yarnpkg.com:443 (by curl): not on the allow list; \
                    to allow it: --allow-domain registry.yarnpkg.com:443, or all of registry npm";
        assert!(told.ran.stderr.contains(line), "{told:#?}");
        // A program without proxies learns that there is no such name, and no server is asked.
        let Some(python) = python() else { return skipped("needs python3") };
        let script = "import socket
try: socket.getaddrinfo('registry.yarnpkg.com', 443)
except socket.gaierror as error: print(error.errno == socket.EAI_NONAME)";
        let words = by(Way::Plain, &[python.to_str().expect("a path"), "-c", script]);
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        let told = at_home(&home, &["--profile", profile], &words).ok();
        assert_eq!(told.ran.stdout, "True\n", "{told:#?}");
    }
    world().expect("it stands").saw_nothing_of("dns registry.yarnpkg.com");
}

/// The real thing, where there is one.
#[test]
fn npm_under_the_agents_profile_says_what_kennel_says() {
    let Some(_) = world() else { return };
    let Some(npm) = program("npm") else { return skipped("npm is not installed") };
    let home = Scratch::new();
    let script = format!("{} install --cache /tmp/npm left-pad 2>&1", npm.display());
    let told = at_home(&home, &["--profile", "agent"], &["sh", "-c", &script]);
    assert_ne!(told.ran.code, 0);
    if told.ran.stdout.contains("not found") || told.ran.stdout.contains("ermission denied") {
        return skipped("npm cannot be started in a private home here");
    }
    assert!(told.ran.stdout.contains("403"), "{told:#?}");
    assert!(told.ran.stderr.contains("--allow-domain"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("network/registries-download")]
fn an_allowed_registry_opens_its_hosts_and_no_other() {
    let Some(world) = world() else { return };
    let status = |host: &str, way| {
        let url = format!("https://{host}/x");
        let words = by(way, &["curl", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{errormsg}", &url]);
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        told_by(&["--allow-registry", "npm,pypi"], &words, |_| {})
    };
    for way in BOTH {
        // There is no such name in this world, so that is as far as it gets.
        for host in ["registry.npmjs.org", "files.pythonhosted.org"] {
            let told = status(host, way);
            assert!(told.about(host).iter().any(|(_, allowed)| *allowed), "{told:#?}");
        }
        for host in ["upload.pypi.org", "crates.io", "static.crates.io"] {
            let told = status(host, way);
            assert_eq!(told.reason(host), "not on the allow list", "{told:#?}");
        }
    }
    assert!(!world.seen("dns registry.npmjs.org").is_empty());
    world.saw_nothing_of("dns upload.pypi.org");
}

/// With the settings of a user.
fn planned(home: &Scratch, flags: &[&str]) -> String {
    let mut command: Command = kennel(["plan", "--json"]);
    for name in ["NPM_CONFIG_REGISTRY", "npm_config_registry", "GOPROXY", "PIP_INDEX_URL", "XDG_CONFIG_HOME"]
    {
        command.env_remove(name);
    }
    command.args(flags).args(["--", "true"]).env("HOME", home.path()).current_dir(home.path());
    ran(&mut command).ok().stdout
}

#[test]
#[kennel_claim::claim("network/mirrors-are-names")]
fn the_users_own_mirror_is_reached_where_its_registry_is_allowed() {
    let Some(_) = world() else { return };
    let home = Scratch::new();
    let text = "registry=http://me:hunter2@mirror.web.test/npm\n//mirror.web.test/npm/:_authToken=hunter2\n";
    home.write(".npmrc", text);
    let get = |flags: &[&str]| {
        let mut command = kennel(["run"]);
        command.args(flags).args(["--", "curl", "-s", "-m", "30", "http://mirror.web.test/hello"]);
        for name in
            ["http_proxy", "HTTP_PROXY", "NPM_CONFIG_REGISTRY", "npm_config_registry", "XDG_CONFIG_HOME"]
        {
            command.env_remove(name);
        }
        command.env("HOME", home.path()).current_dir(home.dir("project"));
        ran_within(LONG, &mut command)
    };
    assert_eq!(get(&["--allow-registry", "npm"]).stdout, "hello from mirror.web.test\n");
    assert!(get(&["--allow-registry", "pypi"]).stdout.contains("not on the allow list"));
    assert!(get(&["--allow-registry", "npm", "--no-settings"]).stdout.contains("not on the allow list"));
    let _ = planned(&home, &["--allow-registry", "npm"]);
    let listed =
        ran(kennel(["registries"]).env("HOME", home.path()).env_remove("XDG_CONFIG_HOME")).ok().stdout;
    assert!(listed.contains("mirror.web.test:80") && listed.contains("named in your ~/.npmrc"), "{listed}");
    assert!(!listed.contains("hunter2") && !listed.contains("me:"), "{listed}");
}
