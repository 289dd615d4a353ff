//! Budgets on traffic: how many bytes may leave a sandbox and come into it, in total, to a host, and in a second.

use std::fmt;
use std::net::IpAddr;

use crate::domain::{HostPattern, HostRule, HostRuleError, ListKind};
use crate::origin::Origin;
use crate::printed::show;
use crate::quantity::{self, QuantityError};

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// Bytes that leave, from the start to the end.
    Egress,
    /// Bytes that come in.
    Ingress,
    /// Bytes that leave, in a second.
    EgressRate,
    /// Bytes that come in, in a second.
    IngressRate,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 4] =
        [Measure::Egress, Measure::Ingress, Measure::EgressRate, Measure::IngressRate];

    /// Its key in a settings file.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Measure::Egress => "egress",
            Measure::Ingress => "ingress",
            Measure::EgressRate => "egress_rate",
            Measure::IngressRate => "ingress_rate",
        }
    }

    /// Whether it is about bytes that leave.
    #[must_use]
    pub fn is_out(self) -> bool {
        matches!(self, Measure::Egress | Measure::EgressRate)
    }

    /// Whether it is for each second.
    #[must_use]
    pub fn is_rate(self) -> bool {
        matches!(self, Measure::EgressRate | Measure::IngressRate)
    }
}

/// Every connection is compared with all of them.
const MAX_LIMITS: usize = 256;

/// One limit of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficLimit {
    /// What it counts.
    pub measure: Measure,
    /// The hosts that share it; all traffic if `None`.
    pub host: Option<HostPattern>,
    /// How many bytes; [`TrafficLimit::UNLIMITED`] takes away what a weaker source said.
    pub bytes: u64,
    /// Where it was set.
    pub origin: Origin,
}

/// Why a text is no limit on traffic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrafficError {
    /// Not of this form.
    #[error("`{0}` is not a budget; write SIZE or HOST=SIZE, such as 50M or github.com=5M")]
    Form(String),
    /// No host.
    #[error(transparent)]
    Host(#[from] HostRuleError),
    /// A host with a port, or all hosts.
    #[error("`{0}`: a budget is for a host, whatever the port; for all hosts together write the size alone")]
    Place(String),
    /// No size.
    #[error(transparent)]
    Size(#[from] QuantityError),
    /// Nothing.
    #[error("`{0}` must be greater than 0; to let nothing out, allow no host")]
    Zero(String),
    /// More than anybody means.
    #[error("a budget has at most {MAX_LIMITS} limits")]
    TooMany,
    /// A total for each second.
    #[error("`{0}`: a limit for each second is egress_rate or ingress_rate")]
    Rate(String),
}

impl TrafficLimit {
    /// No limit.
    pub const UNLIMITED: u64 = u64::MAX;

    /// Reads `SIZE` or `HOST=SIZE`; where it is for each second, perhaps with `/s` behind it.
    ///
    /// ```
    /// use kennel_policy::traffic::{Measure, TrafficLimit};
    ///
    /// let limit = TrafficLimit::parse(Measure::Egress, "*.GitHub.com=5M")?;
    /// assert_eq!((limit.to_string().as_str(), limit.bytes), ("*.github.com=5M", 5 << 20));
    /// assert!(TrafficLimit::parse(Measure::Egress, "1M/s").is_err());
    /// # Ok::<(), kennel_policy::traffic::TrafficError>(())
    /// ```
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(measure: Measure, text: &str) -> Result<Self, TrafficError> {
        let shown = || show(text.as_bytes());
        let (host, size) = match text.rsplit_once('=') {
            Some((host, size)) => (Some(host.trim()), size.trim()),
            None => (None, text.trim()),
        };
        if size.is_empty() || host.is_some_and(|host| host.is_empty() || host.contains('=')) {
            return Err(TrafficError::Form(shown()));
        }
        let host = host.map(|host| {
            let rule = HostRule::parse(host, ListKind::Deny)?;
            match (rule.port, rule.host) {
                (Some(_), _) | (None, HostPattern::Any) => Err(TrafficError::Place(shown())),
                (None, host) => Ok(host),
            }
        });
        let host = host.transpose()?;
        let size = match size.strip_suffix("/s") {
            Some(_) if !measure.is_rate() => return Err(TrafficError::Rate(shown())),
            Some(size) => size,
            None => size,
        };
        let bytes = match size {
            "unlimited" => TrafficLimit::UNLIMITED,
            size => quantity::size(size)?,
        };
        if bytes == 0 {
            return Err(TrafficError::Zero(shown()));
        }
        Ok(TrafficLimit { measure, host, bytes, origin: Origin::default() })
    }

    /// Adds a limit that the same source says, in the place of one about the same.
    ///
    /// # Errors
    /// When there are more than anybody means.
    pub fn add(list: &mut Vec<TrafficLimit>, limit: TrafficLimit) -> Result<(), TrafficError> {
        TrafficLimit::put(list, limit);
        if list.len() > MAX_LIMITS { Err(TrafficError::TooMany) } else { Ok(()) }
    }

    /// Whether two limits are about the same.
    #[must_use]
    pub fn is_of_same(&self, other: &TrafficLimit) -> bool {
        self.measure == other.measure && self.host == other.host
    }

    /// Puts a limit in the place of one that is about the same.
    pub fn put(list: &mut Vec<TrafficLimit>, limit: TrafficLimit) {
        match list.iter_mut().find(|other| other.is_of_same(&limit)) {
            Some(other) => *other = limit,
            None => list.push(limit),
        }
    }
}

impl fmt::Display for TrafficLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(HostPattern::Ip(IpAddr::V6(address))) => write!(f, "[{address}]=")?,
            Some(host) => write!(f, "{host}=")?,
            None => {}
        }
        write!(f, "{}", Size(self.bytes))?;
        if self.measure.is_rate() { f.write_str("/s") } else { Ok(()) }
    }
}

/// A size as people write it, exactly.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == TrafficLimit::UNLIMITED {
            return f.write_str("unlimited");
        }
        let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')];
        match units.into_iter().find(|(shift, _)| self.0 != 0 && self.0.trailing_zeros() >= *shift) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_size_perhaps_of_a_host() {
        let shown = |measure, text: &str| TrafficLimit::parse(measure, text).unwrap().to_string();
        for (text, expected) in [
            ("50M", "50M"),
            ("1.5K", "1536"),
            ("1000", "1000"),
            ("github.com=5M", "github.com=5M"),
            ("*.Example.com = 1024K", "*.example.com=1M"),
            ("127.1=1", "127.0.0.1=1"),
            ("10.0.0.0/8=1G", "10.0.0.0/8=1G"),
            ("[::1]=1T", "[::1]=1T"),
            ("unlimited", "unlimited"),
        ] {
            assert_eq!(shown(Measure::Egress, text), expected);
            let again = shown(Measure::IngressRate, text);
            assert_eq!(again, format!("{expected}/s"));
            assert_eq!(shown(Measure::IngressRate, &again), again);
        }
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for (measure, text) in [
            (Measure::Egress, ""),
            (Measure::Egress, "="),
            (Measure::Egress, "a.test="),
            (Measure::Egress, "=5M"),
            (Measure::Egress, "a.test:443=5M"),
            (Measure::Egress, "tcp://a.test:443=5M"),
            (Measure::Egress, "https://a.test/=5M"),
            (Measure::Egress, "*=5M"),
            (Measure::Egress, "a=b=5M"),
            (Measure::Egress, "0"),
            (Measure::Egress, "-5"),
            (Measure::Egress, "5M/s"),
            (Measure::EgressRate, "5M/m"),
            (Measure::EgressRate, "/s"),
        ] {
            assert!(TrafficLimit::parse(measure, text).is_err(), "{text}");
        }
    }
}
