//! Proxies between the gate and the world: the caller's own, by variables or settings, and ones that take the gate's
//! place.

use std::io::{Read, Write};
use std::net::TcpListener;

use kennel_tests::{Scratch, kennel, ran_within};

use crate::network::there::OPEN_PROXY;
use crate::network::{BOTH, LONG, Told, Way, allowing, by, told_by};
use kennel_tests::world::{THERE, world};

fn proxy() -> String {
    format!("http://user:p%3Aw@{THERE}:{OPEN_PROXY}")
}

/// A GET by curl, with variables of kennel's caller.
fn get(way: Way, flags: &[String], variables: &[(&str, &str)], url: &str) -> Told {
    let words = by(way, &["curl", "-sS", "-m", "30", "-i", url]);
    told_by(flags, &words, |command| {
        command.envs(variables.iter().copied());
    })
}

#[test]
fn the_callers_own_proxy_carries_everything_and_looks_the_names_up() {
    let Some(world) = world() else { return };
    let proxy = proxy();
    let variables = [("HTTP_PROXY", proxy.as_str()), ("HTTPS_PROXY", &proxy)];
    for way in BOTH {
        let host = format!("{way:?}.parent.web.test").to_lowercase();
        let told = get(way, &allowing(&["*.web.test"]), &variables, &format!("http://{host}/hello")).ok();
        assert!(told.ran.stdout.contains("200 OK"), "{told:#?}");
        let seen = world.seen(&host);
        let expected = match way {
            Way::Proxy => format!("GET http://{host}/hello"),
            Way::Plain => format!("CONNECT {host}:80"),
        };
        assert!(seen.iter().any(|line| line.contains(&expected)), "{seen:?}");
        assert!(!seen.iter().any(|line| line.starts_with("dns ")), "the proxy looks names up: {seen:?}");
    }
}

#[test]
#[kennel_claim::claim("network/parent-proxy-password")]
fn the_password_of_the_callers_proxy_does_not_come_back() {
    let Some(world) = world() else { return };
    let proxy = format!("http://user:a-long-password@{THERE}:{OPEN_PROXY}");
    // user:a-long-password
    let secret = "dXNlcjphLWxvbmctcGFzc3dvcmQ";
    // This proxy returns what it is sent, to whoever asks it to.
    let echo = "http://returned.parent.web.test/head";
    let outside = ran_within(LONG, std::process::Command::new("curl").args(["-s", "-x", &proxy, echo])).ok();
    assert!(outside.stdout.contains(secret), "{outside:?}");
    let variables = [("HTTP_PROXY", proxy.as_str()), ("HTTPS_PROXY", &proxy)];
    for way in BOTH {
        let script = format!(
            "curl -s -m 20 {echo}; curl -s -m 20 -X TRACE -H 'Max-Forwards: 0' {echo}; curl -s -m 20 -X track {echo}
             curl -s -m 20 -X OPTIONS -H 'Max-Forwards: 0' {echo}; curl -s -m 20 -X POST -d x {echo}; curl -s -p {echo}
             curl -s -m 20 http://returned.parent.web.test/hello"
        );
        let told = told_by(&allowing(&["*.web.test"]), &by(way, &["sh", "-c", &script]), |command| {
            command.envs(variables);
        })
        .ok();
        assert!(!told.ran.stdout.contains(&secret[..12]), "{way:?}: {told:#?}");
        assert!(told.ran.stdout.ends_with("hello from returned.parent.web.test\n"), "{told:#?}");
    }
    assert!(
        !world.seen("GET http://returned.parent.web.test/head").is_empty(),
        "it was asked by the proxy's door"
    );
}

#[test]
#[kennel_claim::claim("network/parent-proxy-hears-no-refusals")]
fn a_refused_host_is_not_told_to_the_callers_proxy_and_neither_is_a_metadata_address() {
    let Some(world) = world() else { return };
    let proxy = proxy();
    let variables = [("HTTP_PROXY", proxy.as_str()), ("HTTPS_PROXY", &proxy)];
    for way in BOTH {
        for url in ["http://refused.parent.elsewhere.test/", "http://169.254.169.254/refused-by-parent"] {
            let told = get(way, &allowing(&["x.web.test", "169.254.0.0/17"]), &variables, url);
            assert!(!told.ran.stdout.contains("200 OK"), "{told:#?}");
        }
    }
    world.saw_nothing_of("refused.parent");
    world.saw_nothing_of("refused-by-parent");
}

#[test]
fn the_setting_wins_over_the_variables_and_none_takes_them_away() {
    let Some(world) = world() else { return };
    let proxy = proxy();
    let dead = [("HTTP_PROXY", "http://127.0.0.1:9"), ("HTTPS_PROXY", "http://127.0.0.1:9")];
    let mut flags = allowing(&["*.web.test"]);
    let told = get(Way::Proxy, &flags, &dead, "http://dead.parent.web.test/hello");
    assert!(told.ran.stdout.contains("502"), "a proxy that is not there: {told:#?}");
    world.saw_nothing_of("dead.parent");
    flags.extend(["--parent-proxy".into(), proxy]);
    get(Way::Proxy, &flags, &dead, "http://set.parent.web.test/hello").ok();
    assert!(!world.seen("GET http://set.parent.web.test/hello").is_empty());
    let mut flags = allowing(&["*.web.test"]);
    flags.extend(["--parent-proxy".into(), "none".into()]);
    for way in BOTH {
        get(way, &flags, &dead, "http://unset.parent.web.test/hello").ok();
    }
    let seen = world.seen("GET /hello for unset.parent.web.test");
    assert_eq!(seen.len(), 2, "straight to the server: {seen:?}");
    let mut command = kennel(["run", "--no-settings", "--allow-domain", "x.test", "--parent-proxy"]);
    let ran = ran_within(LONG, command.args(["socks5://x.test", "--", "true"])).expect_code(125);
    assert!(ran.stderr.contains("network.parent_proxy") && ran.stderr.contains("help: "), "{}", ran.stderr);
}

#[test]
#[kennel_claim::claim("network/parent-proxy-password")]
fn no_login_of_a_proxy_is_shown_inside_in_errors_or_in_plans() {
    let Some(_) = world() else { return };
    let secret = "hunter2-hunter2";
    let address = format!("http://me:{secret}@proxy.test:3128");
    let login = format!("me:{secret}");
    let variables = [
        ("HTTP_PROXY", address.as_str()),
        ("Http_Proxy", &address),
        ("WSS_PROXY", &address),
        ("ws_proxy", &login),
        ("NPM_CONFIG_HTTPS_PROXY", &address),
        ("GLOBAL_AGENT_HTTP_PROXY", &address),
        ("CORPORATE_PROXY_PASSWORD", secret),
        ("JAVA_TOOL_OPTIONS", secret),
        ("GIT_CONFIG_VALUE_0", &address),
        ("GIT_CONFIG_KEY_0", "http.proxy"),
        ("GIT_CONFIG_COUNT", "1"),
        ("UNRELATED", "passes"),
    ];
    let env =
        ["sh", "-c", "env; git config --get http.proxy; cat /proc/1/environ /proc/1/cmdline 2>/dev/null"];
    for mode in ["allow-list", "none"] {
        let told = told_by(&["--net", mode], &env, |command| {
            command.envs(variables);
        });
        assert!(told.ran.stdout.contains("UNRELATED=passes"), "{told:#?}");
        assert!(!told.ran.stdout.contains(secret), "{mode}: {told:#?}");
    }
    // What is asked for by its name passes, and so does everything where the network is the host's.
    for flags in [&["--net", "allow-list", "--pass-env", "WSS_PROXY"][..], &["--net", "host"]] {
        let told = told_by(flags, &env, |command| {
            command.envs(variables);
        });
        assert!(told.ran.stdout.contains(&format!("WSS_PROXY={address}")), "{told:#?}");
    }
    // Nor in errors: with strange schemes, and as entries of lists.
    for (flag, value) in [
        ("--parent-proxy", format!("ftp://{login}@p.test")),
        ("--parent-proxy", format!("{login}@p.test://x")),
        ("--parent-proxy", format!("{login}@p.test/://")),
        ("--parent-proxy", format!("http://{login}@")),
        ("--allow-domain", format!("https://{login}@p.test")),
        ("--allow-domain", format!("postgres://{login}@p.test:5432/db")),
        ("--deny-domain", format!("{login}@p.test")),
    ] {
        let mut command = kennel(["run", "--no-settings", "--net", "allow-list", flag]);
        let ran = ran_within(LONG, command.arg(&value).args(["--", "true"])).expect_code(125);
        assert!(!ran.stderr.contains("hunter2"), "{flag} {value}: {}", ran.stderr);
    }
    for command in [&["plan", "--json"][..], &["plan", "--steps"], &["run", "--verbose"]] {
        let mut command = kennel(command);
        command.args(["--no-settings", "--allow-domain", "x.test", "--parent-proxy", &address, "--", "true"]);
        let ran = ran_within(LONG, &mut command).ok();
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{ran:?}");
    }
    let library = kennel::Sandbox::builder().parent_proxy(address.as_str(), "");
    assert!(!format!("{library:?}").contains("hunter2"), "{library:?}");
}

#[test]
fn no_proxy_names_suffixes_networks_and_ports() {
    let Some(world) = world() else { return };
    let proxy = proxy();
    let no_proxy = "by-suffix.web.test,203.0.113.0/24,by-port.web.test:80,other-port.web.test:81";
    let variables = [("HTTP_PROXY", proxy.as_str()), ("HTTPS_PROXY", &proxy), ("NO_PROXY", no_proxy)];
    for (host, straight) in [
        ("by-suffix.web.test", true),
        ("below.by-suffix.web.test", true),
        ("notby-suffix.web.test", false),
        ("by-port.web.test", true),
        ("other-port.web.test", false),
        (THERE, true),
    ] {
        for (way, path) in BOTH.into_iter().zip(["bypassed-1", "bypassed-2"]) {
            let allow = allowing(&["*.web.test", THERE]);
            get(way, &allow, &variables, &format!("http://{host}/{path}")).ok();
            let lines = world.seen(&format!("/{path} for {host}"));
            let direct = lines.iter().any(|line| line.contains(&format!(":80 GET /{path}")));
            let by_proxy = !world.seen(&format!("CONNECT {host}:80")).is_empty()
                || lines.iter().any(|line| line.contains("GET http://"));
            assert_eq!((direct, by_proxy), (straight, !straight), "{host} {way:?}: {lines:?}");
        }
    }
}

#[test]
fn proxies_of_somebody_elses_take_the_place_of_the_gates_by_port() {
    let Some(world) = world() else { return };
    // Tells what it was sent first, in HTTP and in SOCKS.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut first = [0; 2048];
            let count = stream.read(&mut first).unwrap_or(0);
            let answer = match first[0] {
                5 => b"\x05\xff".to_vec(),
                _ => {
                    let told = first[..count].escape_ascii().to_string();
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len()).into_bytes()
                }
            };
            let _ = stream.write_all(&answer);
        }
    });
    let scratch = Scratch::new();
    let settings = |keys: &str| {
        scratch
            .write("kennel.toml", &format!("[network]\nmode = \"allow-list\"\n{keys}\n"))
            .display()
            .to_string()
    };
    // It decides by its own rules: this name is on no list of kennel's. And it is not shown kennel's token.
    let flags = ["--settings".to_owned(), settings(&format!("http_proxy_port = {port}"))];
    let told = get(Way::Proxy, &flags, &[], "http://external.elsewhere.test/hello").ok();
    assert!(told.ran.stdout.contains("GET http://external.elsewhere.test/hello"), "{told:#?}");
    assert!(!told.ran.stdout.contains("Proxy-Authorization"), "{told:#?}");
    assert!(told.passed("127.0.0.1", "http"), "{told:#?}");
    // No variable sends a program around it, to a private network or a name of the neighbourhood.
    for url in ["http://10.1.2.3/hello", "http://169.254.1.2/hello", "http://printer.local/hello"] {
        let told = get(Way::Proxy, &flags, &[], url).ok();
        assert!(told.ran.stdout.contains(&format!("GET {url}")), "{told:#?}");
    }
    // SOCKS is still the gate's, and so are plain connections.
    let socks = "curl -s -m 20 --proxy \"$FTP_PROXY\" http://external.elsewhere.test/; echo $?
                 curl -s -m 20 --noproxy '*' http://external.elsewhere.test/; echo $?";
    let told = told_by(&flags, &["sh", "-c", socks], |_| {}).ok();
    assert!(!told.ran.stdout.contains("0\n") || told.ran.stdout.contains("97\n"), "{told:#?}");
    assert_eq!(told.reason("external.elsewhere.test"), "not on the allow list");
    // And the other way round.
    let flags = ["--settings".to_owned(), settings(&format!("socks_proxy_port = {port}"))];
    let told =
        told_by(&flags, &["sh", "-c", "curl -sS --proxy \"$FTP_PROXY\" http://x.web.test/; exit 0"], |_| {});
    assert!(told.passed("127.0.0.1", "socks"), "{told:#?}");
    world.saw_nothing_of("external.elsewhere");
}
