//! Addresses that stand for names.
//!
//! A program that knows no proxy looks a name up and connects to what it got. The gate answers with an address that
//! exists only inside the sandbox and remembers which name it meant; when the connection arrives, the address is
//! turned back into the name, and the decision is made about the name. The same name always gets the same address,
//! and an address that was given once is not given to another name until the whole range has gone round.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544): no real host is there.
pub const RANGE_V4: (Ipv4Addr, u8) = (Ipv4Addr::new(198, 18, 0, 0), 15);
/// A unique local prefix (RFC 4193) whose bytes spell `kennel`.
pub const RANGE_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfd6b, 0x656e, 0x6e65, 0x6c, 0, 0, 0, 0), 64);
/// What the sandbox itself is called in those ranges.
pub const SANDBOX_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// What the sandbox itself is called in those ranges.
pub const SANDBOX_V6: Ipv6Addr = Ipv6Addr::new(0xfd6b, 0x656e, 0x6e65, 0x6c, 0, 0, 0, 1);

/// The first 256 numbers are the sandbox's and the gate's own.
const FIRST: u32 = 256;
const LAST: u32 = (1 << 17) - 1;
/// The most names that have an address at a time; a wildcard rule lets a program ask for as many as it likes.
const MAX_NAMES: usize = 8192;

/// The table of one sandbox.
#[derive(Debug)]
pub(crate) struct SyntheticNames {
    numbers: HashMap<String, u32>,
    /// The same, read the other way.
    names: HashMap<u32, String>,
    /// In the order in which they were given.
    given: VecDeque<u32>,
    next: u32,
}

impl Default for SyntheticNames {
    fn default() -> Self {
        SyntheticNames { numbers: HashMap::new(), names: HashMap::new(), given: VecDeque::new(), next: FIRST }
    }
}

/// The two addresses of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

impl SyntheticNames {
    pub(crate) fn addresses(&mut self, name: &str) -> Pair {
        if let Some(&number) = self.numbers.get(name) {
            return pair(number);
        }
        if self.given.len() >= MAX_NAMES
            && let Some(oldest) = self.given.pop_front()
            && let Some(forgotten) = self.names.remove(&oldest)
        {
            self.numbers.remove(&forgotten);
        }
        let number = self.next;
        self.next = if number == LAST { FIRST } else { number + 1 };
        self.numbers.insert(name.to_owned(), number);
        self.names.insert(number, name.to_owned());
        self.given.push_back(number);
        pair(number)
    }

    /// The name that an address stands for. `None` says that the address is not of the synthetic ranges,
    /// `Some(None)` that it is but stands for nothing.
    pub(crate) fn name(&self, address: IpAddr) -> Option<Option<&str>> {
        number(address).map(|number| self.names.get(&number).map(String::as_str))
    }
}

fn pair(number: u32) -> Pair {
    let v4 = Ipv4Addr::from(u32::from(RANGE_V4.0) | number);
    let v6 = Ipv6Addr::from(u128::from(RANGE_V6.0) | u128::from(number));
    Pair { v4, v6 }
}

fn number(address: IpAddr) -> Option<u32> {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let (bits, base) = (u32::from(v4), u32::from(RANGE_V4.0));
            (bits >> 17 == base >> 17).then_some(bits & LAST)
        }
        IpAddr::V6(v6) => {
            let (bits, base) = (u128::from(v6), u128::from(RANGE_V6.0));
            // The whole prefix is the gate's, also the part that no number reaches.
            (bits >> 64 == base >> 64).then(|| u32::try_from(bits & u128::from(u64::MAX)).unwrap_or(0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_addresses_and_they_lead_back_to_it() {
        let mut table = SyntheticNames::default();
        let first = table.addresses("a.test");
        let second = table.addresses("b.test");
        assert_ne!(first, second);
        assert_eq!(table.addresses("a.test"), first);
        for address in [first.v4.into(), first.v6.into(), first.v4.to_ipv6_mapped().into()] {
            assert_eq!(table.name(address), Some(Some("a.test")), "{address}");
        }
        assert_eq!(table.name(SANDBOX_V4.into()), Some(None));
        assert_eq!(table.name("fd6b:656e:6e65:6c:1::100".parse().unwrap()), Some(None));
        assert_eq!(table.name("198.20.0.0".parse().unwrap()), None);
        assert_eq!(table.name("203.0.113.5".parse().unwrap()), None);
    }

    #[test]
    fn the_table_is_bounded_and_a_forgotten_address_leads_nowhere() {
        let mut table = SyntheticNames::default();
        let first = table.addresses("first.test");
        for number in 0..MAX_NAMES {
            table.addresses(&format!("n{number}.test"));
        }
        assert_eq!(table.names.len(), MAX_NAMES);
        assert_eq!(table.numbers.len(), MAX_NAMES);
        assert_eq!(table.name(first.v4.into()), Some(None));
        assert_ne!(table.addresses("first.test"), first);
    }

    #[test]
    fn the_range_goes_round_without_touching_the_reserved_part() {
        let mut table = SyntheticNames { next: LAST, ..SyntheticNames::default() };
        let last = table.addresses("last.test");
        let again = table.addresses("again.test");
        assert_eq!(last.v4, Ipv4Addr::new(198, 19, 255, 255));
        assert_eq!(again.v4, Ipv4Addr::new(198, 18, 1, 0));
    }
}
