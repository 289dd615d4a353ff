//! `SandboxError`: each variant that Linux can give, by what a caller would do about it.

use std::time::Duration;

use kennel::{MountPoint, Sandbox, SandboxBuilder, SandboxError};
use kennel_tests::Scratch;

#[track_caller]
fn refused(builder: SandboxBuilder, words: &[&str]) {
    match builder.build() {
        Err(SandboxError::ConfigValidation(text)) => {
            assert!(words.iter().all(|word| text.contains(word)), "{text:?} does not say {words:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_makes_no_sense_is_refused_when_it_is_built() {
    refused(Sandbox::builder().memory_limit(0), &["memory_limit"]);
    refused(Sandbox::builder().max_pids(0), &["max_pids"]);
    refused(Sandbox::builder().max_open_files(0), &["max_open_files"]);
    for cpus in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        refused(Sandbox::builder().cpu_limit(cpus), &["cpu_limit"]);
    }
    refused(Sandbox::builder().env("A=B", "c"), &["A=B"]);
    refused(Sandbox::builder().env("", "c"), &["env"]);
    refused(Sandbox::builder().env("A", "c\0d"), &["A"]);
    refused(Sandbox::builder().mount(MountPoint::read_only("/usr", "relative")), &["relative", "absolute"]);
    refused(Sandbox::builder().mount(MountPoint::read_only("/usr", "/a/../b")), &["/a/../b"]);
    refused(Sandbox::builder().allow_domain("*"), &["*"]);
    refused(Sandbox::builder().allow_domain("http://example.com/"), &["http://example.com/"]);
    refused(Sandbox::builder().deny_read("/a/[b"), &["deny_read", "/a/[b"]);
}

#[test]
#[kennel_claim::claim("itself/values-do-not-show")]
fn a_value_of_a_variable_never_shows_in_an_error() {
    let error = Sandbox::builder().env("TOKEN", "hunter2\0").build().expect_err("a NUL byte");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[test]
fn a_place_to_write_that_does_not_exist_is_named() {
    let scratch = Scratch::new();
    let sandbox = Sandbox::builder().allow_write(scratch.join("missing")).build().expect("it may come later");
    match sandbox.run("true", &[]) {
        Err(SandboxError::ConfigValidation(text)) => assert!(text.contains("missing"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_working_directory_that_does_not_exist_is_named() {
    let sandbox = Sandbox::builder().working_dir("/nonexistent/folder").build().expect("it may come later");
    let error = sandbox.run("true", &[]).expect_err("there is no such folder");
    assert!(error.to_string().contains("/nonexistent/folder"), "{error}");
}

#[test]
fn a_command_that_does_not_exist() {
    let sandbox = Sandbox::builder().env("PATH", "/usr/bin:/bin").build().expect("plain");
    for name in ["no-such-command", "/no/such/command", "./no-such-command"] {
        match sandbox.run(name, &[]) {
            Err(SandboxError::CommandNotFound(command)) => assert_eq!(command, name),
            other => panic!("{other:?}"),
        }
        assert!(matches!(sandbox.spawn(name, &[]), Err(SandboxError::CommandNotFound(_))));
    }
}

#[test]
fn a_folder_of_path_that_cannot_be_searched_holds_no_command() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let closed = scratch.dir("closed");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).expect("an own folder");
    let path = format!("{}:/usr/bin:/bin", closed.display());
    let sandbox = Sandbox::builder().env("PATH", &path).build().expect("plain");
    let missing = sandbox.run("no-such-command", &[]);
    // As bash has it: 127, and not 126 for a file that nobody can know to be there.
    let bash = std::process::Command::new("bash").args(["-c", "no-such-command"]).env("PATH", &path).output();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).expect("an own folder");
    if let Ok(bash) = bash {
        assert_eq!(bash.status.code(), Some(127));
    }
    assert!(matches!(missing, Err(SandboxError::CommandNotFound(_))), "{missing:?}");
}

#[test]
fn a_command_without_a_name() {
    let sandbox = Sandbox::builder().build().expect("plain");
    assert!(sandbox.run("", &[]).is_err());
}

#[test]
fn a_command_that_cannot_be_executed() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "no program\n").display().to_string();
    let folder = scratch.dir("folder").display().to_string();
    let sandbox = Sandbox::builder().build().expect("plain");
    for path in [file, folder] {
        match sandbox.run(&path, &[]) {
            Err(SandboxError::PermissionDenied(text)) => assert!(text.contains(&path), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_nul_byte_in_an_argument_is_an_error_and_no_panic() {
    let sandbox = Sandbox::builder().build().expect("plain");
    for (command, argument) in [("echo", "a\0b"), ("ec\0ho", "a")] {
        match sandbox.run(command, &[argument]) {
            Err(SandboxError::ConfigValidation(text)) => assert!(text.contains("NUL"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn arguments_that_the_kernel_does_not_take_are_an_error() {
    let sandbox = Sandbox::builder().build().expect("plain");
    let long = "x".repeat(3 << 20);
    let error = sandbox.run("echo", &[&long]).expect_err("one argument holds at most 128 KiB");
    assert!(error.to_string().contains("rgument list too long"), "{error}");
}

#[test]
fn a_wait_that_ends_first_is_a_timeout() {
    let mut child = Sandbox::builder().build().expect("plain").spawn("sleep", &["60"]).expect("starts");
    let error = child.wait_timeout(Duration::from_millis(50)).expect_err("it still runs");
    assert!(matches!(error, SandboxError::Timeout));
    assert_eq!(error.to_string(), "timed out waiting for the sandbox to end");
}

#[test]
fn running_out_of_descriptors_is_an_error_and_no_panic() {
    let me =
        kennel_tests::role::play("ephemeral-caller").arg("no-descriptors").output().expect("this executable");
    assert!(me.status.success(), "{}", String::from_utf8_lossy(&me.stderr));
}
