//! `AGENT_STRICT=1`: what is a warning without it.

use crate::container::{Container, LoneRoot, Ordinary, RemappedRoot, Root, each};

fn strict() -> Container {
    Container::new().var("AGENT_STRICT", "1").script("echo the agent ran")
}

#[test]
fn strict_changes_nothing_when_all_is_well() {
    each(&[Root, RemappedRoot], |identity| {
        let run = strict().run(identity);
        assert_eq!(run.text(), "the agent ran\n");
        assert_eq!(run.stderr, "");
    });
}

#[test]
fn a_missing_working_directory_is_fatal_when_strict() {
    each(&[Root, LoneRoot, Ordinary], |identity| {
        strict().without_workspace().run(identity).fatal(
            "[entrypoint] fatal: changing to the working directory: /workspace: No such file or directory\n\
             [entrypoint] help: create it in the image or mount it, \
             or set AGENT_WORKDIR to a directory that exists\n",
        );
    });
}

#[test]
fn a_missing_user_is_fatal_when_strict() {
    each(&[Root, RemappedRoot, LoneRoot], |identity| {
        strict().without_passwd().run(identity).fatal(
            "[entrypoint] fatal: dropping privileges: agent: user not found in /etc/passwd\n\
             [entrypoint] help: create the user in the image, or set AGENT_USER to one that exists\n",
        );
    });
}

#[test]
fn a_user_that_is_root_is_fatal_when_strict() {
    each(&[Root, RemappedRoot, LoneRoot], |identity| {
        let run = strict().var("AGENT_USER", "root").run(identity);
        run.fatal(
            "[entrypoint] fatal: dropping privileges: root: this user is root\n\
             [entrypoint] help: set AGENT_USER to an ordinary user\n",
        );
    });
}

#[test]
fn not_running_as_root_is_fatal_when_strict() {
    each(&[Ordinary], |identity| {
        strict().run(identity).fatal(
            "[entrypoint] fatal: dropping privileges: agent: not running as root\n\
             [entrypoint] help: only root can change users: \
             start the container as root, or without AGENT_STRICT as the user meant\n",
        );
    });
}

#[test]
fn a_switch_that_is_neither_1_nor_0_is_fatal() {
    each(&[Root, Ordinary], |identity| {
        for name in ["AGENT_STRICT", "AGENT_INIT"] {
            Container::new().var(name, "yes").script("echo the agent ran").run(identity).fatal(&format!(
                "[entrypoint] fatal: reading a switch: {name}: neither 1 nor 0: yes\n\
                 [entrypoint] help: set it to 1, or leave it out\n"
            ));
        }
    });
}
