//! The network gate: which hosts a sandbox can reach, decided by name, for programs that know a proxy and for those
//! that do not.
//!
//! A sandbox's network namespace has nothing but its loopback. Sockets that were made inside it are handed to a
//! [`Gate`], which accepts from them and connects out from the host's side. Every door asks the same question,
//! [`Gate::decide`]: the HTTP and SOCKS5 proxy, the transparent door for plain connections, and the name server,
//! which answers with addresses that exist only inside and stand for names.
//!
//! [`netlink`] builds the messages that make the inside of the namespace deliver everything to those doors.

mod address;
mod ask;
mod auth;
mod client;
mod clock;
mod connect;
pub mod dns;
mod doors;
mod forward;
mod gate;
#[cfg(unix)]
pub mod gateway;
pub mod http;
mod inside;
#[cfg(unix)]
mod inspect;
mod meter;
mod metered;
pub mod netlink;
mod open;
mod parent;
pub mod protocols;
mod random;
mod record;
mod relay;
mod resolver;
mod route;
mod rules;
#[cfg(unix)]
pub mod secrets;
#[cfg(unix)]
mod services;
mod slots;
mod sockets;
pub mod socks;
pub mod ssh;
pub mod synthetic;
mod times;
pub mod tls;

pub use address::{AddressClass, classify};
pub use ask::{Answer, Ask, Question};
pub use auth::Credentials;
pub use client::{Program, Transport, Who};
pub use gate::{External, Gate, Settings};
#[cfg(unix)]
pub use inspect::{Authority, AuthorityError, BUNDLES, Inspect, Inspector, Roots, RootsError};
pub use open::{GateSockets, OpenError, OpenGate};
pub use parent::{Bypass, ParentProxies, ParentProxy, ParentProxyError};
pub use random::random;
pub use record::{BY_SETTING, Door, MAX_RECORDS, Record, Verdict, summary};
pub use resolver::{ResolveError, ResolverSettings};
pub use rules::{Decision, DenyReason, HOST_ALIAS, Rules, Unlisted};
pub use sockets::Socket;
pub use times::Times;
