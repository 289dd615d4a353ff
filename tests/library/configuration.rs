//! The builder: each thing it says, seen from inside.

use std::collections::HashSet;
use std::ffi::OsString;
use std::net::TcpListener;
use std::time::Duration;

use kennel::{
    ExecutionResult, NetworkMode, PlatformExecutor, Sandbox, SandboxBuilder, SandboxConfig, SandboxError,
    SeccompProfile,
};
use kennel_tests::{Scratch, role};

/// Compiles only if these can be shared between threads.
const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    const fn sent<T: Send + 'static>() {}
    shared::<Sandbox>();
    shared::<SandboxBuilder>();
    shared::<SandboxConfig>();
    shared::<ExecutionResult>();
    shared::<SandboxError>();
    shared::<Box<dyn PlatformExecutor>>();
    sent::<kennel::Child>();
};

/// The role, inside: tries calls that profiles tell apart, and prints the errno of each, 0 for success.
pub fn probe(arguments: &[OsString]) -> i32 {
    let errno = |result: i64| {
        if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 }
    };
    match arguments[0].to_str() {
        // SAFETY: plain calls without pointers.
        Some("calls") => unsafe {
            let unshare = errno(libc::unshare(libc::CLONE_NEWUSER).into());
            let keyctl = errno(libc::syscall(libc::SYS_keyctl, 0, -3, 0));
            let inet = errno(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into());
            println!("unshare {unshare} keyctl {keyctl} inet {inet}");
        },
        Some("connect") => {
            let port = arguments[1].to_string_lossy().parse().expect("a port");
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
            match std::net::TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                Ok(_) => println!("connected"),
                Err(error) => println!("refused: {error}"),
            }
        }
        _ => return 98,
    }
    0
}

fn run_probe(builder: SandboxBuilder, arguments: &[&str]) -> String {
    let me = std::env::current_exe().expect("a test knows its own path").display().to_string();
    let sandbox = builder.env(role::VARIABLE, "probe").build().expect("a plain configuration");
    let result = sandbox.run(&me, arguments).expect("it runs");
    assert!(result.success(), "{result:?}");
    result.stdout
}

#[test]
fn every_sandbox_has_an_id_of_its_own() {
    let ids: Vec<u64> = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..50).map(|_| Sandbox::builder().build().expect("plain").id()).collect::<Vec<_>>()
                })
            })
            .collect();
        makers.into_iter().flat_map(|maker| maker.join().expect("it ends")).collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 400);
}

#[test]
#[kennel_claim::claim("itself/values-do-not-show")]
fn debug_output_of_a_sandbox_shows_no_variables() {
    let sandbox = Sandbox::builder().env("TOKEN", "hunter2").build().expect("plain");
    assert!(!format!("{sandbox:?}").contains("hunter2"));
    assert_eq!(sandbox.config().env_vars["TOKEN"], "hunter2");
}

#[test]
fn a_configuration_can_be_made_without_the_builder() {
    let config = SandboxConfig { env_vars: [("A".into(), "b".into())].into(), ..SandboxConfig::default() };
    let sandbox = Sandbox::with_config(config).expect("plain");
    assert_eq!(sandbox.run("sh", &["-c", "echo $A"]).expect("it runs").stdout, "b\n");
}

#[test]
fn variables_are_set_over_the_caller_s() {
    let sandbox =
        Sandbox::builder().env("PATH", "/usr/bin:/bin").env("ODD", "a b\n'\"$").build().expect("plain");
    let result = sandbox.run("sh", &["-c", "printf '%s|%s' \"$PATH\" \"$ODD\""]).expect("it runs");
    assert_eq!(result.stdout, "/usr/bin:/bin|a b\n'\"$");
}

#[test]
fn a_cleared_environment_keeps_only_the_basic_variables() {
    // The harness's own: cargo or the shell sets it for every test.
    let kept = Sandbox::builder().build().expect("plain").run("env", &[]).expect("it runs").stdout;
    let clear = Sandbox::builder().clear_env(true).env("ONLY", "this").build().expect("plain");
    let cleared = clear.run("env", &[]).expect("it runs").stdout;
    let names = |text: &str| {
        text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect::<Vec<_>>()
    };
    assert!(cleared.contains("ONLY=this\n"));
    if let Some((name, _)) =
        std::env::vars().find(|(name, _)| name.starts_with("CARGO") || name.starts_with("KENNEL"))
    {
        assert!(names(&kept).contains(&name), "{kept}");
        assert!(!names(&cleared).contains(&name), "{cleared}");
    }
    assert!(
        names(&cleared).iter().all(|name| !name.starts_with("CARGO") && !name.starts_with("KENNEL")),
        "{cleared}"
    );
    assert!(names(&cleared).contains(&"PATH".to_owned()), "{cleared}");
}

#[test]
fn the_working_directory_is_the_caller_s_or_the_one_that_was_asked_for() {
    let own = std::env::current_dir().expect("a working directory");
    let result = Sandbox::builder().build().expect("plain").run("pwd", &["-P"]).expect("it runs");
    assert_eq!(result.stdout.trim_end(), own.display().to_string());
    let sandbox = Sandbox::builder().working_dir("/usr/share").build().expect("plain");
    assert_eq!(sandbox.run("pwd", &["-P"]).expect("it runs").stdout, "/usr/share\n");
}

#[test]
fn who_the_command_is() {
    let (uid, root) = (rustix::process::geteuid().as_raw().to_string(), "0".to_owned());
    for (inside, expected) in [(false, uid), (true, root)] {
        let sandbox = Sandbox::builder().root_inside(inside).build().expect("plain");
        assert_eq!(sandbox.run("id", &["-u"]).expect("it runs").stdout.trim(), expected);
    }
}

#[test]
fn without_a_network_nothing_outside_answers_and_with_the_host_s_it_does() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback");
    let port = listener.local_addr().expect("bound").port().to_string();
    let host = run_probe(Sandbox::builder().network_mode(NetworkMode::Host), &["connect", &port]);
    assert_eq!(host, "connected\n");
    let none = run_probe(Sandbox::builder(), &["connect", &port]);
    assert!(none.starts_with("refused"), "{none}");
    let none = run_probe(Sandbox::builder().network_mode(NetworkMode::None), &["connect", &port]);
    assert!(none.starts_with("refused"), "{none}");
}

#[test]
fn the_seccomp_profiles_take_away_more_and_more() {
    let calls = |profile| run_probe(Sandbox::builder().seccomp_profile(profile), &["calls"]);
    let none = calls(SeccompProfile::None);
    assert!(none.contains("inet 0"), "{none}");
    let permissive = calls(SeccompProfile::Permissive);
    assert!(permissive.contains("inet 0"), "{permissive}");
    let default = calls(SeccompProfile::Default);
    assert_eq!(default, format!("unshare {} keyctl {} inet 0\n", libc::EPERM, libc::EPERM));
    let strict = calls(SeccompProfile::Strict);
    assert_eq!(
        strict,
        format!("unshare {} keyctl {} inet {}\n", libc::EPERM, libc::EPERM, libc::EAFNOSUPPORT)
    );
    // Without a filter at least one of them gets past what refuses it above.
    assert_ne!(none, default);
}

#[test]
fn the_number_of_open_files_is_limited() {
    let sandbox = Sandbox::builder().max_open_files(32).build().expect("plain");
    assert_eq!(sandbox.run("sh", &["-c", "ulimit -n; ulimit -Hn"]).expect("it runs").stdout, "32\n32\n");
}

#[test]
fn commands_are_found_as_a_shell_finds_them() {
    let scratch = Scratch::new();
    let tool = scratch.write("bin/my-tool", "#!/bin/sh\necho mine\n");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("own file");
    let path = format!("{}:/usr/bin:/bin", scratch.join("bin").display());
    let sandbox = Sandbox::builder().env("PATH", path).working_dir(scratch.path()).build().expect("plain");
    assert_eq!(sandbox.run("my-tool", &[]).expect("it runs").stdout, "mine\n");
    assert_eq!(sandbox.run("bin/my-tool", &[]).expect("it runs").stdout, "mine\n");
    assert_eq!(sandbox.run(&tool.display().to_string(), &[]).expect("it runs").stdout, "mine\n");
}

#[test]
fn arguments_arrive_as_they_were_given() {
    let words = ["", " ", "a b", "*", "$HOME", "'", "\"", "\\", "--", "ü", "line\nbreak"];
    let mut arguments = vec!["%s|"];
    arguments.extend(words);
    let result = Sandbox::builder().build().expect("plain").run("printf", &arguments).expect("it runs");
    assert_eq!(result.stdout, words.map(|word| format!("{word}|")).concat());
}
