//! The name server of a sandbox. It knows which names are allowed and asks nobody: what leaves the host for a name
//! is a connection that was let through, never a question about it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use kennel_policy::domain::Host;
use tokio::net::UdpSocket;

use crate::client::{CLIENT, Client, Transport, Who};
use crate::clock::within;
use crate::dns::query::{Answer, Code, Query, Unanswerable};
use crate::dns::wire::kind;
use crate::gate::Gate;
use crate::record::{Door, Verdict};
use crate::relay::{Wire, send};
use crate::rules::Decision;

/// Answers packets for as long as the gate is open.
pub(crate) async fn serve_packets(gate: &Gate, socket: &UdpSocket, who: Option<Who>) {
    let mut message = vec![0; 4096];
    loop {
        // An error here is about an earlier answer that found no reader. Should one ever stay, it shall not keep a
        // core busy.
        let Ok((length, client)) = socket.recv_from(&mut message).await else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let from = Client { who: who.clone(), transport: Transport::Udp, address: client };
        let reply = CLIENT.sync_scope(from, || reply(gate, &message[..length]));
        if let Some(reply) = reply {
            // A full socket buffer loses an answer, as it may on any network.
            let _ = socket.try_send_to(&reply, client);
        }
    }
}

/// Answers questions over one TCP connection, each behind its length.
pub(crate) async fn serve_stream(gate: &Gate, mut client: Wire) {
    let times = gate.settings().times;
    loop {
        let message = loop {
            if let Some((length, rest)) = client.inbox.split_first_chunk::<2>()
                && let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*length)))
            {
                break message;
            }
            match within(times.head, client.fill()).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        };
        let used = 2 + message.len();
        if let Some(reply) = reply(gate, message) {
            let framed = [&(reply.len() as u16).to_be_bytes(), reply.as_slice()].concat();
            if send(&client.stream, &framed, times.head).await.is_err() {
                return;
            }
        }
        client.inbox.drain(..used);
    }
}

/// The answer to one message; `None` when it deserves none.
fn reply(gate: &Gate, message: &[u8]) -> Option<Vec<u8>> {
    let query = match Query::parse(message) {
        Ok(query) => query,
        Err(Unanswerable::Reply(reply)) => return Some(reply),
        Err(Unanswerable::Silence) => return None,
    };
    if !query.is_internet() {
        return Some(query.reply(Code::Refused, &[], None));
    }
    let Some(name) = query.name.as_deref() else {
        return Some(query.reply(Code::NoSuchName, &[], Some("kennel: not a host name")));
    };
    if query.kind == kind::PTR {
        return Some(match name_of(gate, name) {
            Some(name) => query.reply(Code::NoError, &[Answer::Pointer(name)], None),
            None => query.reply(Code::NoSuchName, &[], None),
        });
    }
    let own = gate.settings().own_name.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name));
    if own || name == "localhost" || name.ends_with(".localhost") {
        return Some(addresses(&query, Ipv4Addr::LOCALHOST, Some(Ipv6Addr::LOCALHOST)));
    }
    let host = match Host::parse(name) {
        Ok(host @ Host::Name(_)) => host,
        // An address is not a name; a program that asks for one has not read its own input.
        _ => return Some(query.reply(Code::NoSuchName, &[], Some("kennel: not a host name"))),
    };
    let note = |verdict, rule: Option<&_>| gate.note(name, None, Door::Dns, verdict, rule);
    match gate.rules().decide_name(&host) {
        Decision::Deny { reason, rule } => {
            let why = format!("kennel: {name} is {reason}");
            note(Verdict::Denied(reason), rule.as_deref());
            return Some(query.reply(Code::NoSuchName, &[], Some(&why)));
        }
        Decision::Allow { rule } => note(Verdict::Allowed, Some(&rule)),
        Decision::Public => note(Verdict::Allowed, None),
        // The question is put when a connection comes, and its port is known.
        Decision::Ask => {}
    }
    let pair = gate.synthetic(&host.to_string());
    Some(addresses(&query, pair.v4, gate.settings().ipv6.then_some(pair.v6)))
}

fn addresses(query: &Query, v4: Ipv4Addr, v6: Option<Ipv6Addr>) -> Vec<u8> {
    match (query.kind, v6) {
        (kind::A, _) => query.reply(Code::NoError, &[Answer::Address(v4.into())], None),
        (kind::AAAA, Some(v6)) => query.reply(Code::NoError, &[Answer::Address(v6.into())], None),
        // Their content is anyone's data: what a program wants from them is not an address.
        (kind::MX | kind::TXT | kind::SRV | kind::ANY, _) => query.reply(Code::Refused, &[], None),
        // HTTPS and SVCB above all: no such record means "use the address", also no keys for a hidden ClientHello.
        _ => query.reply(Code::NoError, &[], None),
    }
}

/// The name behind `1.1.18.198.in-addr.arpa` and its like.
fn name_of(gate: &Gate, reverse: &str) -> Option<String> {
    let address: IpAddr = if let Some(labels) = reverse.strip_suffix(".in-addr.arpa") {
        let labels: Vec<u8> = labels.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [d, c, b, a] = *labels else { return None };
        Ipv4Addr::new(a, b, c, d).into()
    } else {
        let labels = reverse.strip_suffix(".ip6.arpa")?;
        let mut bits = 0u128;
        let mut count = 0;
        for label in labels.rsplit('.') {
            let digit = u128::from_str_radix(label, 16).ok().filter(|_| label.len() == 1 && count < 32)?;
            bits = bits << 4 | digit;
            count += 1;
        }
        if count != 32 {
            return None;
        }
        Ipv6Addr::from(bits).into()
    };
    if address.is_loopback() {
        return Some("localhost".into());
    }
    gate.behind(address).flatten()
}
