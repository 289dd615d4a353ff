//! git over ssh, and ssh with the configuration that its user has: one that shares connections by a unix socket, which a
//! sandbox cannot make.

use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::sync::{Once, OnceLock};

use kennel_tests::{program, ran, skipped};

use crate::clients::{Way, ask};
use kennel_tests::world::{World, world};

/// The repository `www/demo.git`, which HTTPS shows as files and SSH by its path.
pub fn repository(world: &World) {
    static MADE: Once = Once::new();
    let script =
        "set -e; git init -q --bare \"$1\"; git init -q \"$1.work\"; cd \"$1.work\"; echo text > file
                  git add file; git -c user.name=t -c user.email=t@t commit -q -m first
                  git push -q \"$1\" HEAD:refs/heads/main; cd \"$1\"; git symbolic-ref HEAD refs/heads/main
                  git update-server-info";
    MADE.call_once(|| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(world.file("www/demo.git"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null");
        ran(&mut command).ok();
    });
}

/// Gives ssh a configuration: a login for every host below web.test, and a shared connection for those called `mux-…`.
/// It is the system's, because ssh looks for the user's own where /etc/passwd says; this process has mounts of its own.
pub fn configure(world: &World) -> bool {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let key = world.file("user_key");
        if !key.is_file() {
            return Err("there is no SSH server".to_owned());
        }
        let text = format!(
            "Host mux-*\n ControlMaster auto\n ControlPath {}/mux-%C\n ControlPersist 10\n\
             Host *.web.test\n IdentityFile {}\n BatchMode yes\n StrictHostKeyChecking no\n\
             UserKnownHostsFile /dev/null\n LogLevel ERROR\n",
            world.file("").display(),
            key.display()
        );
        let own = world.file("ssh_config");
        std::fs::write(&own, text).map_err(|error| error.to_string())?;
        let own = CString::new(own.display().to_string()).map_err(|error| error.to_string())?;
        let target = c"/etc/ssh/ssh_config".as_ptr();
        // SAFETY: strings that end in NUL, and nothing else.
        match unsafe { libc::mount(own.as_ptr(), target, std::ptr::null(), libc::MS_BIND, std::ptr::null()) }
        {
            0 => Ok(()),
            _ => Err(format!("a configuration for ssh: {}", std::io::Error::last_os_error())),
        }
    });
    if let Err(reason) = done {
        skipped(reason);
    }
    done.is_ok()
}

/// The world with a repository in it and a login, or a word that there is none.
fn with_a_login() -> Option<&'static World> {
    let world = world()?;
    if let Some(missing) = ["git", "ssh"].into_iter().find(|name| program(name).is_none()) {
        skipped(&format!("{missing} is not installed"));
        return None;
    }
    if !configure(world) {
        return None;
    }
    repository(world);
    Some(world)
}

/// Clones inside, and returns what was said and how it ended.
fn clone(world: &World, host: &str, before: &str) -> (String, i32) {
    let path = world.file("www/demo.git").display().to_string();
    let script = format!("{before}\n git clone -q ssh://$HOST{path} clone\n cat clone/file");
    let mut seen = ask(Way::Variables, &script, &[host], &[], &[]);
    println!("{}", seen.all);
    seen.answers.remove(0)
}

#[test]
fn git_works_where_the_users_ssh_shares_connections() {
    let Some(world) = with_a_login() else { return };
    // This is what happens without the variable: ssh ends over the unix socket.
    let (said, code) = clone(world, "mux-bare.web.test", "unset GIT_SSH_COMMAND");
    assert_ne!(code, 0);
    assert!(said.contains("socket") || said.contains("ontrol"), "{said}");
    let (said, code) = clone(world, "mux-git.web.test", "");
    assert_eq!((said.trim(), code), ("text", 0));
}

#[test]
fn rsync_works_where_the_users_ssh_shares_connections() {
    let Some(world) = with_a_login() else { return };
    if program("rsync").is_none() {
        return skipped("rsync is not installed");
    }
    let file = world.file("www/demo.git.work/file").display().to_string();
    let script = format!("rsync $HOST:{file} got\n cat got");
    let bare = format!("unset RSYNC_RSH\n {script}");
    assert_ne!(ask(Way::Variables, &bare, &["mux-rsync.web.test"], &[], &[]).answers[0].1, 0);
    let seen = ask(Way::Variables, &script, &["mux-rsync.web.test"], &[], &[]);
    assert_eq!((seen.answers[0].0.trim(), seen.answers[0].1), ("text", 0), "{}", seen.all);
}

#[test]
fn options_can_be_appended_to_the_command_that_git_calls_ssh_by() {
    let Some(world) = with_a_login() else { return };
    let append = "export GIT_SSH_COMMAND=\"$GIT_SSH_COMMAND -o 'LogLevel VERBOSE'\"";
    let (said, code) = clone(world, "mux-appended.web.test", append);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("Authenticated to mux-appended.web.test"), "{said}");
    // Some programs split it into words, and run these without a shell.
    let split = "/usr/bin/python3 -c '
import os, shlex, subprocess
words = shlex.split(os.environ[\"GIT_SSH_COMMAND\"]) + [os.environ[\"HOST\"], \"printf %s, a \\\"b  c\\\"\"]
print(subprocess.run(words, capture_output=True, text=True, check=True).stdout)'";
    if !Path::new("/usr/bin/python3").is_file() {
        return skipped("python3 is not installed");
    }
    let seen = ask(Way::Variables, split, &["mux-split.web.test"], &[], &[]);
    assert_eq!(seen.answers[0].0.trim(), "a,b  c,", "{}", seen.all);
}

#[test]
fn the_ssh_command_of_gits_configuration_is_called() {
    let Some(world) = with_a_login() else { return };
    // With a blank in its path, so that the quotes in it count.
    let make = "mkdir 'own tools'
        printf '#!/bin/sh\\necho \"called $1 $2\" >> %s/calls\\nexec ssh \"$@\"\\n' $HOME > 'own tools/my ssh'
        chmod +x 'own tools/my ssh'
        git config --global core.sshCommand \"'$HOME/own tools/my ssh' -o LogLevel=QUIET\"";
    let (said, code) = clone(world, "mux-configured.web.test", make);
    assert_eq!((said.trim(), code), ("text", 0));
    let look = format!("{make}\n git ls-remote -q ssh://$HOST/nowhere.git || cat calls");
    let seen = ask(Way::Variables, &look, &["mux-configured.web.test"], &[], &[]);
    assert!(seen.answers[0].0.contains("called -o LogLevel=QUIET"), "{}", seen.all);
}

#[test]
fn the_callers_own_ssh_commands_are_left_alone() {
    if world().is_none() {
        return;
    }
    let show = "echo \"${GIT_SSH_COMMAND-none} ${GIT_SSH-none} ${RSYNC_RSH-none}\"";
    let shown = |variables: &[(&str, &str)], flags: &[&str]| {
        let seen = ask(Way::Variables, show, &["left-alone.web.test"], variables, flags);
        seen.answers[0].0.trim().to_owned()
    };
    assert!(shown(&[], &[]).starts_with("sh -c "));
    assert!(shown(&[], &[]).ends_with(" none ssh -o ControlMaster=no -o ControlPath=none"));
    let own = [("GIT_SSH_COMMAND", "ssh -4"), ("RSYNC_RSH", "ssh -6")];
    assert_eq!(shown(&own, &[]), "ssh -4 none ssh -6");
    // git prefers the former to the latter, whoever has set it.
    assert!(shown(&[("GIT_SSH", "/usr/bin/ssh")], &[]).starts_with("none /usr/bin/ssh "));
    assert!(shown(&[], &["--env", "GIT_SSH_COMMAND=ssh -v"]).starts_with("ssh -v none "));
    assert!(shown(&[], &["--unset-env", "GIT_SSH_COMMAND"]).starts_with("none none "));
}
