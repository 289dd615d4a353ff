use std::process::{Command as Process, Stdio};

use kennel_policy::policy::{NetworkMode, ReadModel, TmpMode};
use kennel_policy::settings::keys;

use super::table::{COMMANDS, FLAGS, SECTIONS, Scope};
use super::*;

mod documents;
mod platforms;
mod reference;

fn base() -> Base {
    Base::new("/work", Some("/home/me".into()))
}

fn typed(line: &str) -> Result<Invocation, UsageError> {
    parse(line.split_whitespace().map(OsString::from))
}

fn run(line: &str) -> RunArgs {
    match typed(line) {
        Ok(Invocation::Run(args)) => args,
        other => panic!("{line}: {other:?}"),
    }
}

fn settings(line: &str) -> Settings {
    run(line).settings(&base()).unwrap_or_else(|error| panic!("{error}"))
}

fn error(line: &str) -> String {
    let error = match typed(line) {
        Ok(Invocation::Run(args) | Invocation::Plan { args, .. }) => args.settings(&base()).unwrap_err(),
        Ok(other) => panic!("{line}: {other:?}"),
        Err(error) => error,
    };
    error.to_string()
}

#[test]
fn the_first_word_that_is_no_flag_ends_kennels_own_flags() {
    let args = run("run --net none ls --net host -- x");
    assert_eq!(args.command, ["ls", "--net", "host", "--", "x"]);
    assert_eq!(run("run -- --odd x").command, ["--odd", "x"]);
    assert_eq!(run("run -q - x").command, ["-", "x"]);
}

#[test]
fn a_value_is_attached_or_follows() {
    for line in ["run --memory 512M x", "run --memory=512M x"] {
        assert_eq!(settings(line).limits.memory.unwrap().value, Some(512 << 20), "{line}");
    }
    assert_eq!(settings("run --env=A=b=c x").environment.set[0].value, ("A".into(), "b=c".into()));
    for line in ["run -C sub x", "run -Csub x", "run -qvCsub x", "run --workdir sub x"] {
        assert_eq!(settings(line).process.workdir.unwrap().value, PathBuf::from("/work/sub"), "{line}");
    }
    assert!(run("run -qv x").quiet && run("run -qv x").verbose);
}

#[test]
fn every_flag_has_its_effect() {
    let args = run(
        "run --allow-write a --allow-write ~/b --deny-read=/c --allow-read d --deny-write /e --git hooks-read-only --on-replace end --protect-dotfiles --refuse-home --precedence deny-write --reads listed \
                    --mount /s:/t:rw --tmpfs /u:1M --rootfs r --rootfs-write none --host-tmp --home private --caches --host-run --device /dev/kvm --gpu 0 --no-system --net allow-list \
                    --allow-domain x.com --allow-registry npm,pypi --deny-domain * --ask --ask-timeout 5s --allow-sni-mismatch --allow-ech --publish 80:81 \
                    --parent-proxy p:1 --no-proxy q --http-proxy-port 1 --socks-proxy-port 2 --unix-sockets listed --allow-unix-socket /run/x --egress 5M --egress a.com=1M --ingress 6M --egress-rate 7/s --ingress-rate 8 --terminate * --no-terminate y.com --extra-ca c.pem --system-bundles \
                    --secret A=file:~/a@a.com --gateway anthropic,openai --gateway-budget requests=5,cost=1 --gateway-price m=1/2 --gateway-log g.log \
                    --gateway-log-contents --memory 1 --swap 0 --cpus 1.5 \
                    --timeout 1m --cpu-time 2 --pids 3 --open-files 4 --file-size 5 --max-output 6 --tmp-size 7 \
                    --env K=V --pass-env N --unset-env U --clear-env --env-secrets withhold --secret-name X_* --workdir w --user root --users root,builder:500 --run-as builder --hostname h \
                    --seccomp strict --nested --keep-fd 5 --profile judge --only files.tmpfs -s one --settings two --no-settings --best-effort \
                    --report r.json --control-fd 8 --stats=live --quiet --verbose -- cmd",
    );
    let settings = args.settings(&base()).unwrap();
    for (name, key) in keys::all() {
        let (mut said, mut over) = (Settings::default(), settings.clone());
        key.kind.store(|store| store.overlay(&mut said, &mut over));
        assert!(said != Settings::default(), "no flag says {name}");
    }
    assert_eq!(settings.gateway.providers.len(), 2);
    let limits: Vec<String> =
        settings.network.budget.iter().map(|own| format!("{} {own}", own.origin)).collect();
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let expected =
        ["--egress 5M", "--egress a.com=1M", "--ingress 6M", "--egress-rate 7/s", "--ingress-rate 8/s"];
    assert_eq!(limits, expected);
    assert_eq!(settings.files.allow_write[1].pattern.to_string(), "/home/me/b");
    let secret = &settings.secrets[0];
    assert_eq!(secret.from.as_ref().map(ToString::to_string).as_deref(), Some("file:/home/me/a"));
    assert_eq!((secret.origin.to_string().as_str(), secret.hosts.len()), ("--secret", 1));
    assert_eq!(settings.files.allow_write[1].origin.to_string(), "--allow-write");
    let on = |name: &str| match &keys::find(name).unwrap().kind {
        keys::Kind::Switch(switch) => switch.stated(&settings).unwrap().value,
        _ => panic!("{name} is no switch"),
    };
    assert!(!on("files.system") && on("files.host_run") && on("best_effort"));
    assert_eq!(settings.files.reads.unwrap().value, ReadModel::Listed);
    assert_eq!(settings.files.tmp.unwrap().value, TmpMode::Host);
    assert!(settings.environment.clear.as_ref().unwrap().value);
    assert_eq!(settings.network.mode.unwrap().value, NetworkMode::AllowList);
    assert_eq!(settings.process.keep_fds, [5]);
    assert_eq!(args.settings_files, [PathBuf::from("one"), PathBuf::from("two")]);
    assert_eq!(args.report, Some(PathBuf::from("r.json")));
    assert_eq!(args.control_fd, Some("8".into()));
    assert_eq!(args.stats, Some(Stats::Live));
    assert!(args.no_settings && args.quiet && args.verbose);
    assert_eq!(args.command, ["cmd"]);
}

#[test]
fn a_value_said_again_replaces_the_first() {
    assert_eq!(settings("run --memory 1 --memory 2 x").limits.memory.unwrap().value, Some(2));
}

#[test]
#[cfg(unix)]
fn paths_and_arguments_need_not_be_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let words = [&b"run"[..], b"--allow-write=/\xff", b"--env", b"A=\xfe", b"--", b"\xfd"];
    let words = words.map(|word| OsString::from_vec(word.to_vec()));
    let Ok(Invocation::Run(args)) = parse(words) else { panic!("a run") };
    let settings = args.settings(&base()).unwrap();
    assert_eq!(settings.files.allow_write[0].pattern.as_path().as_os_str().as_bytes(), b"/\xff");
    assert_eq!(settings.environment.set[0].value.1.as_bytes(), b"\xfe");
    assert_eq!(args.command, [OsStr::from_bytes(b"\xfd")]);
    for word in [&b"--\xff"[..], b"--\xff=\xfe"] {
        let bad = parse([&b"run"[..], word].map(|word| OsString::from_vec(word.to_vec())));
        assert!(bad.unwrap_err().to_string().starts_with("kennel run: unknown flag --\\xff\n"));
    }
}

#[test]
fn the_other_commands_are_known() {
    assert!(matches!(typed("plan --json -- x"), Ok(Invocation::Plan { json: true, .. })));
    assert!(matches!(typed("doctor"), Ok(Invocation::Doctor { json: false })));
    assert!(matches!(typed("doctor --json"), Ok(Invocation::Doctor { json: true })));
    assert!(matches!(typed("schema"), Ok(Invocation::Schema)));
    assert!(matches!(typed("completions fish"), Ok(Invocation::Completions(Shell::Fish))));
    assert!(matches!(typed("man"), Ok(Invocation::Man)));
    assert!(matches!(typed("version"), Ok(Invocation::Version)));
    assert!(matches!(typed("--version"), Ok(Invocation::Version)));
    assert!(matches!(typed(""), Ok(Invocation::Help(None))));
    assert!(matches!(typed("help"), Ok(Invocation::Help(None))));
    for line in ["help run", "run --help", "run -qh", "run --net none -h -- x"] {
        assert!(
            matches!(typed(line), Ok(Invocation::Help(Some(command))) if command.name == "run"),
            "{line}"
        );
    }
    assert!(matches!(typed("completions bash --help"), Ok(Invocation::Help(Some(_)))));
    // Behind the command it is the command's own flag.
    assert!(matches!(typed("run ls --help"), Ok(Invocation::Run(_))));
}

#[test]
fn mistakes_are_answered() {
    let lines = [
        "run --alow-write x y",
        "run --colour x",
        "run -z x",
        "run -q",
        "run",
        "plan",
        "run --memory",
        "run --allow-write -- ls",
        "run --clear-env=yes x",
        "run --memory lots x",
        "plan --memory lots x",
        "run --net hots x",
        "run --mount /a x",
        "run --env A x",
        "run --allow-domain https://x.com x",
        "run --secret T=ghp_0123456789abcdefghijABCDEFGHIJ012345 x",
        "run --secret T=evn:T x",
        "run --secret T@tcp://x.com:1 x",
        "run --gateway-budget token=1 x",
        "run --gateway-price claude x",
        "run --keep-fd 1 x",
        "run --json x",
        "rum x",
        "ls -l",
        "--memory=1 x",
        "--colour",
        "help rnu",
        "doctor now",
        "schema --json",
        "completions",
        "completions powershell",
        "completions bash zsh",
    ];
    let answers: Vec<String> =
        lines.iter().map(|line| format!("$ kennel {line}\n{}\n", error(line))).collect();
    insta::assert_snapshot!("errors", answers.join("\n"));
}

#[test]
fn a_mistake_of_run_has_a_status_that_no_command_has() {
    assert_eq!(typed("run --colour").unwrap_err().exit_code(), 125);
    assert_eq!(run("run --memory x y").settings(&base()).unwrap_err().exit_code(), 125);
    assert_eq!(typed("doctor now").unwrap_err().exit_code(), 2);
}

#[test]
fn an_error_stays_on_its_line() {
    let bad = parse(["run", "--a\nb\u{1b}[31m"].map(OsString::from)).unwrap_err().to_string();
    assert_eq!(bad.lines().count(), 2);
    assert!(!bad.contains('\u{1b}'));
}

#[test]
fn the_table_is_sound() {
    for flag in FLAGS {
        assert!(SECTIONS.contains(&flag.section), "{}", flag.name);
        assert!(!flag.help.is_empty() && !flag.help.ends_with('.'), "{}", flag.name);
        assert!(flag.doc.is_empty() || flag.doc.ends_with('.'), "{}", flag.name);
        let takes_value = matches!(
            flag.effect,
            Effect::Says(_)
                | Effect::SaysPart(..)
                | Effect::KeepFd
                | Effect::SettingsFile
                | Effect::Report
                | Effect::ControlFd
        );
        assert_eq!(flag.value.is_some(), takes_value, "{}", flag.name);
        let same =
            |other: &&Flag| other.name == flag.name || (flag.short.is_some() && other.short == flag.short);
        assert_eq!(FLAGS.iter().filter(same).count(), 1, "{}", flag.name);
        // A list grows with each flag, and nothing else does.
        if let Effect::Says(setting) | Effect::SaysPart(setting, _) = flag.effect {
            use keys::Kind::{
                Files, Gpus, Hosts, HostsAndRequests, Lists, Mounts, Names, Paths, Ports, Prices, Profiles,
                Providers, Registries, Secrets, Tmpfs, Traffic, Variables,
            };
            let kind = &setting.key.kind;
            let grows = matches!(
                kind,
                Paths(..)
                    | Hosts(..)
                    | HostsAndRequests(..)
                    | Registries(_)
                    | Gpus(_)
                    | Files(_)
                    | Secrets(_)
                    | Providers(_)
                    | Prices(_)
                    | Profiles(_)
                    | Lists(_)
                    | Mounts(_)
                    | Tmpfs(_)
                    | Names(_)
                    | Variables(_)
                    | Traffic(_)
                    | Ports(_)
            );
            assert_eq!(flag.repeatable, grows, "{}", flag.name);
        }
    }
}

#[test]
fn a_rule_about_requests_is_one_argument() {
    let words = ["run", "--allow-domain", "GET docs.rs/*", "--allow-domain=x.com", "y"].map(OsString::from);
    let Ok(Invocation::Run(args)) = parse(words) else { panic!("a run") };
    let network = args.settings(&base()).unwrap().network;
    assert_eq!((network.http.len(), network.allow.len()), (1, 1));
    assert_eq!(network.http[0].host.origin.to_string(), "--allow-domain");
}

#[test]
fn words_that_a_flag_shows_are_those_it_takes() {
    for flag in FLAGS {
        let (Some(value), table::Offer::Words(mut words)) = (flag.value, flag.offer()) else { continue };
        // A command of its own lists them, or the page of all settings.
        if ["allow-registry", "only"].contains(&flag.name) {
            continue;
        }
        words.sort_unstable();
        let text = if value.contains('|') { value } else { flag.help };
        let mut shown: Vec<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .filter(|word| words.contains(word))
            .collect();
        shown.sort_unstable();
        shown.dedup();
        assert_eq!(shown, words, "{}", flag.name);
    }
}

#[test]
fn help_fits_a_hundred_columns() {
    let pages = COMMANDS.iter().map(|command| help::render(Some(command))).chain([help::render(None)]);
    for page in pages {
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn help_is_as_agreed() {
    insta::assert_snapshot!("help", help::render(None));
    for name in ["run", "plan"] {
        let command = COMMANDS.iter().find(|command| command.name == name).unwrap();
        insta::assert_snapshot!(format!("help-all-{name}"), help::all(command));
    }
    for command in COMMANDS {
        insta::assert_snapshot!(format!("help-{}", command.name), help::render(Some(command)));
    }
}

#[test]
fn the_manual_is_as_agreed() {
    insta::assert_snapshot!("man", man::page().replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[test]
fn completions_are_as_agreed() {
    insta::assert_snapshot!("completions-bash", completions::script(Shell::Bash));
    insta::assert_snapshot!("completions-zsh", completions::script(Shell::Zsh));
    insta::assert_snapshot!("completions-fish", completions::script(Shell::Fish));
}

#[test]
fn the_manual_and_the_completions_name_every_flag() {
    let pages = [
        man::page().replace("\\-", "-"),
        completions::script(Shell::Bash),
        completions::script(Shell::Zsh),
        completions::script(Shell::Fish).replace("-l ", "--"),
    ];
    for flag in FLAGS.iter().filter(|flag| flag.scope != Scope::Top) {
        for (place, page) in pages.iter().enumerate() {
            assert!(page.contains(&format!("--{}", flag.name)), "{} is not on page {place}", flag.name);
        }
    }
}

/// Runs a script with a shell; `None`, with a word about it, where the shell is not installed.
fn shell(program: &str, arguments: &[&str], script: &str) -> Option<String> {
    use std::io::Write;
    let process = Process::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut process) = process else {
        println!("SKIPPED: {program} is not installed");
        return None;
    };
    process.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{program}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let complete = |line: &str| -> Option<Vec<String>> {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "{}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_kennel\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            completions::script(Shell::Bash),
            words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
        );
        let output = shell("bash", &["--norc", "-s"], &script)?;
        Some(output.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    };
    let Some(commands) = complete("kennel ") else { return };
    assert!(commands.contains(&"run".to_owned()));
    assert_eq!(complete("kennel do").unwrap(), ["doctor"]);
    assert_eq!(complete("kennel run --allow-w").unwrap(), ["--allow-write"]);
    assert_eq!(complete("kennel run --net ").unwrap(), ["none", "allow-list", "public", "host"]);
    assert_eq!(complete("kennel run --net none --set").unwrap(), ["--settings"]);
    assert_eq!(complete("kennel run --profile ag").unwrap(), ["agent"]);
    assert_eq!(complete("kennel completions f").unwrap(), ["fish"]);
    assert_eq!(complete("kennel doctor --j").unwrap(), ["--json"]);
    // Another command's words are not kennel's.
    assert!(!complete("kennel run -- ls --allow-w").unwrap().contains(&"--allow-write".to_owned()));
    assert!(!complete("kennel run ls --allow-w").unwrap().contains(&"--allow-write".to_owned()));
    assert!(complete("kennel run --net none -- tru").unwrap().contains(&"true".to_owned()));
}

#[test]
fn fish_completes_commands_flags_and_values() {
    let complete = |line: &str| -> Option<Vec<String>> {
        let script = format!("{}\ncomplete -C '{line}'\n", completions::script(Shell::Fish));
        let output = shell("fish", &["--no-config"], &script)?;
        Some(output.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
    };
    let Some(commands) = complete("kennel ") else { return };
    assert!(commands.contains(&"run".to_owned()));
    assert_eq!(complete("kennel run --allow-w").unwrap(), ["--allow-write"]);
    assert_eq!(complete("kennel run --user ").unwrap(), ["root", "self"]);
    assert_eq!(complete("kennel completions f").unwrap(), ["fish"]);
    assert!(!complete("kennel run -- ls --allow-w").unwrap().contains(&"--allow-write".to_owned()));
    assert!(complete("kennel run --net none -- tru").unwrap().contains(&"true".to_owned()));
}

#[test]
fn zsh_reads_its_completions() {
    shell("zsh", &["-n"], &completions::script(Shell::Zsh));
}

#[test]
fn the_manual_renders_without_complaint() {
    let Some(page) = shell("groff", &["-man", "-Tutf8", "-P-cbou", "-ww", "-Kutf8"], &man::page()) else {
        return;
    };
    assert!(page.contains("EXIT STATUS"));
}

#[test]
fn parsing_takes_microseconds() {
    let words: Vec<OsString> =
        "run --allow-write . --deny-read /srv --net none --memory 512M --timeout 30s -- ls -l"
            .split(' ')
            .map(OsString::from)
            .collect();
    let rounds = 2000;
    let start = std::time::Instant::now();
    for _ in 0..rounds {
        let Ok(Invocation::Run(args)) = parse(words.clone()) else { panic!("a run") };
        std::hint::black_box(args.settings(&base()).unwrap());
    }
    let each = start.elapsed() / rounds;
    // Some 3 µs here; the bound only catches a change of kind.
    assert!(each < std::time::Duration::from_micros(200), "{each:?}");
    println!("{each:?} for one command line");
}
