//! What a network needs inside: messages that arrange it, sockets that are handed out, variables that lead there.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kennel_linux::network::{Listener, NetlinkBatch, NetworkPlan, SharedNetwork, SocketRole};
use kennel_policy::policy::NetworkPolicy;
use kennel_proxy::netlink::{DoorPorts, ROUTE, transparent_network};

use crate::network::variables::{ssh_variables, variables};

/// Ports inside. The namespace is the sandbox's own, so these are free.
const PROXY: u16 = 3128;
const TRANSPARENT: u16 = 3129;
const DNS: u16 = 53;
/// The first of the model gateway's, one for each provider.
const GATEWAY: u16 = 3200;

/// Where clients inside find a provider of the model gateway, by its number.
pub(crate) fn gateway_port(provider: u16) -> u16 {
    GATEWAY.saturating_add(provider)
}

/// The inside of an allow list: with netfilter, which leads every connection to the gate; and without, for kernels that
/// have none, with listeners on the ports that the rules name. `on_host` is where the proxy listens for a sandbox
/// without a network of its own.
pub(super) fn network_plan(
    policy: &NetworkPolicy,
    providers: u16,
    ipv6: bool,
    token: &str,
    on_host: Option<u16>,
) -> NetworkPlan {
    let mut sources = Vec::new();
    if !policy.publish.is_empty() {
        for address in addresses(ipv6, Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST) {
            sources.extend([
                tcp(SocketRole::OutboundSocket, address, 0),
                tcp(SocketRole::ConnectTarget, address, 0),
            ]);
        }
    }
    sources.extend(
        policy
            .relays
            .iter()
            .map(|relay| tcp(SocketRole::Relay { port: relay.port }, Ipv4Addr::LOCALHOST.into(), relay.port)),
    );
    sources.extend((0..providers).map(|provider| {
        tcp(SocketRole::Gateway { provider }, Ipv4Addr::LOCALHOST.into(), gateway_port(provider))
    }));
    if !policy.mode.is_gated() {
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
    let to_proxy = variables(policy, token, PROXY);
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
    let shared = on_host.map(|port| SharedNetwork { port, variables: variables(policy, token, port) });
    let fallback = NetworkPlan {
        batches: routes,
        listeners: chosen,
        variables: to_proxy.clone(),
        defaults: ssh_variables(),
        fallback: None,
        shared: shared.clone(),
    };
    let defaults = ssh_variables();
    NetworkPlan {
        batches,
        listeners,
        variables: to_proxy,
        defaults,
        fallback: Some(Box::new(fallback)),
        shared,
    }
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
