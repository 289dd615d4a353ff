//! Real keys are found outside, by the same search that finds none inside.

use kennel_tests::{Ran, Scratch, ran_within, skipped};
use serde_json::{Value, json};

use crate::secrets::clients::{self, ANTHROPIC, OPENAI_NODE, Sdk};
use crate::secrets::{LONG, Setup, Told, Upstream, plain, upstream};

/// The last line of what was printed: what the search says.
#[track_caller]
fn searched(ran: &Ran) -> Value {
    let said = clients::lines(ran);
    let last = said.last().cloned().unwrap_or_default();
    assert!(last["found"].is_array(), "the search says what it found: {ran:#?}");
    last
}

/// Searches outside, after a round of an SDK with the real key, which another program keeps in a file too.
fn outside(upstream: &Upstream, sdk: &Sdk) -> Value {
    let home = Scratch::new();
    let key = upstream.key(sdk.provider);
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    home.write("kept/deep/file", &format!("key = {hex}\n"));
    let below = home.path().display().to_string();
    let words = sdk.words(&home, &[format!("whole:{}", sdk.model("found-outside", ""))]);
    let mut command = std::process::Command::new(&words[0]);
    plain(&mut command, &home);
    command.args(&words[1..]).env(sdk.key, key).env("AFTER", upstream.search_command(&home, &[&below]));
    command.env("SSL_CERT_FILE", upstream.authority()).env("NODE_EXTRA_CA_CERTS", upstream.authority());
    searched(&ran_within(LONG, &mut command).ok())
}

/// Where the search found a provider's key, by kind.
fn places(found: &Value, provider: &str) -> Vec<String> {
    let mut all: Vec<String> = found["found"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|one| one[0] == provider)
        .map(|one| {
            let place = one[2].as_str().unwrap_or_default();
            let kind = if place.starts_with("/proc/") {
                place.rsplit('/').next().unwrap_or_default()
            } else {
                "file"
            };
            format!("{kind}, {}", one[1].as_str().unwrap_or_default())
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn the_search_finds_keys_outside() {
    let Some(upstream) = upstream() else { return };
    for sdk in [&ANTHROPIC, &OPENAI_NODE] {
        if !sdk.is_installed() {
            return;
        }
        let found = outside(upstream, sdk);
        let places = places(&found, sdk.provider);
        for expected in ["environ, raw", "mem, raw", "file, hex"] {
            assert!(places.iter().any(|place| place == expected), "{}: {places:?}\n{found:#}", sdk.name);
        }
    }
}

/// A sandbox in which all that can be seen can be searched: of the host only the system and the clients.
fn narrow(setup: Setup) -> Setup {
    let home = setup.home.path().display().to_string();
    let clients = clients::folder().unwrap_or_default();
    setup.set("files.reads", json!("listed")).set("files.allow_read", json!([home, clients]))
}

/// A round and the search inside; then what the sandbox left behind.
fn search_inside(upstream: &Upstream, sdk: &Sdk, setup: Setup, word: &str) -> Told {
    let setup = narrow(setup);
    let model = sdk.model(word, "");
    let after = upstream.search_command(&setup.home, &["/"]);
    let actions =
        [format!("whole:{model}"), format!("stream:{model}"), format!("whole:{}", sdk.model(word, "echo"))];
    let words = sdk.words(&setup.home, &actions);
    // A core of a process that has talked to the upstream, where the host writes it into the working directory.
    let script = r#"ulimit -c unlimited 2>/dev/null; cd /tmp
        sleep 1000 & kill -ABRT $!; wait $! 2>/dev/null
        exec "$@""#;
    let mut command = setup.command();
    command
        .arg("-v")
        .args(["--env", &format!("AFTER={after}")])
        .args(["--", "sh", "-c", script, "sh"])
        .args(&words);
    let told = setup.finish(&mut command).ok();
    let said = told.lines();
    assert_eq!(said[0]["text"], clients::TEXT, "{said:#?}");
    assert_eq!(said[1]["text"], clients::TEXT, "{said:#?}");
    assert!(said[2]["text"].as_str().is_some_and(|text| text.starts_with("You sent ")), "{said:#?}");
    assert!(upstream.requests(&model).iter().all(|request| request["real"] == sdk.provider));
    let found = searched(&told.ran);
    println!(
        "{word} {}: {} files, {} processes, {} bytes of memory; closed: {}",
        sdk.name, found["files"], found["processes"], found["memory"], found["closed"]
    );
    assert_eq!(found["found"], json!([]), "{found:#}");
    // It has looked: at itself, its parent, PID 1 and more, and at the parent's memory.
    assert!(found["processes"].as_u64() >= Some(3), "{found:#}");
    assert!(found["memory"].as_u64() >= Some(1 << 20), "{found:#}");
    upstream.assert_clean("the report", &told.text);
    upstream.assert_clean("the output", &told.ran.stdout);
    upstream.assert_clean("the messages", &told.ran.stderr);
    told
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn no_key_is_found_inside_where_stand_ins_are_swapped() {
    let Some(upstream) = upstream() else { return };
    for sdk in [&ANTHROPIC, &OPENAI_NODE] {
        if !sdk.is_installed() {
            return;
        }
        let setup =
            Setup::new(upstream, &[sdk.host]).secret(sdk.key, upstream.key(sdk.provider), &[sdk.host]);
        search_inside(upstream, sdk, setup, "found-swap");
    }
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn no_key_is_found_inside_where_a_gateway_is_used() {
    let Some(upstream) = upstream() else { return };
    for sdk in [&ANTHROPIC, &OPENAI_NODE] {
        if !sdk.is_installed() {
            return;
        }
        let log = Scratch::new();
        let setup = Setup::new(upstream, &[])
            .gateway(upstream, sdk)
            .set("gateway.log", json!(log.join("gateway.log")));
        search_inside(upstream, sdk, setup, "searched");
        let text = std::fs::read_to_string(log.join("gateway.log")).expect("the gateway writes its log");
        assert!(!text.is_empty(), "the log has the requests");
        upstream.assert_clean("the gateway's log", &text);
    }
}

#[test]
#[kennel_claim::claim("secrets/no-real-key-inside")]
fn no_key_is_found_inside_where_a_file_is_masked() {
    let Some(upstream) = upstream() else { return };
    if !ANTHROPIC.is_installed() {
        return;
    }
    let key = upstream.key("anthropic");
    let setup = Setup::new(upstream, &[ANTHROPIC.host]);
    // As tools keep them: a file of its own, which the program reads.
    let file = setup.home.write("config/key", &format!("{key}\n")).display().to_string();
    let rule = json!({"from": format!("file:{file}"), "hosts": [ANTHROPIC.host], "files": [file], "variable": ANTHROPIC.key});
    let setup = setup.set("secrets.FILED", rule);
    let shown = setup.run(&["cat", &file]).ok();
    let variable = setup.run(&["printenv", ANTHROPIC.key]).ok();
    for shown in [&shown, &variable] {
        let text = shown.ran.stdout.trim_end();
        assert!(text.starts_with("sk-ant-") && text.len() == key.len() && text != key, "{text}");
    }
    search_inside(upstream, &ANTHROPIC, setup, "found-file");
}

#[test]
#[kennel_claim::claim("secrets/values-stay-in-kennels-memory")]
fn kennel_leaves_no_core_behind_while_it_holds_secrets() {
    let Some(upstream) = upstream() else { return };
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.starts_with('|') || pattern.starts_with('/') {
        return skipped("core dumps do not go to the working directory here");
    }
    let cores = |folder: &Scratch| {
        let names = folder
            .listing()
            .into_iter()
            .filter(|name| name.rsplit('/').next().is_some_and(|name| name.starts_with("core")));
        names.collect::<Vec<_>>()
    };
    // A process that is killed so leaves one.
    let home = Scratch::new();
    let script = "ulimit -c unlimited && cd \"$1\" && { sleep 1000 & kill -ABRT $!; wait $!; }";
    let _ = std::process::Command::new("sh").args(["-c", script, "sh"]).arg(home.path()).status();
    if cores(&home).is_empty() {
        return skipped("a process that is killed leaves no core here");
    }
    let setup = Setup::new(upstream, &["api.anthropic.com"]).secret(
        "ANTHROPIC_API_KEY",
        upstream.key("anthropic"),
        &["api.anthropic.com"],
    );
    let mut command = setup.command();
    command.args(["--", "sh", "-c", "echo begun; exec sleep 1000"]);
    let line: Vec<String> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .map(|word| word.display().to_string())
        .collect();
    // The shell raises the limit, kennel takes its place.
    let mut shell = std::process::Command::new("sh");
    plain(&mut shell, &setup.home);
    shell.args(["-c", "ulimit -c unlimited; exec \"$@\"", "sh"]).args(&line);
    shell.env("ANTHROPIC_API_KEY", upstream.key("anthropic")).stdin(std::process::Stdio::null());
    let mut child = shell.stdout(std::process::Stdio::piped()).spawn().expect("sh can be started");
    let mut begun = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut begun)
        .expect("it says that it has begun");
    assert_eq!(begun, "begun\n");
    // SAFETY: a plain call on a child that has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGABRT) };
    let end = child.wait().expect("a child can be waited for");
    assert!(!end.success(), "{end}");
    assert_eq!(cores(&setup.home), Vec::<String>::new(), "kennel left a core behind");
}

#[test]
#[kennel_claim::claim("secrets/values-stay-in-kennels-memory")]
fn nobody_else_reads_the_memory_of_a_kennel_that_holds_secrets() {
    let Some(upstream) = upstream() else { return };
    if kennel_tests::am_root() {
        return skipped("root reads the memory of every process");
    }
    let setup = Setup::new(upstream, &["api.anthropic.com"]).secret(
        "ANTHROPIC_API_KEY",
        upstream.key("anthropic"),
        &["api.anthropic.com"],
    );
    let mut command = setup.command();
    command.args(["--", "sh", "-c", "echo begun; exec sleep 1000"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("kennel can be started");
    let mut begun = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut begun)
        .expect("it says that it has begun");
    let memory = std::fs::File::open(format!("/proc/{}/mem", child.id()));
    let environ = std::fs::read(format!("/proc/{}/environ", child.id()));
    let _ = child.kill();
    let _ = child.wait();
    assert_eq!(begun, "begun\n");
    assert!(memory.is_err(), "its memory can be read");
    assert!(environ.is_err(), "its environment can be read");
}
