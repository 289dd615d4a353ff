//! Which variables the agent sees.

use crate::container::{Container, Ordinary, RemappedRoot, Root, each, quiet};

/// The agent's environment, entry by entry, as the kernel shows it.
fn environment(container: Container, identity: crate::container::Identity) -> Vec<Vec<u8>> {
    let run = container.args(["cat", "/proc/1/environ"]).run(identity);
    assert_eq!(run.stderr, quiet(identity));
    run.text();
    let mut entries: Vec<_> = run.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(entries.pop(), Some(Vec::new()), "the last entry is terminated too");
    entries
}

#[test]
fn the_control_planes_variables_are_always_stripped() {
    for name in ["SESSION_TOKEN", "CONTROL_PLANE_URL", "SESSION_ID"] {
        each(&[Root, RemappedRoot, Ordinary], |identity| {
            let container = Container::new().var(name, "secret").var("KEPT", "yes");
            let path = container.environment[0].clone();
            assert_eq!(environment(container, identity), [path, b"KEPT=yes".to_vec()], "{name}");
        });
    }
}

#[test]
fn the_agents_configuration_is_stripped_after_reading() {
    let settings = [
        ("AGENT_COMMAND", "cat"),
        ("AGENT_ARGS", "/proc/1/environ"),
        ("AGENT_USER", "agent"),
        ("AGENT_WORKDIR", "/etc"),
        ("AGENT_STRICT", "0"),
        ("AGENT_INIT", "0"),
    ];
    for (name, value) in settings {
        each(&[Root, Ordinary], |identity| {
            let container = Container::new().var(name, value);
            let path = container.environment[0].clone();
            assert_eq!(environment(container, identity), [path], "{name}");
        });
    }
}

#[test]
fn injected_secrets_base_urls_and_the_containers_own_variables_remain() {
    let kept = [
        ("GITHUB_TOKEN", "ghp_x"),
        ("SSH_KEY", "-----BEGIN\nEND-----\n"),
        ("ANTHROPIC_BASE_URL", "http://proxy:8080/anthropic"),
        ("OPENAI_BASE_URL", "http://proxy:8080/openai"),
        ("OLLAMA_HOST", "http://proxy:8080/ollama"),
        ("HOME", "/home/agent"),
        ("HOSTNAME", "box"),
        ("TERM", "xterm"),
        ("EMPTY", ""),
    ];
    each(&[Root, Ordinary], |identity| {
        let container =
            kept.iter().fold(Container::new(), |container, (name, value)| container.var(name, value));
        let expected = container.environment.clone();
        assert_eq!(environment(container.var("SESSION_TOKEN", "secret"), identity), expected);
    });
}

#[test]
fn names_that_only_look_like_the_control_planes_remain() {
    each(&[Root, Ordinary], |identity| {
        let container = Container::new()
            .var("SESSION_TOKENS", "1")
            .var("MY_SESSION_TOKEN", "2")
            .var("session_token", "3")
            .var("AGENT_NAME", "4");
        let expected = container.environment.clone();
        assert_eq!(environment(container, identity), expected);
    });
}

#[test]
fn a_control_plane_variable_that_is_set_twice_is_stripped_twice() {
    each(&[Root, Ordinary], |identity| {
        let container = Container::new().var("SESSION_TOKEN", "one").var("SESSION_TOKEN", "two");
        let path = container.environment[0].clone();
        assert_eq!(environment(container, identity), [path]);
    });
}

#[test]
fn bytes_that_are_not_utf8_survive_in_names_and_values() {
    each(&[Root, Ordinary], |identity| {
        let mut container = Container::new().var("SESSION_TOKEN", b"\xff\xfe").var("LATIN1", b"caf\xe9");
        container.environment.push(b"\xffNAME=x".to_vec());
        container.environment.push(b"without-equals-sign".to_vec());
        let mut expected = container.environment.clone();
        expected.remove(1);
        assert_eq!(environment(container, identity), expected);
    });
}

#[test]
fn a_large_environment_arrives_whole() {
    each(&[Root, Ordinary], |identity| {
        let mut container = Container::new().var("SESSION_TOKEN", "x".repeat(100_000));
        for number in 0..5000 {
            container = container.var(&format!("VARIABLE_{number}"), "v".repeat(200));
        }
        let mut expected = container.environment.clone();
        expected.remove(1);
        // Too much for a pipe that is read after the end: counted instead of printed.
        let bytes: usize = expected.iter().map(|entry| entry.len() + 1).sum();
        let run = container.script("wc -c < /proc/1/environ").run(identity);
        assert_eq!(run.text().trim(), bytes.to_string());
    });
}
