//! Counting what leaves and what comes in, and holding it to the policy's budget.
//!
//! Counted are the bytes that the gate writes to and reads from the sockets that lead away from the sandbox, with TLS and the
//! words to a proxy on the way, and its questions to name servers. A byte is asked for before it is moved, under one lock: however many
//! connections there are, nothing passes a total. Hosts are kept by name, up to a number; what a sandbox makes up beyond
//! that is counted together, and limits are the policy's, so no name that is made up has one of its own.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kennel_policy::domain::Host;
use kennel_policy::outcome::{HostTraffic, LimitUse, TrafficUse};
use kennel_policy::traffic::TrafficLimit;
use tokio::time::Instant;

use crate::record::MAX_RECORDS;
use crate::rules::DenyReason;

/// What a connection counts for before it carries anything: it tells somebody by its port, or by being made at all. About what TCP sends
/// to open it.
const OPENING: u64 = 64;

/// The two directions of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Away from the sandbox.
    Out,
    /// Into it.
    In,
}

/// Why bytes do not move.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// They may after this time.
    Wait(Duration),
    /// They never will: this limit is reached.
    Spent(String),
}

/// An error that says that a budget is used up.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", DenyReason::Budget(self.0.clone()))]
pub(crate) struct BudgetSpent(String);

impl BudgetSpent {
    /// The limit that an error is about, if it is one of these.
    pub(crate) fn of(error: &io::Error) -> Option<&str> {
        let inner = error.get_ref()?.downcast_ref::<BudgetSpent>()?;
        Some(&inner.0)
    }
}

/// All that is counted for a sandbox.
#[derive(Debug)]
pub(crate) struct TrafficCounter(Mutex<Book>);

#[derive(Debug)]
struct Book {
    accounts: Vec<Account>,
    total: Counts,
    hosts: Vec<(String, Counts)>,
    /// Where in `hosts` each one is.
    places: HashMap<String, usize>,
    /// Hosts beyond those.
    others: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent: u64,
    received: u64,
}

impl Counts {
    fn add(&mut self, way: Flow, bytes: u64) {
        let count = match way {
            Flow::Out => &mut self.sent,
            Flow::In => &mut self.received,
        };
        *count = count.saturating_add(bytes);
    }
}

/// A limit, and what is left of it.
#[derive(Debug)]
struct Account {
    limit: TrafficLimit,
    left: Left,
}

#[derive(Debug)]
enum Left {
    Total(u64),
    Rate(Bucket),
}

impl Account {
    fn new(limit: TrafficLimit) -> Self {
        let left = match limit.measure.is_rate() {
            true => Left::Rate(Bucket::new(limit.bytes)),
            false => Left::Total(limit.bytes),
        };
        Account { limit, left }
    }

    fn is_of(&self, way: Flow) -> bool {
        self.limit.measure.is_out() == (way == Flow::Out)
    }

    fn concerns(&self, host: &Host) -> bool {
        self.limit.host.as_ref().is_none_or(|pattern| pattern.matches(host))
    }

    /// Its setting and its value.
    fn name(&self) -> String {
        format!("{} {}", self.limit.measure.key(), self.limit)
    }

    fn charge(&mut self, bytes: u64) {
        match &mut self.left {
            Left::Total(left) => *left = left.saturating_sub(bytes),
            Left::Rate(bucket) => bucket.level = bucket.level.saturating_sub_unsigned(bytes),
        }
    }
}

/// Fills by so many bytes in a second. It holds an eighth of a second's, so that what was saved up is no burst to speak of.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    /// Below zero for a message that went as a whole.
    level: i64,
    filled: Instant,
}

const SECOND: u128 = 1_000_000_000;

impl Bucket {
    fn new(rate: u64) -> Self {
        let mut bucket = Bucket { rate, level: 0, filled: Instant::now() };
        bucket.level = bucket.capacity();
        bucket
    }

    fn capacity(&self) -> i64 {
        i64::try_from(self.rate / 8).unwrap_or(i64::MAX).max(1)
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_nanos();
        let new = passed.saturating_mul(self.rate.into()) / SECOND;
        let level = i128::from(self.level).saturating_add_unsigned(new);
        match i64::try_from(level) {
            Ok(level) if level < self.capacity() => {
                self.level = level;
                // What is not yet a whole byte is not lost.
                self.filled += nanoseconds(new * SECOND / u128::from(self.rate.max(1)));
            }
            _ => (self.level, self.filled) = (self.capacity(), now),
        }
    }

    /// How long until there is something worth moving; `None` when there is.
    fn wait(&self) -> Option<Duration> {
        if self.level > 0 {
            return None;
        }
        let wanted = (self.capacity() / 4).max(1).saturating_sub(self.level).unsigned_abs();
        let time = u128::from(wanted) * SECOND / u128::from(self.rate.max(1));
        Some(nanoseconds(time).max(Duration::from_millis(1)))
    }
}

fn nanoseconds(count: u128) -> Duration {
    Duration::from_nanos(u64::try_from(count).unwrap_or(u64::MAX))
}

impl Book {
    /// How many bytes may move now, of so many that want to.
    fn allowance(&mut self, accounts: &[usize], way: Flow, most: u64) -> Result<u64, Halt> {
        let (mut allowed, mut wait, mut now) = (most, None, None);
        for &place in accounts {
            let account = &mut self.accounts[place];
            if !account.is_of(way) {
                continue;
            }
            let left = match &mut account.left {
                Left::Total(0) => return Err(Halt::Spent(account.name())),
                Left::Total(left) => *left,
                Left::Rate(bucket) => {
                    bucket.fill(*now.get_or_insert_with(Instant::now));
                    wait = wait.max(bucket.wait());
                    bucket.level.max(0).unsigned_abs()
                }
            };
            allowed = allowed.min(left);
        }
        match wait {
            Some(time) => Err(Halt::Wait(time)),
            None => Ok(allowed),
        }
    }

    fn charge(&mut self, accounts: &[usize], host: Option<usize>, way: Flow, bytes: u64) {
        for &place in accounts {
            let account = &mut self.accounts[place];
            if account.is_of(way) {
                account.charge(bytes);
            }
        }
        self.total.add(way, bytes);
        match host {
            Some(place) => self.hosts[place].1.add(way, bytes),
            None => self.others.add(way, bytes),
        }
    }

    /// Where a host is counted; `None` for what is counted together.
    fn host(&mut self, host: String) -> Option<usize> {
        if let Some(place) = self.places.get(&host) {
            return Some(*place);
        }
        let place = self.hosts.len();
        if place >= MAX_RECORDS {
            return None;
        }
        self.places.insert(host.clone(), place);
        self.hosts.push((host, Counts::default()));
        Some(place)
    }

    fn concerning(&self, host: &Host) -> Vec<usize> {
        (0..self.accounts.len()).filter(|place| self.accounts[*place].concerns(host)).collect()
    }
}

impl TrafficCounter {
    /// Counts by this budget; `None` where there is none.
    pub(crate) fn new(budget: &[TrafficLimit]) -> Option<TrafficCounter> {
        let accounts: Vec<Account> = budget.iter().cloned().map(Account::new).collect();
        (!accounts.is_empty()).then(|| {
            TrafficCounter(Mutex::new(Book {
                accounts,
                total: Counts::default(),
                hosts: Vec::new(),
                places: HashMap::new(),
                others: Counts::default(),
            }))
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic elsewhere leaves it whole: each change is a number.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit that keeps a new connection to this host from being of any use.
    pub(crate) fn spent(&self, host: &Host) -> Option<String> {
        let book = self.book();
        let is_spent = |account: &&Account| match account.left {
            Left::Total(left) => {
                account.concerns(host) && (left == 0 || account.is_of(Flow::Out) && left < OPENING)
            }
            Left::Rate(_) => false,
        };
        book.accounts.iter().find(is_spent).map(Account::name)
    }

    /// What was counted so far.
    pub(crate) fn used(&self) -> TrafficUse {
        let book = self.book();
        let counted = |host: &str, counts: &Counts| HostTraffic {
            host: host.to_owned(),
            egress: counts.sent,
            ingress: counts.received,
        };
        let limit = |account: &Account| {
            let Left::Total(left) = account.left else { return None };
            Some(LimitUse { limit: account.name(), used: account.limit.bytes - left })
        };
        TrafficUse {
            egress: book.total.sent,
            ingress: book.total.received,
            hosts: book.hosts.iter().map(|(host, counts)| counted(host, counts)).collect(),
            other_hosts: HostTraffic {
                egress: book.others.sent,
                ingress: book.others.received,
                ..HostTraffic::default()
            },
            limits: book.accounts.iter().filter_map(limit).collect(),
        }
    }
}

/// Counts what one connection moves. Clones are the same.
#[derive(Clone)]
pub(crate) struct Meter(Arc<Counted>);

/// Told of the limit that ends a connection.
type OnSpent = Box<dyn Fn(&str) + Send + Sync>;

struct Counted {
    counter: Arc<TrafficCounter>,
    host: Option<usize>,
    /// The limits that its bytes count for.
    accounts: Vec<usize>,
    /// The limit that ended the connection.
    ended_by: OnceLock<String>,
    ending: OnSpent,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.0.accounts).finish()
    }
}

impl Meter {
    /// For a connection to `host`. `ending` hears once of the limit that ends it.
    pub(crate) fn new(counter: &Arc<TrafficCounter>, host: &Host, ending: OnSpent) -> Meter {
        let (place, accounts) = {
            let mut book = counter.book();
            (book.host(host.to_string()), book.concerning(host))
        };
        let (counter, ended_by) = (Arc::clone(counter), OnceLock::new());
        Meter(Arc::new(Counted { counter, host: place, accounts, ended_by, ending }))
    }

    /// Moves at most so many bytes by `call`, which does not block and tells how many it moved.
    pub(crate) fn pass(
        &self,
        way: Flow,
        most: usize,
        call: impl FnOnce(usize) -> io::Result<usize>,
    ) -> Result<io::Result<usize>, Halt> {
        let own = &*self.0;
        let mut book = own.counter.book();
        let allowed = book.allowance(&own.accounts, way, most as u64)?;
        let moved = call(usize::try_from(allowed).unwrap_or(most));
        if let Ok(count) = moved {
            book.charge(&own.accounts, own.host, way, count as u64);
        }
        Ok(moved)
    }

    /// How long it takes until a byte may move that way, as far as rates go; `None` when one may now.
    pub(crate) fn wait(&self, way: Flow) -> Option<Duration> {
        match self.0.counter.book().allowance(&self.0.accounts, way, 1) {
            Err(Halt::Wait(time)) => Some(time),
            _ => None,
        }
    }

    /// Waits until a byte may move that way.
    pub(crate) async fn until(&self, way: Flow) {
        while let Some(time) = self.wait(way) {
            tokio::time::sleep(time).await;
        }
    }

    /// A connection is about to be made.
    pub(crate) async fn opening(&self) -> io::Result<()> {
        self.message(OPENING as usize).await
    }

    /// A message that goes as a whole, or not at all.
    pub(crate) async fn message(&self, length: usize) -> io::Result<()> {
        self.until(Flow::Out).await;
        let own = &*self.0;
        let short = {
            let mut book = own.counter.book();
            let length = length as u64;
            let mut accounts = own.accounts.iter().map(|place| &book.accounts[*place]);
            let short = accounts.find(|account| {
                account.is_of(Flow::Out) && matches!(account.left, Left::Total(left) if left < length)
            });
            let short = short.map(Account::name);
            if short.is_none() {
                book.charge(&own.accounts, own.host, Flow::Out, length);
            }
            short
        };
        short.map_or(Ok(()), |limit| Err(self.spent(limit)))
    }

    /// A message that has come.
    pub(crate) fn came(&self, length: usize) {
        let own = &*self.0;
        own.counter.book().charge(&own.accounts, own.host, Flow::In, length as u64);
    }

    /// Notes that a budget ended this connection, and makes the error that says so.
    pub(crate) fn spent(&self, limit: String) -> io::Error {
        if self.0.ended_by.set(limit.clone()).is_ok() {
            (self.0.ending)(&limit);
        }
        io::Error::other(BudgetSpent(limit))
    }

    /// The limit that ended the connection, if one did.
    pub(crate) fn ended_by(&self) -> Option<&str> {
        self.0.ended_by.get().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use kennel_policy::traffic::Measure;

    use super::*;
    use crate::gate::Gate;
    use crate::record::Door;
    use crate::route::Target;
    use crate::{Rules, Settings};

    fn gate(limits: &[(Measure, &str)]) -> Gate {
        let budget = limits.iter().map(|(measure, text)| TrafficLimit::parse(*measure, text).unwrap());
        Gate::new(Rules::default(), Settings { budget: budget.collect(), ..Settings::default() })
    }

    fn meter(gate: &Gate, host: &str) -> Meter {
        let target = Target { host: Host::parse(host).unwrap(), port: 443 };
        gate.meter(&target, Door::Connect).unwrap()
    }

    fn moves(meter: &Meter, way: Flow, most: usize) -> Result<usize, Halt> {
        meter.pass(way, most, Ok).map(Result::unwrap)
    }

    #[test]
    fn nothing_passes_a_total_and_hosts_of_a_suffix_share_theirs() {
        let gate = gate(&[(Measure::Egress, "100"), (Measure::Egress, "*.a.test=30")]);
        let (one, two, other) =
            (meter(&gate, "one.a.test"), meter(&gate, "two.a.test"), meter(&gate, "b.test"));
        assert_eq!(moves(&one, Flow::Out, 20).unwrap(), 20);
        assert_eq!(moves(&two, Flow::Out, 20).unwrap(), 10);
        assert!(
            matches!(moves(&one, Flow::Out, 1), Err(Halt::Spent(limit)) if limit == "egress *.a.test=30")
        );
        assert_eq!(moves(&other, Flow::Out, 1000).unwrap(), 70);
        assert!(matches!(moves(&other, Flow::Out, 1), Err(Halt::Spent(limit)) if limit == "egress 100"));
        assert_eq!(moves(&other, Flow::In, 1000).unwrap(), 1000);
        let used = gate.traffic_use().unwrap();
        assert_eq!((used.egress, used.ingress), (100, 1000));
        let hosts: Vec<_> =
            used.hosts.iter().map(|own| (own.host.as_str(), own.egress, own.ingress)).collect();
        assert_eq!(hosts, [("one.a.test", 20, 0), ("two.a.test", 10, 0), ("b.test", 70, 1000)]);
        let limits: Vec<_> = used.limits.iter().map(|own| (own.limit.as_str(), own.used)).collect();
        assert_eq!(limits, [("egress 100", 100), ("egress *.a.test=30", 30)]);
    }

    #[test]
    fn what_was_not_moved_is_not_charged() {
        let gate = gate(&[(Measure::Egress, "100")]);
        let meter = meter(&gate, "a.test");
        for _ in 0..50 {
            let failed = meter.pass(Flow::Out, 80, |_| Err(io::ErrorKind::WouldBlock.into()));
            assert!(failed.unwrap().is_err());
        }
        assert_eq!(meter.pass(Flow::Out, 80, |_| Ok(3)).unwrap().unwrap(), 3);
        assert_eq!(moves(&meter, Flow::Out, 100).unwrap(), 97);
    }

    #[test]
    fn made_up_hosts_are_counted_together_and_the_table_is_bounded() {
        let gate = gate(&[(Measure::Egress, "1G")]);
        for number in 0..MAX_RECORDS + 100 {
            moves(&meter(&gate, &format!("h{number}.a.test")), Flow::Out, 1).unwrap();
        }
        let used = gate.traffic_use().unwrap();
        assert_eq!((used.hosts.len(), used.other_hosts.egress), (MAX_RECORDS, 100));
        assert_eq!(used.egress, (MAX_RECORDS + 100) as u64);
    }

    #[tokio::test]
    async fn a_rate_slows_and_does_not_cut() {
        let gate = gate(&[(Measure::EgressRate, "80000/s"), (Measure::EgressRate, "slow.test=800/s")]);
        let one = async |host, rate: usize| {
            let meter = meter(&gate, host);
            let begin = Instant::now();
            let (mut left, mut turns) = (rate, 0);
            while left > 0 {
                meter.until(Flow::Out).await;
                turns += 1;
                left -= moves(&meter, Flow::Out, left).unwrap_or_default();
            }
            let seconds = begin.elapsed().as_secs_f64();
            // An eighth of a second's bytes were saved up.
            assert!((0.84..=2.0).contains(&seconds), "{host}: {seconds} s");
            assert!(turns < 200, "{host}: {turns} turns");
        };
        tokio::join!(one("fast.test", 80_000), one("slow.test", 800));
    }

    #[tokio::test]
    async fn a_message_goes_as_a_whole_or_not_at_all() {
        let slow = meter(&gate(&[(Measure::EgressRate, "80/s")]), "a.test");
        let begin = Instant::now();
        for _ in 0..3 {
            slow.message(40).await.unwrap();
        }
        assert!((0.8..=2.0).contains(&begin.elapsed().as_secs_f64()), "{:?}", begin.elapsed());
        let own = gate(&[(Measure::Egress, "50")]);
        let short = meter(&own, "a.test");
        short.message(40).await.unwrap();
        let refused = short.message(40).await.unwrap_err();
        assert_eq!(refused.to_string(), "the budget is used up (egress 50)");
        assert_eq!(own.traffic_use().unwrap().egress, 40);
        assert_eq!(own.records().len(), 1);
    }
}
