//! What a network needs inside: messages that arrange it, sockets that are handed out, variables that lead there.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kennel_linux::network::{Listener, NetlinkBatch, NetworkPlan, SharedNetwork, SocketRole};
use kennel_policy::policy::{NetworkMode, NetworkPolicy};
use kennel_proxy::netlink::{DoorPorts, ROUTE, transparent_network};

/// Ports inside. The namespace is the sandbox's own, so these are free.
const PROXY: u16 = 3128;
const TRANSPARENT: u16 = 3129;
const DNS: u16 = 53;

/// The inside of an allow list: with netfilter, which leads every connection to the gate; and without, for kernels that
/// have none, with listeners on the ports that the rules name. `on_host` is where the proxy listens for a sandbox
/// without a network of its own.
pub(super) fn network_plan(
    policy: &NetworkPolicy,
    ipv6: bool,
    token: &str,
    on_host: Option<u16>,
) -> NetworkPlan {
    let mut sources = Vec::new();
    if !policy.publish.is_empty() {
        for address in addresses(ipv6, Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST) {
            sources
                .extend([tcp(SocketRole::Connector, address, 0), tcp(SocketRole::MeetingPlace, address, 0)]);
        }
    }
    if policy.mode != NetworkMode::AllowList {
        return NetworkPlan { listeners: sources, ..NetworkPlan::default() };
    }
    let large_segments = kernel_is_at_least(6, 3);
    let ports = DoorPorts { transparent: TRANSPARENT, dns: DNS, ipv6, large_segments };
    let batches: Vec<NetlinkBatch> = transparent_network(&ports)
        .into_iter()
        .map(|batch| NetlinkBatch {
            protocol: batch.protocol.cast_unsigned(),
            messages: batch.bytes,
            acknowledgements: u32::try_from(batch.expected_acks).unwrap_or(1),
        })
        .collect();
    let variables = variables(policy, token, PROXY);
    let loopbacks = addresses(ipv6, Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let mut listeners = vec![
        tcp(SocketRole::Proxy, Ipv4Addr::LOCALHOST.into(), PROXY),
        Listener { role: SocketRole::DnsUdp, address: (Ipv4Addr::LOCALHOST, DNS).into(), stream: false },
        tcp(SocketRole::DnsTcp, Ipv4Addr::LOCALHOST.into(), DNS),
    ];
    listeners.extend(sources);
    let named: BTreeSet<u16> =
        policy.allow.iter().filter_map(|rule| rule.port).chain([22, 80, 443]).collect();
    let everywhere = addresses(ipv6, Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    let mut chosen = listeners.clone();
    for port in named.into_iter().filter(|port| ![PROXY, DNS].contains(port)) {
        chosen.extend(everywhere.iter().map(|address| tcp(SocketRole::Transparent, *address, port)));
    }
    listeners.extend(loopbacks.iter().map(|address| tcp(SocketRole::Transparent, *address, TRANSPARENT)));
    let routes = batches.iter().filter(|batch| batch.protocol == ROUTE.cast_unsigned()).cloned().collect();
    let shared = on_host.map(|port| SharedNetwork { port, variables: self::variables(policy, token, port) });
    let fallback = NetworkPlan {
        batches: routes,
        listeners: chosen,
        variables: variables.clone(),
        fallback: None,
        shared: shared.clone(),
    };
    NetworkPlan { batches, listeners, variables, fallback: Some(Box::new(fallback)), shared }
}

/// By the name that the kernel gives itself: what it is asked for here is not to be had by trying, since a netlink
/// message that it does not know fails with all that stands behind it.
fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().unwrap_or_default().split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|digits| digits.parse::<u32>().ok()).unwrap_or(0);
    (next(), next()) >= (major, minor)
}

fn addresses(ipv6: bool, v4: Ipv4Addr, v6: Ipv6Addr) -> Vec<IpAddr> {
    if ipv6 { vec![v4.into(), v6.into()] } else { vec![v4.into()] }
}

fn tcp(role: SocketRole, address: IpAddr, port: u16) -> Listener {
    Listener { role, address: SocketAddr::new(address, port), stream: true }
}

/// For programs that do use proxies. The others need none of these. A proxy of somebody else's is not shown the token.
fn variables(policy: &NetworkPolicy, token: &str, port: u16) -> Vec<(OsString, OsString)> {
    // Python compares `[::1]` as it stands in the address, curl without the brackets.
    const NO_PROXY: &str =
        "localhost,127.0.0.1,::1,[::1],169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16";
    let login = |external: Option<u16>| match external {
        Some(_) => String::new(),
        None => format!("kennel:{token}@"),
    };
    let http = format!("http://{}127.0.0.1:{port}", login(policy.http_proxy_port));
    let socks = format!("socks5h://{}127.0.0.1:{port}", login(policy.socks_proxy_port));
    let both = |name: &str, value: &str| {
        [(name.to_owned(), value.to_owned()), (name.to_lowercase(), value.to_owned())]
    };
    let mut list = Vec::new();
    list.extend(both("HTTP_PROXY", &http));
    list.extend(both("HTTPS_PROXY", &http));
    list.extend(both("ALL_PROXY", &socks));
    list.extend(both("GRPC_PROXY", &socks));
    list.extend(both("FTP_PROXY", &socks));
    list.extend(both("NO_PROXY", NO_PROXY));
    list.push(("RSYNC_PROXY".into(), format!("{}127.0.0.1:{port}", login(policy.http_proxy_port))));
    list.push(("DOCKER_HTTP_PROXY".into(), http.clone()));
    list.push(("DOCKER_HTTPS_PROXY".into(), http));
    list.push(("CLOUDSDK_PROXY_TYPE".into(), "http".into()));
    list.push(("CLOUDSDK_PROXY_ADDRESS".into(), "127.0.0.1".into()));
    list.push(("CLOUDSDK_PROXY_PORT".into(), port.to_string()));
    if policy.http_proxy_port.is_none() {
        list.push(("CLOUDSDK_PROXY_USERNAME".into(), "kennel".into()));
        list.push(("CLOUDSDK_PROXY_PASSWORD".into(), token.into()));
    }
    // git would otherwise first ask without the token, and some servers' answers confuse it.
    list.push(("GIT_CONFIG_PARAMETERS".into(), "'http.proxyAuthMethod=basic'".into()));
    list.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}
