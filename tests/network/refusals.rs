//! Addresses that are out of reach, however they are spelled or come by, and what is said about them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kennel_tests::{Scratch, kennel, ran_within, skipped};

use crate::network::there::{ECHO, HTTP, ODD_HTTP};
use crate::network::{BOTH, LONG, Told, Way, allowed, allowed_sh, allowing, by, python_inside, told};
use kennel_tests::world::{HERE, HERE_V6, METADATA, THERE, THERE_V6, answers_outside, ip, world};

/// A GET that prints the status, or 000.
fn status(way: Way, hosts: &[&str], url: &str) -> (String, Told) {
    let words = ["curl", "-g", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", url];
    let told = allowed(way, hosts, &words);
    (told.ran.stdout.clone(), told)
}

#[track_caller]
fn refused(way: Way, hosts: &[&str], url: &str) -> Told {
    let (code, told) = status(way, hosts, url);
    assert!(["403", "000"].contains(&code.as_str()), "{way:?} {url}: {code}\n{told:#?}");
    told
}

#[test]
#[kennel_claim::claim("network/allowed-addresses-only")]
fn direct_ip() {
    let Some(world) = world() else { return };
    for address in [THERE, THERE_V6].into_iter().filter(|text| !text.contains(':') || world.ipv6) {
        assert!(answers_outside(address, HTTP), "{address}");
        let url = if address.contains(':') {
            format!("http://[{address}]/direct")
        } else {
            format!("http://{address}/direct")
        };
        for way in BOTH {
            let told = refused(way, &["direct.web.test"], &url);
            assert_eq!(told.reason(address), "not on the allow list");
            // And with a rule for it, it is reached.
            let (code, told) =
                status(way, &[if address.contains(':') { "[2001:db8::10]" } else { address }], &url);
            assert_eq!(code, "200", "{told:#?}");
        }
        let script = format!(
            "import socket, time
begun = time.time()
for port in ({HTTP}, {ECHO}, {ODD_HTTP}, 65000):
    try:
        s = socket.create_connection(('{address}', port), 20); s.sendall(b'raw by address\\n'); print(s.recv(100))
    except OSError: pass
print('quick' if time.time() - begun < 15 else 'slow')"
        );
        let Some(told) = python_inside(Way::Plain, &["direct.web.test"], &script) else { return };
        assert_eq!(told.ok().ran.stdout.lines().last(), Some("quick"));
    }
    assert!(
        world.seen("/direct").iter().all(|line| line.contains("GET /direct for")),
        "{:?}",
        world.seen("/direct")
    );
    world.saw_nothing_of("raw by address");
}

#[test]
#[kennel_claim::claim("network/names-do-not-lead-inwards")]
fn rebinding_an_allowed_name_that_leads_to_a_private_address() {
    let Some(_) = world() else { return };
    // Something answers there: on every address of this host.
    let servers = Answering::on(&["127.0.0.1", "::1", HERE]);
    for name in ["loop", "loopsix", "mapped", "tunnelled", "unspecified", "multicast", "own"] {
        let name = format!("rebinding.{name}.test");
        for way in BOTH {
            let told = refused(way, &[&name], &format!("http://{name}:{}/hello", servers.port));
            let reason = told.reason(&name);
            assert!(reason.starts_with("it resolves to "), "{name}: {reason}");
        }
    }
    assert_eq!(servers.count(), 0);
    // A name with one good address and one bad is carried to the good one.
    let (code, told) = status(Way::Plain, &["half.mixed.test"], "http://half.mixed.test/hello");
    assert_eq!(code, "200", "{told:#?}");
    // Who allows the address as well means it.
    let rules = ["rebinding.loop.test", &format!("127.0.0.1:{}", servers.port)];
    let (code, told) =
        status(Way::Plain, &rules, &format!("http://rebinding.loop.test:{}/hello", servers.port));
    assert_eq!((code.as_str(), servers.count()), ("200", 1), "{told:#?}");
}

#[test]
#[kennel_claim::claim("network/names-do-not-lead-inwards")]
fn metadata_addresses() {
    let Some(world) = world() else { return };
    for (address, name) in METADATA.into_iter().zip(["metadata", "azure", "ec2"]) {
        if address.contains(':') && !world.ipv6 {
            skipped("this kernel has no IPv6");
            continue;
        }
        assert!(answers_outside(address, HTTP), "{address} answers on this host");
        let name = format!("cloud.{name}.test");
        let place = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        for way in BOTH {
            refused(way, &[&name], &format!("http://{name}/stolen"));
            refused(way, &["cloud.web.test"], &format!("http://{place}/stolen"));
        }
    }
    for way in BOTH {
        refused(way, &["cloud.translated.test"], "http://cloud.translated.test/stolen");
    }
    world.saw_nothing_of("/stolen");
}

/// Servers here, on the same port of several addresses.
struct Answering {
    port: u16,
    asked: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Answering {
    fn on(addresses: &[&str]) -> Answering {
        let asked = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let mut port = 0;
        for address in addresses {
            let Ok(listener) = TcpListener::bind((ip(address), port)) else {
                assert!(address.contains(':'), "{address} is an address of this host");
                continue;
            };
            port = listener.local_addr().expect("bound").port();
            let asked = std::sync::Arc::clone(&asked);
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let _ = stream.read(&mut [0; 4096]);
                    let _ = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhost\n",
                    );
                }
            });
        }
        Answering { port, asked }
    }

    fn count(&self) -> usize {
        self.asked.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
#[kennel_claim::claim("network/names-do-not-lead-inwards")]
fn the_hosts_own_addresses() {
    let Some(world) = world() else { return };
    let servers = Answering::on(&[HERE, "127.0.0.1", HERE_V6]);
    for address in [HERE, "127.0.0.1", HERE_V6] {
        if address.contains(':') && !world.ipv6 {
            continue;
        }
        let mut stream = TcpStream::connect((ip(address), servers.port)).expect("it listens on this host");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it takes a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
    }
    let before = servers.count();
    for way in BOTH {
        refused(way, &["mine.own.test"], &format!("http://mine.own.test:{}/", servers.port));
        refused(way, &["x.web.test"], &format!("http://{HERE}:{}/", servers.port));
    }
    // By the proxy, the loopback is the host's; without, it is the sandbox's own.
    let script = format!("curl -s -m 20 --noproxy '' http://127.0.0.1:{}/ && exit 9; exit 0", servers.port);
    for way in BOTH {
        let told = allowed_sh(way, &["x.web.test"], &script);
        assert!(!told.ran.stdout.contains("host"), "{told:#?}");
    }
    assert_eq!(servers.count(), before);
}

#[test]
fn the_host_is_reached_by_its_alias_only_when_allowed() {
    let Some(world) = world() else { return };
    let servers = Answering::on(&["127.0.0.1"]);
    let url = format!("http://host.kennel.internal:{}/", servers.port);
    for way in BOTH {
        refused(way, &["x.web.test"], &url);
        let other = format!("host.kennel.internal:{}", servers.port ^ 1);
        let told = refused(way, &[&other], &url);
        assert_eq!(told.reason("host.kennel.internal"), "allowed only on other ports");
        assert_eq!(servers.count(), usize::from(way == Way::Plain));
        let rule = format!("host.kennel.internal:{}", servers.port);
        let told = allowed(way, &[&rule], &["curl", "-sS", &url]).ok();
        assert_eq!(told.ran.stdout, "host\n");
    }
    world.saw_nothing_of("kennel.internal");
}

#[test]
#[kennel_claim::claim("network/one-spelling")]
fn hex_octal_decimal_and_short_addresses_are_the_address() {
    let Some(world) = world() else { return };
    // 203.0.113.10
    let spellings = ["0xcb00710a", "3405803786", "0313.0.0161.012", "203.0.28938", "0xcb.0x0.0x71.0xa"];
    for spelling in spellings {
        for way in BOTH {
            refused(way, &["x.web.test"], &format!("http://{spelling}/spelled"));
        }
        // By CONNECT and SOCKS the spelling itself reaches the gate; curl folds it before that in a URL.
        let script = format!(
            "token=${{HTTP_PROXY#*://}}; token=${{token%@*}}
             curl -s -m 20 -o /dev/null -w '%{{http_connect}}' --proxy-user $token --connect-to ::{spelling}:80 \
                 --proxytunnel --proxy 127.0.0.1:3128 http://x.web.test/spelled; exit 0"
        );
        let told = allowed_sh(Way::Proxy, &["x.web.test"], &script);
        assert_eq!(told.ran.stdout, "403", "{spelling}: {told:#?}");
        let told = allowed_sh(Way::Proxy, &["x.web.test", THERE], &script);
        assert_eq!(told.ran.stdout, "200", "{spelling}: {told:#?}");
    }
    for line in world.seen("/spelled") {
        assert!(line.contains("for x.web.test"), "{line}");
    }
}

#[test]
#[kennel_claim::claim("network/one-spelling")]
fn mapped_nat64_and_6to4_forms_are_the_address_inside_them() {
    let Some(world) = world() else { return };
    for form in
        ["::ffff:203.0.113.10", "64:ff9b::203.0.113.10", "2002:cb00:710a::1", "::ffff:169.254.169.254"]
    {
        for way in BOTH {
            refused(way, &["x.web.test"], &format!("http://[{form}]/formed"));
            // A deny rule for the address denies its forms, even where all of IPv6 is allowed.
            let url = format!("http://[{form}]/formed");
            let mut flags = allowing(&["2000::/3", "64:ff9b::/96", "::/96"]);
            flags.extend([
                "--deny-domain".into(),
                "203.0.113.0/24".into(),
                "--deny-domain".into(),
                "169.254.0.0/16".into(),
            ]);
            let words =
                by(way, &["curl", "-g", "-s", "-m", "30", "-o", "/dev/null", "-w", "%{http_code}", &url]);
            let told = told(&flags, &words);
            assert!(["403", "000"].contains(&told.ran.stdout.as_str()), "{way:?} {form}: {told:#?}");
        }
    }
    world.saw_nothing_of("/formed");
}

/// Anybody can have an IPv6 address that contains an allowed IPv4 address, in a network of his own.
#[test]
#[kennel_claim::claim("network/an-address-is-itself")]
fn an_allowed_address_opens_no_address_that_contains_it() {
    let Some(world) = world() else { return };
    for form in [
        "2001:db8:6:7:0:5efe:203.0.113.10",
        "2001:db8:6:7:200:5efe:203.0.113.10",
        "2001:0:cb00:710a::1",
        "2002:cb00:710a::1",
        "64:ff9b::203.0.113.10",
        "64:ff9b:1::203.0.113.10",
        "::203.0.113.10",
        "::ffff:0:203.0.113.10",
    ] {
        for way in BOTH {
            for allowed in ["203.0.113.10", "203.0.113.0/24", "tcp://203.0.113.10:80"] {
                let told = refused(way, &[allowed], &format!("http://[{form}]/contained"));
                // What no rule allows is not even tried.
                let seen = &told.network;
                assert!(
                    !seen.is_empty() && seen.iter().all(|one| one["allowed"] == false),
                    "{form}: {told:#?}"
                );
            }
        }
    }
    world.saw_nothing_of("/contained");
}

#[test]
fn a_refusal_says_why_in_the_protocol_of_the_client() {
    let Some(world) = world() else { return };
    let script = "curl -s -i http://blocked.elsewhere.test/; curl -s -i -p http://blocked.elsewhere.test/ -o /dev/null -D -; exit 0";
    let told = allowed_sh(Way::Proxy, &["why.web.test"], script);
    let text = &told.ran.stdout;
    assert!(text.contains("HTTP/1.1 403") && text.contains("X-Proxy-Error: blocked-by-allowlist"), "{text}");
    assert!(text.contains("blocked.elsewhere.test") && text.contains("not on the allow list"), "{text}");
    let phrase = text.lines().rfind(|line| line.starts_with("HTTP/1.1 403")).unwrap_or_default();
    assert!(phrase.contains("not on the allow list"), "a denied CONNECT says why in its status: {text}");
    // SSH has a place for a reason too: by the plain way, and by SOCKS.
    if world.file("host_key").is_file() {
        let script = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
                      203.0.113.10 true 2>&1; exit 0";
        let told = allowed_sh(Way::Plain, &["why.web.test"], script);
        assert!(told.ran.stdout.contains("kennel blocked this connection"), "{told:#?}");
    }
    // A port that is not allowed, and a deny rule.
    let told = refused(Way::Proxy, &["why.web.test:443"], "http://why.web.test/");
    assert_eq!(told.reason("why.web.test"), "allowed only on other ports");
    let mut flags = allowing(&["*.web.test"]);
    flags.extend(["--deny-domain".into(), "why.web.test".into()]);
    for way in BOTH {
        let told =
            crate::network::told(&flags, &by(way, &["curl", "-s", "-m", "30", "http://why.web.test/"]));
        assert_eq!(told.reason("why.web.test"), "on the deny list");
    }
    world.saw_nothing_of("blocked.elsewhere");
}

#[test]
fn the_summary_names_the_flag_that_would_allow_what_was_blocked() {
    if world().is_none() {
        return;
    }
    let script = "curl -s http://summed.elsewhere.test/; curl -s http://good.web.test/hello; exit 0";
    for way in BOTH {
        let told = allowed_sh(way, &["good.web.test"], script).ok();
        assert!(told.ran.stderr.contains("kennel: blocked by the network policy"), "{told:#?}");
        assert!(told.ran.stderr.contains("--allow-domain summed.elsewhere.test"), "{told:#?}");
        assert!(!told.ran.stderr.contains("good.web.test"), "{told:#?}");
    }
    let told = allowed_sh(Way::Plain, &["good.web.test"], "curl -s http://good.web.test/hello").ok();
    assert_eq!(told.ran.stderr, "", "nothing was blocked");
    let mut flags = allowing(&["good.web.test"]);
    flags.push("--quiet".into());
    let told = crate::network::told(&flags, &by(Way::Plain, &["sh", "-c", script])).ok();
    assert_eq!(told.ran.stderr, "");
}

#[test]
fn the_report_counts_every_decision() {
    if world().is_none() {
        return;
    }
    let script = "for i in 1 2 3; do curl -s http://counted.elsewhere.test/; curl -s http://counted.web.test/hello; done; exit 0";
    let told = allowed_sh(Way::Proxy, &["*.web.test"], script).ok();
    let find = |host: &str| told.network.iter().find(|one| one["host"] == host).cloned().unwrap_or_default();
    let (bad, good) = (find("counted.elsewhere.test"), find("counted.web.test"));
    assert_eq!(
        (&bad["count"], &bad["port"], &bad["allowed"]),
        (&3.into(), &80.into(), &false.into()),
        "{told:#?}"
    );
    assert_eq!(
        (&good["count"], &good["rule"], &good["allowed"]),
        (&3.into(), &"*.web.test".into(), &true.into())
    );
}

#[test]
fn the_program_that_was_the_first_to_be_refused_is_named() {
    if world().is_none() {
        return;
    }
    // By the proxy, by a look-up, by an address of each family; in a shell, so that it is not the command itself.
    let urls = ["who.elsewhere.test", THERE, &format!("[{THERE_V6}]")].map(str::to_owned);
    for (way, url) in BOTH.into_iter().flat_map(|way| urls.iter().map(move |url| (way, url))) {
        let script = format!("echo $$; curl -g -s -m 30 http://{url}/ > /dev/null & wait");
        let told = allowed_sh(way, &["who.web.test"], &script).ok();
        let host = url.trim_matches(['[', ']']);
        let refused = told.network.iter().find(|one| one["host"] == host).cloned().unwrap_or_default();
        assert_eq!(refused["program"]["name"], "curl", "{way:?} {told:#?}");
        let shell: i64 = told.ran.stdout.trim().parse().expect("the shell's pid");
        assert!(refused["program"]["pid"].as_i64().is_some_and(|pid| pid > shell && pid < shell + 100));
        assert!(told.ran.stderr.contains("(by curl"), "{told:#?}");
    }
    let told = allowed_sh(Way::Plain, &["who.web.test"], "curl -s http://who.web.test/hello").ok();
    assert!(told.network.iter().all(|one| one["program"].is_null()), "{told:#?}");
}

#[test]
fn servers_inside_listen_on_their_loopback() {
    if world().is_none() {
        return;
    }
    let script = "import http.server, threading, urllib.request as r, socket
for address in ('127.0.0.1', '0.0.0.0', '::1'):
    class S(http.server.HTTPServer): address_family = socket.AF_INET6 if ':' in address else socket.AF_INET
    s = S((address, 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    host = '[::1]' if ':' in address else 'localhost' if address == '0.0.0.0' else address
    # urllib alone knows [::1] in no spelling of NO_PROXY that httpx can read as well.
    opener = r.build_opener(r.ProxyHandler({})) if ':' in address else r.build_opener()
    print(opener.open(f'http://{host}:{s.server_port}/').status)";
    for way in BOTH {
        let Some(told) = python_inside(way, &["x.web.test"], script) else { return };
        assert_eq!(told.ok().ran.stdout, "200\n200\n200\n", "{way:?}");
    }
}

#[test]
#[kennel_claim::claim("network/proxy-is-the-sandboxes-own")]
fn another_process_of_the_host_cannot_use_the_proxy() {
    let Some(_) = world() else { return };
    let scratch = Scratch::new();
    let out = scratch.join("out");
    let script = format!("echo $HTTP_PROXY > {}; sleep 60", out.display());
    let mut command = kennel(["run", "--no-settings", "--allow-domain", "shared.web.test", "--allow-write"]);
    command.arg(scratch.path()).args(["--", "sh", "-c", &script]);
    let mut first = command.spawn().expect("kennel");
    let proxy = kennel_tests::eventually("the first sandbox runs", || {
        std::fs::read_to_string(&out).ok().filter(|text| text.ends_with('\n'))
    });
    let proxy = proxy.trim();
    // The port exists in no namespace but the first sandbox's.
    assert!(TcpStream::connect("127.0.0.1:3128").is_err(), "the proxy listens on the host");
    // Another sandbox has a door of its own, with a token of its own.
    let ask = format!(
        "curl -s -o /dev/null -w '%{{http_code}}' --proxy {proxy} http://shared.web.test/hello; exit 0"
    );
    let told = allowed_sh(Way::Proxy, &["shared.web.test"], &ask);
    assert_eq!(told.ran.stdout, "407", "{told:#?}");
    let told = allowed_sh(
        Way::Proxy,
        &["shared.web.test"],
        "curl -s -o /dev/null -w '%{http_code}' --proxy http://127.0.0.1:3128 http://shared.web.test/hello; exit 0",
    );
    assert_eq!(told.ran.stdout, "407", "{told:#?}");
    // SAFETY: a plain call on a child that has not been waited for.
    unsafe { libc::kill(first.id().cast_signed(), libc::SIGTERM) };
    let _ = first.wait();
}

#[test]
#[kennel_claim::claim("network/none-is-a-loopback")]
fn the_hosts_network_is_open_and_none_is_shut() {
    let Some(world) = world() else { return };
    let url = format!("http://{THERE}/modes");
    let run = |mode: &str| {
        let mut command =
            kennel(["run", "--no-settings", "--net", mode, "--", "curl", "-sf", "-m", "20", &url]);
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        let begun = Instant::now();
        let ran = ran_within(LONG, &mut command);
        assert!(begun.elapsed() < Duration::from_secs(15), "{mode}: slow");
        ran
    };
    assert_ne!(run("none").code, 0);
    world.saw_nothing_of("/modes");
    run("host").ok();
    assert!(!world.seen("/modes").is_empty());
    // An allow list with nothing on it.
    assert_ne!(run("allow-list").code, 0);
    assert_eq!(world.seen("GET /modes").len(), 1);
}
