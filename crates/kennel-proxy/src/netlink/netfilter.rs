//! nftables: one table, one chain, five rules.
//!
//! ```text
//! table inet kennel {
//!     chain doors {
//!         type nat hook output priority -100; policy accept;
//!         ip daddr 127.0.0.0/8 accept
//!         ip6 daddr ::1 accept
//!         meta l4proto tcp redirect to :TRANSPARENT
//!         udp dport 53 redirect to :DNS
//!         reject with icmpx admin-prohibited
//!     }
//! }
//! ```
//!
//! A chain of type *nat* sees the first packet of each connection only, which is all that has to be decided here;
//! the connection table does the rest. Rejecting in the same chain saves a second one: start-up time counts.

use super::DoorPorts;
use super::message::{ACK, APPEND, Attributes, CREATE, Messages};

const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// `NFNL_SUBSYS_NFTABLES`, the high byte of its messages' types.
const NFTABLES: u8 = 10;
const NEWTABLE: u16 = 0;
const NEWCHAIN: u16 = 3;
const NEWRULE: u16 = 6;
/// Both IPv4 and IPv6.
const NFPROTO_INET: u8 = 1;
const TABLE: &str = "kennel";
const CHAIN: &str = "doors";

const TCP: u8 = 6;
const UDP: u8 = 17;

pub(super) fn redirect_to_doors(ports: &DoorPorts) -> Vec<u8> {
    let rules = [
        Expressions::default().family(2).payload(Base::Network, 16, 1).equals(&[127]).accept(),
        Expressions::default()
            .family(10)
            .payload(Base::Network, 24, 16)
            .equals(&std::net::Ipv6Addr::LOCALHOST.octets())
            .accept(),
        Expressions::default().protocol(TCP).redirect(ports.transparent),
        Expressions::default()
            .protocol(UDP)
            .payload(Base::Transport, 2, 2)
            .equals(&53u16.to_be_bytes())
            .redirect(ports.dns),
        Expressions::default().reject(),
    ];
    let mut messages = Messages::default();
    messages.push(BATCH_BEGIN, 0, &batch_header(), &Attributes::default());
    messages.push(kind(NEWTABLE), CREATE, &header(), &Attributes::default().with_text(1, TABLE));
    messages.push(kind(NEWCHAIN), CREATE, &header(), &chain());
    let last = rules.len() - 1;
    for (place, expressions) in rules.iter().enumerate() {
        // Before 6.10 the batch's own end is never acknowledged, so the last rule is asked about. Its answer is
        // sent when the whole batch has been committed.
        let ack = if place == last { ACK } else { 0 };
        let rule =
            Attributes::default().with_text(1, TABLE).with_text(2, CHAIN).with_nested(4, &expressions.0);
        messages.push(kind(NEWRULE), APPEND | ack, &header(), &rule);
    }
    messages.push(BATCH_END, 0, &batch_header(), &Attributes::default());
    messages.into_bytes()
}

fn kind(message: u16) -> u16 {
    u16::from(NFTABLES) << 8 | message
}

/// `struct nfgenmsg`.
fn header() -> [u8; 4] {
    [NFPROTO_INET, 0, 0, 0]
}

/// `struct nfgenmsg` that says for which subsystem the batch is.
fn batch_header() -> [u8; 4] {
    [0, 0, 0, NFTABLES]
}

fn chain() -> Attributes {
    const LOCAL_OUT: u32 = 3;
    /// Where destination addresses are changed.
    const DSTNAT: i32 = -100;
    let hook = Attributes::default().with_u32(1, LOCAL_OUT).with_u32(2, DSTNAT.cast_unsigned());
    Attributes::default().with_text(1, TABLE).with_text(3, CHAIN).with_nested(4, &hook).with_text(7, "nat")
}

/// The header that a payload's offset counts from.
#[derive(Clone, Copy)]
enum Base {
    Network = 1,
    Transport = 2,
}

/// The expressions of one rule: each loads something into register 1 or looks at what is there.
#[derive(Default)]
struct Expressions(Attributes);

const REGISTER: u32 = 1;

impl Expressions {
    fn expression(self, name: &str, data: &Attributes) -> Self {
        let expression = Attributes::default().with_text(1, name).with_nested(2, data);
        Expressions(self.0.with_nested(1, &expression))
    }

    fn meta(self, key: u32) -> Self {
        let data = Attributes::default().with_u32(1, REGISTER).with_u32(2, key);
        self.expression("meta", &data)
    }

    /// Goes on only for this address family.
    fn family(self, family: u8) -> Self {
        const META_NFPROTO: u32 = 15;
        self.meta(META_NFPROTO).equals(&[family])
    }

    /// Goes on only for this protocol.
    fn protocol(self, protocol: u8) -> Self {
        const META_L4PROTO: u32 = 16;
        self.meta(META_L4PROTO).equals(&[protocol])
    }

    fn payload(self, base: Base, offset: u32, length: u32) -> Self {
        let data = Attributes::default()
            .with_u32(1, REGISTER)
            .with_u32(2, base as u32)
            .with_u32(3, offset)
            .with_u32(4, length);
        self.expression("payload", &data)
    }

    /// Goes on only if the register holds this.
    fn equals(self, value: &[u8]) -> Self {
        let value = Attributes::default().with(1, value);
        let data = Attributes::default().with_u32(1, REGISTER).with_u32(2, 0).with_nested(3, &value);
        self.expression("cmp", &data)
    }

    fn accept(self) -> Self {
        const NF_ACCEPT: u32 = 1;
        let verdict = Attributes::default().with_u32(1, NF_ACCEPT);
        let value = Attributes::default().with_nested(2, &verdict);
        // Register 0 is the verdict.
        let data = Attributes::default().with_u32(1, 0).with_nested(2, &value);
        self.expression("immediate", &data)
    }

    fn redirect(self, port: u16) -> Self {
        let value = Attributes::default().with(1, &port.to_be_bytes());
        let data = Attributes::default().with_u32(1, REGISTER).with_nested(2, &value);
        let ports = Attributes::default().with_u32(1, REGISTER);
        self.expression("immediate", &data).expression("redir", &ports)
    }

    /// Refuses in words that both IPv4 and IPv6 have.
    fn reject(self) -> Self {
        const ICMPX_UNREACHABLE: u32 = 2;
        const ADMIN_PROHIBITED: u8 = 3;
        let data = Attributes::default().with_u32(1, ICMPX_UNREACHABLE).with(2, &[ADMIN_PROHIBITED]);
        self.expression("reject", &data)
    }
}
