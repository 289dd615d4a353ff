//! Whether programs inside believe that there is a network, by what each of them goes.

use std::process::Command;

use kennel_tests::{Scratch, program, skipped};

use crate::network::{Way, allowed, python_inside};
use kennel_tests::world::{THERE, world};

/// Whether this kernel has an interface to offer: none is made where it has not.
fn kernel_has_interfaces() -> bool {
    let script = "ip link add name probe type dummy || ip link add name probe type ifb";
    let tried = Command::new("unshare").args(["-Urn", "sh", "-c", script]).output();
    let made = tried.is_ok_and(|tried| tried.status.success());
    if !made {
        skipped(
            "the kernel makes no dummy and no ifb interface for us, or there is no `unshare` or `ip` to ask it",
        );
    }
    made
}

#[test]
fn look_ups_by_configured_families_and_routes_find_both_families() {
    if world().is_none() {
        return;
    }
    // AI_ADDRCONFIG leaves a family out unless an interface has an address of it that is not the loopback's; other
    // programs look for the address that a packet to the world would have.
    let script = "import socket
for family in (socket.AF_INET, socket.AF_INET6):
    found = socket.getaddrinfo('online.web.test', 80, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    assert found, family
    s = socket.socket(family, socket.SOCK_DGRAM); s.connect((found[0][4][0], 80))
    assert s.getsockname()[0] not in ('127.0.0.1', '::1', '0.0.0.0', '::'), s.getsockname()
print('online')";
    let Some(told) = python_inside(Way::Plain, &["online.web.test"], script) else { return };
    assert_eq!(told.ok().ran.stdout, "online\n");
}

#[test]
fn node_finds_an_address_that_is_not_internal() {
    if world().is_none() || !kernel_has_interfaces() {
        return;
    }
    if program("node").is_none() {
        return skipped("node is not installed");
    }
    let script =
        "const all = Object.values(require('os').networkInterfaces()).flat().filter(a => !a.internal);
                  console.log(all.map(a => a.family).sort().join())";
    let told = allowed(Way::Plain, &["node.web.test"], &["node", "-e", script]).ok();
    assert_eq!(told.ran.stdout, "IPv4,IPv6\n");
}

#[test]
fn java_finds_an_interface_that_is_up_and_fetches_without_a_proxy() {
    if world().is_none() || !kernel_has_interfaces() {
        return;
    }
    if program("java").is_none() || program("javac").is_none() {
        return skipped("no Java that compiles is installed");
    }
    let scratch = Scratch::new();
    let source = scratch.join("Online.java");
    let text = r#"import java.net.*; import java.util.*;
        class Online { public static void main(String[] words) throws Exception {
            for (NetworkInterface one : Collections.list(NetworkInterface.getNetworkInterfaces()))
                if (one.isUp() && !one.isLoopback())
                    for (InterfaceAddress own : one.getInterfaceAddresses())
                        if (own.getAddress() instanceof Inet4Address) System.out.println("online");
            System.out.write(new URL(words[0]).openStream().readAllBytes()); System.out.flush();
        } }"#;
    std::fs::write(&source, text).expect("a file");
    let source = source.display().to_string();
    let words = ["java", "-Xmx256m", &source, "http://java.web.test/hello"];
    let told = allowed(Way::Plain, &["java.web.test"], &words).ok();
    assert_eq!(told.ran.stdout, "online\nhello from java.web.test\n");
    assert!(told.passed("java.web.test", "direct"), "{told:#?}");
}

#[test]
#[kennel_claim::claim("network/allowed-addresses-only")]
fn binding_to_the_interface_leads_nowhere() {
    let Some(world) = world().filter(|_| kernel_has_interfaces()) else { return };
    let script = format!(
        "import socket
def reach(kind, device):
    s = socket.socket(socket.AF_INET, kind); s.settimeout(2)
    if device: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
    try:
        s.connect(('{THERE}', 80)); s.send(b'GET /by-the-interface HTTP/1.0\\r\\n\\r\\n')
        return s.recv(100) != b''
    except OSError as error: return False
print(reach(socket.SOCK_STREAM, None), reach(socket.SOCK_STREAM, b'eth0'), reach(socket.SOCK_DGRAM, b'eth0'))"
    );
    // The address itself is allowed: what the gate carries arrives, what is sent past it does not.
    let Some(told) = python_inside(Way::Plain, &[THERE], &script) else { return };
    assert_eq!(told.ok().ran.stdout, "True False False\n");
    assert_eq!(world.seen("by-the-interface").len(), 1, "more than the gate carried has arrived");
}
