//! The network modes through the library: none, the host's, and an allow list, with the refusals in the result.
//!
//! In a program of its own: the library reads this process's environment, and several tests share this one.

use std::ffi::OsString;

use kennel::{ExecutionResult, NetworkMode, Sandbox};
use kennel_tests::{ran_within, role};

use crate::LONG;
use crate::world::world;

#[test]
fn the_three_modes_through_the_library() {
    if world().is_none() {
        return;
    }
    let mut command = role::play("embed");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    let ran = ran_within(LONG, &mut command).ok();
    assert_eq!(ran.stdout, "embedded\n", "{}", ran.stderr);
}

const GET: &[&str] = &["-s", "-m", "20", "http://library.web.test/hello"];

/// The role `embed`: a program that uses the library.
pub fn embed(_: &[OsString]) -> i32 {
    let none = Sandbox::builder().build().expect("plain").run("curl", GET).expect("it runs");
    assert!(!none.success() && none.network.is_empty(), "{none:?}");

    let host = Sandbox::builder().network_mode(NetworkMode::Host).build().expect("plain");
    let host = host.run("curl", GET).expect("it runs");
    // The name server of the host's own network is asked: it knows the name.
    assert_eq!((host.stdout.as_str(), host.network.len()), ("hello from library.web.test\n", 0), "{host:?}");

    let listed =
        Sandbox::builder().network_mode(NetworkMode::Whitelist).allow_domain("library.web.test").build();
    let listed = listed.expect("a list");
    let good = listed.run("curl", GET).expect("it runs");
    assert_eq!(good.stdout, "hello from library.web.test\n", "{good:?}");
    assert!(
        good.network.iter().any(|one| one.host == "library.web.test" && one.allowed && one.port == Some(80))
    );
    let bad = listed.run("curl", &["-s", "-m", "20", "http://other.elsewhere.test/hello"]).expect("it runs");
    expect_refusal(&bad);

    // A child that runs while its caller goes on.
    let child =
        listed.spawn("curl", &["-s", "-m", "20", "http://other.elsewhere.test/hello"]).expect("it starts");
    expect_refusal(&child.wait().expect("it ends"));

    // Two at once, each with a gate of its own.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(listed.run("curl", GET).expect("it runs").success()));
        }
    });
    let wrong =
        Sandbox::builder().network_mode(NetworkMode::Whitelist).allow_domain("http://x.test/").build();
    assert!(wrong.is_err(), "an address is no host");
    crate::control::embedded();
    crate::publish::embedded();
    println!("embedded");
    0
}

fn expect_refusal(result: &ExecutionResult) {
    let found = result.network.iter().find(|one| one.host == "other.elsewhere.test");
    let found = found.unwrap_or_else(|| panic!("{result:?}"));
    assert!(!found.allowed && found.reason == "not on the allow list", "{found:?}");
}
