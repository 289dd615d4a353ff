//! What rules add to the internet and take away from it, what can be asked for with it, and what is said about it.

use std::net::{IpAddr, SocketAddr, TcpStream};

use kennel_tests::world::{ip, python, world};
use kennel_tests::{kennel, ran, skipped};

use crate::public::{Here, OWN, public, there};

fn get(flags: &[&str], url: &str) -> String {
    public(flags, &["curl", "-s", "-g", "-m", "30", url]).stdout
}

#[test]
#[kennel_claim::claim("network/public-is-public")]
fn rules_are_exceptions_either_way() {
    let Some(world) = world() else { return };
    let server = Here::new(world);
    let (private, open) = ("http://h0a000007.corp.test/x", "http://h5db8d822.open.test/x");
    assert!(get(&[], private).contains("it leads to a private address, and only public ones are open"));
    assert!(
        !get(&[], private).contains("10.0.0.7"),
        "the names of the networks around are not to be looked up"
    );
    assert_eq!(get(&["--allow-domain", "*.corp.test"], private), "reached\n");
    assert_eq!(get(&["--allow-domain", "10.0.0.0/8"], "http://10.0.0.7/x"), "reached\n");
    assert_eq!(get(&[], open), "reached\n");
    assert!(get(&["--deny-domain", "*.open.test"], open).contains("on the deny list"));
    assert!(get(&["--deny-domain", "93.184.216.0/24"], open).contains("which is denied"));
    let here = format!("http://host.kennel.internal:{}/x", server.port);
    assert!(get(&[], &here).contains("only public ones are open"));
    assert_eq!(server.came(), 0);
    get(&["--allow-domain", "host.kennel.internal"], &here);
    kennel_tests::eventually("the host's own server was reached", || (server.came() > 0).then_some(()));
    // Its metadata service stays closed also by a name that is allowed.
    let metadata = get(&["--allow-domain", "*.corp.test"], "http://ha9fea9fe.corp.test/x");
    assert!(metadata.contains("a cloud metadata address"), "{metadata}");
}

#[test]
#[kennel_claim::claim("network/public-is-public")]
fn every_address_of_this_host_is_its_own_whatever_makes_it_so() {
    let Some(world) = world() else { return };
    let server = Here::new(world);
    let mut own: Vec<&str> = OWN.iter().map(|(address, _)| *address).collect();
    own.push("5.6.9.77");
    if world.ipv6 {
        own.extend(["2a01:100::1", "2a01:100::dead:beef"]);
    }
    for address in &own {
        let target = SocketAddr::new(ip(address), server.port);
        TcpStream::connect(target).expect("who is on this host reaches it");
    }
    let before = kennel_tests::eventually("all of them came", || {
        Some(server.came()).filter(|came| *came == own.len())
    });
    for address in own {
        let url = format!("http://{}/x", SocketAddr::new(ip(address), server.port));
        let said = get(&[], &url);
        assert!(said.contains("one of this host's own addresses"), "{address}: {said}");
        let IpAddr::V4(v4) = ip(address) else { continue };
        // By a name that is allowed, too.
        let url = format!("http://h{:08x}.open.test:{}/x", v4.to_bits(), server.port);
        let listed =
            ["run", "--no-settings", "--allow-domain", "*.open.test", "--", "curl", "-s", "-m", "30", &url];
        let said = ran(&mut kennel(listed)).stdout;
        assert!(said.contains("one of this host's own addresses"), "{url}: {said}");
    }
    assert_eq!(server.came(), before);
}

#[test]
fn any_protocol_goes_to_a_public_address() {
    let Some(_) = world() else { return };
    let Some(python) = python() else { return skipped("needs python3") };
    let script = format!(
        "import socket
for host in ('93.184.216.34', 'h5db8d822.open.test'):
    s = socket.create_connection((host, {})); s.sendall(b'\\x00\\xffsomething'); print(s.recv(100))",
        there::ECHO
    );
    let ran = public(&[], &[python.to_str().expect("a path"), "-c", &script]).ok();
    assert_eq!(ran.stdout, "b'\\x00\\xffsomething'\n".repeat(2), "{ran:#?}");
}

#[test]
fn what_the_gate_could_not_judge_is_an_error() {
    let error = |flags: &[&str]| public(flags, &["true"]).expect_code(125).stderr;
    for (flags, words) in [
        (
            &["--parent-proxy", "http://proxy.test:3128"][..],
            "network.parent_proxy cannot be used with network mode `public`",
        ),
        (&["--http-proxy-port", "3128"], "network.http_proxy_port cannot be used"),
        (&["--socks-proxy-port", "1080"], "network.socks_proxy_port cannot be used"),
        (&["--allow-domain", "GET docs.test/**"], "the rule `GET docs.test/**` cannot be used"),
        (&["--ask"], "network.ask cannot be used"),
    ] {
        let said = error(flags);
        assert!(said.contains(words) && said.contains("help: "), "{said}");
    }
    let behind = |flags: &[&str]| {
        let mut command = kennel(["run", "--no-settings", "--net", "public"]);
        ran(command.args(flags).args(["--", "true"]).env("HTTPS_PROXY", "http://proxy.test:3128"))
    };
    let said = behind(&[]).expect_code(125).stderr;
    assert!(said.contains("cannot be used behind a proxy") && said.contains("--parent-proxy none"), "{said}");
    behind(&["--parent-proxy", "none"]).ok();
}
