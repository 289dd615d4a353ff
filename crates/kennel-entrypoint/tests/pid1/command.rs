//! Which program is run, with which arguments, and what happens if it cannot be.

use crate::container::{Container, Ordinary, Root, each, quiet};

/// Prints its arguments, one a line, in angle brackets.
const SHOW: &str = "#!/bin/sh\nprintf '<%s>\\n' \"$0\" \"$@\"\n";

fn showing() -> Container {
    Container::new().file("opt/show", 0o755, SHOW).file("opt/other", 0o755, SHOW)
}

/// What the agent is called with, its own name first.
#[track_caller]
fn assert_called_with(container: &Container, expected: &[&str]) {
    each(&[Root, Ordinary], |identity| {
        let run = container.run(identity);
        let lines: String = expected.iter().map(|word| format!("<{word}>\n")).collect();
        assert_eq!(run.text(), lines);
        assert_eq!(run.stderr, quiet(identity));
    });
}

#[test]
fn the_command_line_is_the_command_when_no_variable_is_set() {
    assert_called_with(&showing().args(["/opt/show", "--flag", "a b"]), &["/opt/show", "--flag", "a b"]);
}

#[test]
fn agent_command_comes_before_the_command_line() {
    let container = showing().var("AGENT_COMMAND", "/opt/other");
    assert_called_with(&container, &["/opt/other"]);
    assert_called_with(&container.args(["/opt/show"]), &["/opt/other"]);
}

#[test]
fn agent_args_come_before_the_arguments_of_the_command_line() {
    let container = showing().var("AGENT_ARGS", "-x y");
    assert_called_with(&container.clone().args(["/opt/show", "ignored"]), &["/opt/show", "-x", "y"]);
    assert_called_with(&container.var("AGENT_COMMAND", "/opt/other"), &["/opt/other", "-x", "y"]);
}

#[test]
fn agent_command_alone_keeps_the_arguments_of_the_command_line() {
    let container = showing().var("AGENT_COMMAND", "/opt/other").args(["/opt/show", "--flag"]);
    assert_called_with(&container, &["/opt/other", "--flag"]);
    assert_called_with(&container.var("AGENT_ARGS", "[]"), &["/opt/other"]);
}

#[test]
fn empty_variables_count_as_not_set() {
    let container = showing().var("AGENT_COMMAND", "").var("AGENT_ARGS", "").args(["/opt/show", "x"]);
    assert_called_with(&container, &["/opt/show", "x"]);
}

#[test]
fn agent_args_are_words_with_quotes() {
    let container =
        showing().args(["/opt/show"]).var("AGENT_ARGS", r#"-p 'say "hi"'  "it's $HOME" a\ b '' *"#);
    assert_called_with(&container, &["/opt/show", "-p", "say \"hi\"", "it's $HOME", "a b", "", "*"]);
}

#[test]
fn agent_args_are_a_json_array_if_they_start_like_one() {
    let container = showing().args(["/opt/show"]).var("AGENT_ARGS", r#"["-p", "say \"hi\"", "\u00e9", ""]"#);
    assert_called_with(&container, &["/opt/show", "-p", "say \"hi\"", "é", ""]);
}

#[test]
fn agent_args_may_be_as_long_as_a_variable_can_be() {
    let words = "w ".repeat(60_000);
    let json = format!("[{}\"\"]", "\"w\",".repeat(30_000));
    for (text, count) in [(words, "60000\n"), (json, "30001\n")] {
        let container =
            Container::new().file("opt/count", 0o755, "#!/bin/sh\necho $#\n").args(["/opt/count"]);
        let container = container.var("AGENT_ARGS", text);
        each(&[Root, Ordinary], |identity| assert_eq!(container.run(identity).text(), count));
    }
}

#[test]
fn arguments_need_not_be_utf8() {
    each(&[Root, Ordinary], |identity| {
        let container = showing().args(["/opt/show"]).var("AGENT_ARGS", b"caf\xe9");
        let run = container.run(identity);
        run.text();
        assert_eq!(run.stdout, b"</opt/show>\n<caf\xe9>\n");
    });
}

#[test]
fn a_name_is_looked_for_in_path_and_passed_on_as_it_was_given() {
    let sh = Container::new().args(["sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline; :"]);
    each(&[Root, Ordinary], |identity| {
        assert!(sh.run(identity).text().starts_with("sh -c "));
    });
}

#[test]
fn the_first_directory_of_path_that_has_an_executable_counts() {
    let mut container = Container::new()
        .file("first/tool", 0o644, "#!/bin/sh\necho not executable\n")
        .file("second/tool", 0o755, "#!/bin/sh\necho second\n")
        .file("third/tool", 0o755, "#!/bin/sh\necho third\n")
        .args(["tool"]);
    container.environment = vec![b"PATH=/nowhere:/first:/second:/third:/bin".to_vec()];
    each(&[Root, Ordinary], |identity| assert_eq!(container.run(identity).text(), "second\n"));
}

#[test]
fn a_program_in_the_workspace_never_stands_in_for_the_agent() {
    let mut container =
        Container::new().file("workspace/tool", 0o755, "#!/bin/sh\necho planted\n").args(["tool"]);
    container.environment = vec![b"PATH=:.:workspace:/bin".to_vec()];
    each(&[Root, Ordinary], |identity| {
        container.run(identity).fatal(&format!(
            "{}\
             [entrypoint] fatal: finding the agent's program: tool: agent binary not found in PATH\n\
             [entrypoint] help: install it in a directory of the image's PATH, or give its absolute path\n",
            quiet(identity)
        ));
    });
    // Named as a path, it is meant.
    each(&[Root, Ordinary], |identity| {
        assert_eq!(container.clone().args(["./tool"]).run(identity).text(), "planted\n");
    });
}

#[test]
fn without_path_the_runtimes_default_is_searched() {
    let mut container = Container::new().script("echo found");
    container.environment.clear();
    each(&[Root, Ordinary], |identity| assert_eq!(container.run(identity).text(), "found\n"));
}

// The error table.

#[test]
fn no_agent_command_is_fatal() {
    let said = "\
        [entrypoint] fatal: resolving the agent's command: no agent command specified\n\
        [entrypoint] help: set AGENT_COMMAND, or pass the command as arguments: kennel-entrypoint my-agent --flag\n";
    each(&[Root, Ordinary], |identity| {
        Container::new().run(identity).fatal(said);
        Container::new().var("AGENT_COMMAND", "").args([""]).run(identity).fatal(said);
        Container::new().var("AGENT_ARGS", "x").run(identity).fatal(said);
    });
}

#[test]
fn an_agent_binary_that_is_not_in_path_is_fatal() {
    each(&[Root, Ordinary], |identity| {
        Container::new().var("AGENT_COMMAND", "no-such-agent").run(identity).fatal(&format!(
            "{}\
             [entrypoint] fatal: finding the agent's program: no-such-agent: agent binary not found in PATH\n\
             [entrypoint] help: install it in a directory of the image's PATH, or give its absolute path\n",
            quiet(identity)
        ));
        Container::new().args(["/opt/no-such-agent"]).run(identity).fatal(&format!(
            "{}\
             [entrypoint] fatal: finding the agent's program: /opt/no-such-agent: No such file or directory\n\
             [entrypoint] help: the path has to name an executable file\n",
            quiet(identity)
        ));
    });
}

#[test]
fn a_command_with_its_arguments_in_agent_command_is_told_where_they_go() {
    each(&[Root, Ordinary], |identity| {
        Container::new().var("AGENT_COMMAND", "sh -c true").run(identity).fatal(&format!(
            "{}\
             [entrypoint] fatal: finding the agent's program: sh -c true: agent binary not found in PATH\n\
             [entrypoint] help: AGENT_COMMAND names one program; its arguments go into AGENT_ARGS\n",
            quiet(identity)
        ));
    });
}

#[test]
fn a_binary_that_the_agents_user_may_not_execute_is_fatal() {
    // Root could execute it: the question is asked after the drop.
    let mut container = Container::new().file("opt/tool", 0o744, SHOW).args(["tool"]);
    container.environment = vec![b"PATH=/opt".to_vec()];
    each(&[Root], |identity| {
        container.run(identity).fatal(
            "[entrypoint] fatal: finding the agent's program: tool: \
             agent binary found in PATH, but the agent's user may not execute it\n\
             [entrypoint] help: install it in a directory of the image's PATH, or give its absolute path\n",
        );
    });
}

#[test]
fn a_failing_execve_is_fatal() {
    for init in ["0", "1"] {
        each(&[Root, Ordinary], |identity| {
            let failing = |content: &[u8], what: &str| {
                let container = Container::new().file("opt/broken", 0o755, content);
                container.args(["/opt/broken"]).var("AGENT_INIT", init).run(identity).fatal(&format!(
                    "{}[entrypoint] fatal: executing the agent: /opt/broken: {what}\n",
                    quiet(identity)
                ));
            };
            failing(
                b"\x7fELF, but no further",
                "Exec format error\n\
                 [entrypoint] help: not a program of this architecture, or a script without a #! line",
            );
            failing(
                b"#!/no/such/interpreter\n",
                "No such file or directory\n\
                 [entrypoint] help: the interpreter after #!, or the program's dynamic loader, is missing in the image",
            );
        });
    }
}

#[test]
fn agent_args_that_cannot_be_read_are_fatal_and_not_quoted_in_the_message() {
    each(&[Root, Ordinary], |identity| {
        let container = Container::new().args(["sh"]);
        container.clone().var("AGENT_ARGS", "--key 'hunter2").run(identity).fatal(
            "[entrypoint] fatal: reading the agent's arguments: AGENT_ARGS: a single quote is not closed\n\
             [entrypoint] help: quote as in a shell, or give AGENT_ARGS as a JSON array of strings\n",
        );
        container.var("AGENT_ARGS", "[\"hunter2\", 7]").run(identity).fatal(
            "[entrypoint] fatal: reading the agent's arguments: AGENT_ARGS: \
             expected a string in double quotes (at byte 12)\n\
             [entrypoint] help: AGENT_ARGS that starts with [ is a JSON array of strings; \
             quote a [ that is a word: '['\n",
        );
    });
}
