//! Where the agent starts.

use crate::container::{Container, Ordinary, Root, each, quiet};

fn pwd() -> Container {
    Container::new().file("srv/code/file", 0o644, "").args(["pwd"])
}

#[test]
fn the_working_directory_is_workspace_unless_set() {
    each(&[Root, Ordinary], |identity| {
        for (container, directory) in [
            (pwd(), "/workspace\n"),
            (pwd().var("AGENT_WORKDIR", ""), "/workspace\n"),
            (pwd().var("AGENT_WORKDIR", "/srv/code"), "/srv/code\n"),
        ] {
            let run = container.run(identity);
            assert_eq!(run.text(), directory);
            assert_eq!(run.stderr, quiet(identity));
        }
    });
}

#[test]
fn a_working_directory_that_cannot_be_entered_is_a_warning_and_the_agent_starts_where_it_is() {
    each(&[Root, Ordinary], |identity| {
        for (container, directory, why) in [
            (pwd().without_workspace(), "/workspace", "No such file or directory"),
            (pwd().var("AGENT_WORKDIR", "/none"), "/none", "No such file or directory"),
            (pwd().var("AGENT_WORKDIR", "/srv/code/file"), "/srv/code/file", "Not a directory"),
        ] {
            let run = container.run(identity);
            assert_eq!(run.text(), "/\n");
            assert_eq!(
                run.stderr,
                format!(
                    "[entrypoint] warning: changing to the working directory: {directory}: {why}; \
                     the agent starts in the current one\n\
                     [entrypoint] help: create it in the image or mount it, \
                     or set AGENT_WORKDIR to a directory that exists\n{}",
                    quiet(identity)
                )
            );
        }
    });
}
