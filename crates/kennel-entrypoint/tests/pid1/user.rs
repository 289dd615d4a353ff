//! Who the agent is.

use crate::container::{Container, Identity, LoneRoot, Ordinary, RemappedRoot, Root, each, quiet};

const SHOW_IDS: &str = "grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)):' /proc/1/status | tr -s '\\t ' ' '";

fn ids(uid: u32, gid: u32) -> String {
    format!(
        "Uid: {uid} {uid} {uid} {uid}\nGid: {gid} {gid} {gid} {gid}\nGroups: {gid} \n{}",
        ["Inh", "Prm", "Eff", "Amb"].map(|set| format!("Cap{set}: 0000000000000000\n")).concat()
    )
}

#[test]
fn root_becomes_the_agent_with_all_ids_and_no_capability() {
    each(&[Root, RemappedRoot], |identity| {
        let run = Container::new().script(SHOW_IDS).run(identity);
        assert_eq!(run.text(), ids(1000, 1000));
        assert_eq!(run.stderr, "");
    });
}

#[test]
fn setuid_and_setgid_are_all_the_capabilities_that_the_drop_needs() {
    each(&[Root, RemappedRoot], |identity| {
        for init in ["0", "1"] {
            let mut container = Container::new().var("AGENT_INIT", init);
            container.surroundings.fewest_capabilities = true;
            let run = container.clone().script(SHOW_IDS).run(identity);
            assert_eq!(run.text(), ids(1000, 1000));
            assert_eq!(run.stderr, "");
            // They were indeed the only ones: bits 6 and 7.
            let root =
                container.var("AGENT_USER", "root").script("grep ^CapPrm /proc/1/status").run(identity);
            assert_eq!(root.text().trim_end(), "CapPrm:\t00000000000000c0");
        }
    });
}

#[test]
fn root_becomes_the_user_that_agent_user_names() {
    let passwd = "agent:x:1000:1000::/:\nother:x:1234:4321::/:\nzerogroup:x:1235:0::/:\n";
    each(&[Root, RemappedRoot], |identity| {
        for (user, uid, gid) in
            [("other", 1234, 4321), ("agent", 1000, 1000), ("zerogroup", 1235, 0), ("", 1000, 1000)]
        {
            let run = Container::new().passwd(passwd).var("AGENT_USER", user).script(SHOW_IDS).run(identity);
            assert_eq!(run.text(), ids(uid, gid), "{user}");
            if gid == 0 {
                assert!(run.stderr.contains("this user's group is root's"), "{}", run.stderr);
            } else {
                assert_eq!(run.stderr, "");
            }
        }
        let strict = Container::new().passwd(passwd).var("AGENT_USER", "zerogroup").var("AGENT_STRICT", "1");
        let run = strict.script("echo ran").run(identity);
        assert_eq!(run.ending, crate::container::Ending::Exited(1), "{}", run.stderr);
        assert!(run.stderr.contains("this user's group is root's"), "{}", run.stderr);
    });
}

#[test]
fn the_agent_cannot_become_root_again() {
    if !crate::binary::host_has("setpriv") {
        return;
    }
    let attempt = "for ids in '--reuid 0' '--regid 0 --keep-groups' '--groups 0'; do
                       setpriv $ids true 2>/dev/null && echo allowed || echo refused
                   done";
    each(&[Root, RemappedRoot, Ordinary], |identity| {
        assert_eq!(Container::new().script(attempt).run(identity).text(), "refused\nrefused\nrefused\n");
    });
    // The attempts are not refused for some other reason.
    each(&[Root, RemappedRoot], |identity| {
        let root = Container::new().var("AGENT_USER", "root").script(attempt).run(identity);
        assert_eq!(root.text(), "allowed\nallowed\nallowed\n");
    });
}

#[test]
fn the_agent_cannot_read_or_write_what_is_roots() {
    let container = Container::new().file("etc/shadow", 0o600, "root's").script(
        "cat /etc/shadow 2>/dev/null || echo no reading; echo x 2>/dev/null >> /etc/passwd || echo no writing",
    );
    each(&[Root], |identity| {
        assert_eq!(container.run(identity).text(), "no reading\nno writing\n");
    });
}

// The error table.

#[test]
fn a_user_that_is_not_in_passwd_is_a_warning_and_the_agent_runs_as_the_current_user() {
    let said = |user: &str| {
        format!(
            "[entrypoint] warning: dropping privileges: {user}: \
             user not found in /etc/passwd; the agent keeps the current user, root\n\
             [entrypoint] help: create the user in the image, or set AGENT_USER to one that exists\n"
        )
    };
    each(&[Root, RemappedRoot, LoneRoot], |identity| {
        for (container, user) in [
            (Container::new().var("AGENT_USER", "nobody-here"), "nobody-here"),
            (Container::new().passwd("root:x:0:0::/:\nagents:x:1:1::/:\n"), "agent"),
            (Container::new().without_passwd(), "agent"),
            (Container::new().passwd(""), "agent"),
            // Names only: a number is no name.
            (Container::new().var("AGENT_USER", "1000"), "1000"),
        ] {
            let run = container.script("id -u; id -g").run(identity);
            assert_eq!(run.text(), "0\n0\n");
            assert_eq!(run.stderr, said(user));
        }
    });
}

#[test]
fn not_running_as_root_is_a_warning_and_the_drop_is_skipped() {
    each(&[Ordinary], |identity| {
        for container in [Container::new(), Container::new().without_passwd()] {
            let run = container.script("id -u; id -g").run(identity);
            assert_eq!(run.text(), "1000\n1000\n");
            assert_eq!(run.stderr, quiet(identity));
        }
    });
}

/// The same with no user namespace at all: what the host's own ordinary user gets. (PID 1 needs a namespace; this does
/// without being PID 1.)
#[test]
fn not_running_as_root_is_the_same_outside_any_user_namespace() {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new(crate::binary::entrypoint());
    command.args(["id", "-u"]).env_clear().env("PATH", "/usr/bin:/bin").env("AGENT_WORKDIR", "/");
    if crate::launch::is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), quiet(Ordinary));
    assert_ne!(output.stdout, b"0\n");
}

const HELP: &str = "[entrypoint] help: the container needs CAP_SETGID and CAP_SETUID, \
    and the user's ids mapped in its user namespace; or start it as that user\n";

#[test]
fn a_failing_setgroups_setgid_or_setuid_is_fatal() {
    let refused = |system_call, name: &str| {
        each(&[Root, RemappedRoot], |identity| {
            let container = Container::new().answer(system_call, libc::EPERM).script("id");
            container
                .run(identity)
                .fatal(&format!("[entrypoint] fatal: {name}: 1000: Operation not permitted\n{HELP}"));
        });
    };
    refused(libc::SYS_setgroups, "setgroups");
    refused(libc::SYS_setgid, "setgid");
    refused(libc::SYS_setuid, "setuid");
}

#[test]
fn a_user_that_the_user_namespace_does_not_know_is_fatal() {
    // All that an ordinary user's namespace has is root; its kernel refuses setgroups from the start.
    each(&[LoneRoot], |identity| {
        Container::new()
            .script("id")
            .run(identity)
            .fatal(&format!("[entrypoint] fatal: setgroups: 1000: Operation not permitted\n{HELP}"));
    });
    // Here the group is mapped and the user is not, and setuid is what fails.
    each(&[RemappedRoot], |identity| {
        let passwd = "agent:x:70000:1000::/:\n";
        Container::new()
            .passwd(passwd)
            .script("id")
            .run(identity)
            .fatal(&format!("[entrypoint] fatal: setuid: 70000: Invalid argument\n{HELP}"));
    });
}

#[test]
fn a_call_that_claims_success_and_does_nothing_is_found_out() {
    let lying = |system_call, what: &str| {
        each(&[Root, RemappedRoot], |identity| {
            let container = Container::new().answer(system_call, 0).script("id");
            container.run(identity).fatal(&format!(
                "[entrypoint] fatal: checking that root was given up: 1000: {what}\n\
                 [entrypoint] help: the kernel or a system call filter of the container runtime \
                 did not do as it was told\n"
            ));
        });
    };
    lying(libc::SYS_setuid, "a user id did not change");
    lying(libc::SYS_setgid, "a group id did not change");
    lying(libc::SYS_setgroups, "the supplementary groups did not change");
}

#[test]
fn capabilities_that_would_outlive_the_change_of_user_are_given_up() {
    each(&[Root, RemappedRoot], |identity| {
        let mut container = Container::new().script(SHOW_IDS);
        container.surroundings.capabilities_outlive_setuid = true;
        assert_eq!(container.run(identity).text(), ids(1000, 1000));
        // And if that is prevented, it is found out.
        container.answer(libc::SYS_capset, 0).run(identity).fatal(
            "[entrypoint] fatal: checking that root was given up: 1000: capabilities were kept\n\
             [entrypoint] help: the kernel or a system call filter of the container runtime \
             did not do as it was told\n",
        );
    });
}

// Beyond the table: what must not end in "no such user", because that means going on as root.

fn damaged_passwd(container: &Container, why: &str) {
    each(&[Root, RemappedRoot, LoneRoot], |identity: Identity| {
        container.clone().script("id").run(identity).fatal(&format!(
            "[entrypoint] fatal: looking up the agent's user: /etc/passwd: agent: {why}\n\
             [entrypoint] help: the image's /etc/passwd has to be a readable file with lines name:x:UID:GID:...\n"
        ));
    });
}

#[test]
fn a_passwd_line_without_ids_is_fatal() {
    for ids in ["", "x:1000", "-1:1000", "1000:4294967295"] {
        let container = Container::new().passwd(format!("agent:x:{ids}\nagent:x:1000:1000::/:\n"));
        damaged_passwd(&container, "the user's line has no valid UID and GID");
    }
}

#[test]
fn a_passwd_file_that_is_no_file_or_has_no_end_is_fatal() {
    damaged_passwd(&Container::new().without_passwd().file("etc/passwd/x", 0o644, ""), "Is a directory");
    let endless = "x:x:1:1::/:\n".repeat(400_000);
    damaged_passwd(&Container::new().passwd(endless), "larger than 4 MiB");
}

#[test]
fn a_user_that_is_root_is_a_warning() {
    each(&[Root, RemappedRoot], |identity| {
        let run = Container::new().var("AGENT_USER", "root").script("id -u").run(identity);
        assert_eq!(run.text(), "0\n");
        assert_eq!(
            run.stderr,
            "[entrypoint] warning: dropping privileges: root: this user is root; the agent keeps root's privileges\n\
             [entrypoint] help: set AGENT_USER to an ordinary user\n"
        );
    });
}
