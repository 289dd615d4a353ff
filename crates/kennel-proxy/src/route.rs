//! Where a connection is to lead, and by which way it gets there.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use kennel_policy::domain::Host;

use crate::meter::Meter;
use crate::parent::ParentProxy;

/// A host and port that someone wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

/// The way to a host that was allowed, and who counts what goes there.
pub(crate) struct Route {
    pub(crate) hop: Hop,
    pub(crate) meter: Option<Meter>,
}

/// Where a connection is made to.
pub(crate) enum Hop {
    /// Straight to one of these, which were all checked.
    Direct(Vec<SocketAddr>),
    /// By a proxy, whose own addresses these are.
    Parent(ParentProxy, Vec<SocketAddr>),
    /// By a SOCKS proxy there.
    Socks(SocketAddr),
}

/// What kind of exit a connection needs from a parent proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A plain HTTP request.
    Request,
    /// Bytes.
    Tunnel,
}
