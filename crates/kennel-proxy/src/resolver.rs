//! The gate's own resolver: the host's hosts file and its name servers, asked directly.
//!
//! The C library's resolver loads plug-ins at run time, which a static binary cannot. Being our own also keeps the
//! promise that a name is looked up once and only after it was allowed: there is no search list, so `example.com`
//! never becomes `example.com.corp.internal` on the wire.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::within;
use crate::dns::answer::{self, Family, Reply};
use crate::meter::{BudgetSpent, Meter};
use crate::metered::MeteredStream;
use crate::relay::{fill, send};

/// Where the resolver finds its answers.
#[derive(Clone, Debug)]
pub struct ResolverSettings {
    /// Names that need no server; `/etc/hosts`.
    pub hosts_file: PathBuf,
    /// Which servers there are and how patient to be; `/etc/resolv.conf`.
    pub configuration: PathBuf,
    /// These servers instead of those of the configuration.
    pub servers: Option<Vec<SocketAddr>>,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        ResolverSettings {
            // On Windows, where both are missing, the system is asked.
            hosts_file: "/etc/hosts".into(),
            configuration: "/etc/resolv.conf".into(),
            servers: None,
        }
    }
}

/// Why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The servers say that it does not exist.
    #[error("there is no such name")]
    NoSuchName,
    /// It exists and has no address.
    #[error("the name has no address")]
    NoAddress,
    /// Every server failed.
    #[error("the name servers could not answer")]
    Failed,
    /// No server answered in time.
    #[error("the name servers did not answer in time")]
    TimedOut,
    /// A question would pass this limit.
    #[error("the budget is used up ({0})")]
    Spent(String),
}

/// An answer is believed for at most this long, whatever its server says.
const LONGEST_TTL: u32 = 60;
const MAX_REMEMBERED: usize = 512;
/// The most bytes that are read of a hosts file or a configuration.
const MAX_FILE: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Resolver {
    settings: ResolverSettings,
    files: Mutex<Files>,
    remembered: Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>,
    /// Questions under way: a thousand connections to one host at once are one question.
    asked: Mutex<HashMap<String, watch::Receiver<Option<Answer>>>>,
}

/// What the servers say about a name.
type Answer = Result<Vec<IpAddr>, ResolveError>;

/// Who asks the servers about a name.
enum Asking {
    /// This task, which then tells the others.
    Here(watch::Sender<Option<Answer>>),
    /// Another one.
    Elsewhere(watch::Receiver<Option<Answer>>),
}

/// A question under way; also one that is given up is over.
struct Asked<'a> {
    resolver: &'a Resolver,
    name: &'a str,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.resolver.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(self.name);
    }
}

/// What the two files said when they were last read.
#[derive(Debug, Default)]
struct Files {
    /// When each was last changed, as of the last reading.
    changed: Option<[Option<SystemTime>; 2]>,
    hosts: HashMap<String, Vec<IpAddr>>,
    configuration: Configuration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Configuration {
    servers: Vec<SocketAddr>,
    timeout: Duration,
    attempts: u32,
}

impl Default for Configuration {
    fn default() -> Self {
        let servers = vec![(Ipv4Addr::LOCALHOST, 53).into()];
        Configuration { servers, timeout: Duration::from_secs(5), attempts: 2 }
    }
}

impl Resolver {
    pub(crate) fn new(settings: ResolverSettings) -> Self {
        Resolver { settings, files: Mutex::default(), remembered: Mutex::default(), asked: Mutex::default() }
    }

    /// The addresses of a name, in the order in which they are to be tried.
    pub(crate) async fn resolve(
        &self,
        name: &str,
        meter: Option<&Meter>,
    ) -> Result<Vec<IpAddr>, ResolveError> {
        // RFC 6761 §6.3: never asked on the wire.
        if name == "localhost" || name.ends_with(".localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
        }
        let configuration = match self.files(name) {
            (Some(addresses), _) => return Ok(addresses),
            (None, configuration) => configuration,
        };
        if let Some(addresses) = self.recall(name) {
            return Ok(addresses);
        }
        loop {
            let told = match self.begin(name) {
                Asking::Here(told) => told,
                Asking::Elsewhere(mut telling) => {
                    // Whoever asks may go away before it is told; then one of those who waited asks.
                    match telling.wait_for(Option::is_some).await.map(|told| told.clone()) {
                        Ok(Some(answer)) => return answer,
                        _ => continue,
                    }
                }
            };
            let place = Asked { resolver: self, name };
            let answer = self.ask_servers(&configuration, name, meter).await;
            drop(place);
            told.send_replace(Some(answer.clone()));
            return answer;
        }
    }

    /// Joins a question about this name that is under way, or opens one.
    fn begin(&self, name: &str) -> Asking {
        let mut asked = self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match asked.get(name) {
            Some(telling) => Asking::Elsewhere(telling.clone()),
            None => {
                let (told, telling) = watch::channel(None);
                asked.insert(name.to_owned(), telling);
                Asking::Here(told)
            }
        }
    }

    /// The servers' answer, remembered for as long as it may be.
    async fn ask_servers(&self, configuration: &Configuration, name: &str, meter: Option<&Meter>) -> Answer {
        if cfg!(windows) && self.settings.servers.is_none() {
            return ask_system(name).await;
        }
        let (v4, v6) = tokio::join!(
            look_up(configuration, name, Family::V4, meter),
            look_up(configuration, name, Family::V6, meter)
        );
        let (addresses, ttl) = match (v4, v6) {
            (Ok((v4, ttl4)), Ok((v6, ttl6))) => (interleave(&v6, &v4), ttl4.min(ttl6)),
            // One family is enough: some servers drop AAAA questions.
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => one,
            (Err(error), Err(_)) => return Err(error),
        };
        if addresses.is_empty() {
            return Err(ResolveError::NoAddress);
        }
        self.remember(name, &addresses, ttl);
        Ok(addresses)
    }

    fn files(&self, name: &str) -> (Option<Vec<IpAddr>>, Configuration) {
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let now = [changed(&self.settings.hosts_file), changed(&self.settings.configuration)];
        let mut files = self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if files.changed != Some(now) {
            let read = |path: &PathBuf| {
                use std::io::Read as _;
                let mut text = Vec::new();
                let file = std::fs::File::open(path);
                let _ = file.and_then(|file| file.take(MAX_FILE).read_to_end(&mut text));
                String::from_utf8_lossy(&text).into_owned()
            };
            files.hosts = parse_hosts(&read(&self.settings.hosts_file));
            files.configuration = parse_configuration(&read(&self.settings.configuration));
            if let Some(servers) = &self.settings.servers {
                files.configuration.servers.clone_from(servers);
            }
            files.changed = Some(now);
        }
        (files.hosts.get(name).cloned(), files.configuration.clone())
    }

    fn recall(&self, name: &str) -> Option<Vec<IpAddr>> {
        let remembered = self.remembered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (until, addresses) = remembered.get(name)?;
        (Instant::now() < *until).then(|| addresses.clone())
    }

    fn remember(&self, name: &str, addresses: &[IpAddr], ttl: u32) {
        if ttl == 0 {
            return;
        }
        let until = Instant::now() + Duration::from_secs(u64::from(ttl.min(LONGEST_TTL)));
        let mut remembered = self.remembered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, (until, _)| Instant::now() < *until);
        }
        if remembered.len() < MAX_REMEMBERED {
            remembered.insert(name.to_owned(), (until, addresses.to_vec()));
        }
    }
}

/// What the system's own resolver says. Windows keeps its servers, and rules about which to ask for what, in a registry of its
/// own. A dot at the end keeps it from trying other names below its search list.
async fn ask_system(name: &str) -> Answer {
    let found =
        tokio::net::lookup_host((format!("{name}."), 0)).await.map_err(|_| ResolveError::NoSuchName)?;
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) =
        found.map(|address| address.ip()).partition(|address| address.is_ipv6());
    let addresses = interleave(&v6, &v4);
    if addresses.is_empty() { Err(ResolveError::NoAddress) } else { Ok(addresses) }
}

/// RFC 8305 §4: the families take turns, so that one that does not work costs one attempt and not all of them.
fn interleave(first: &[IpAddr], second: &[IpAddr]) -> Vec<IpAddr> {
    let longest = first.len().max(second.len());
    (0..longest).flat_map(|at| [first.get(at), second.get(at)]).flatten().copied().collect()
}

async fn look_up(
    configuration: &Configuration,
    name: &str,
    family: Family,
    meter: Option<&Meter>,
) -> Result<(Vec<IpAddr>, u32), ResolveError> {
    let mut failure = ResolveError::TimedOut;
    for _ in 0..configuration.attempts {
        for server in &configuration.servers {
            match ask(*server, name, family, configuration.timeout, meter).await {
                Ok(Reply::Addresses(addresses, ttl)) => return Ok((addresses, ttl)),
                Ok(Reply::NoSuchName) => return Err(ResolveError::NoSuchName),
                Ok(Reply::Truncated | Reply::Failed) => failure = ResolveError::Failed,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => match BudgetSpent::of(&error) {
                    Some(limit) => return Err(ResolveError::Spent(limit.to_owned())),
                    None => failure = ResolveError::Failed,
                },
            }
        }
    }
    Err(failure)
}

async fn ask(
    server: SocketAddr,
    name: &str,
    family: Family,
    timeout: Duration,
    meter: Option<&Meter>,
) -> io::Result<Reply> {
    let mut id = [0; 2];
    crate::random(&mut id)?;
    let id = u16::from_ne_bytes(id);
    let question = answer::question(id, name, family);
    // A name is a way to tell something, also to whoever serves its domain. A rate is no reason to time out.
    if let Some(meter) = meter {
        meter.message(question.len()).await?;
    }
    match within(timeout, ask_by_udp(server, &question, id, name, family, meter)).await? {
        Reply::Truncated => within(timeout, ask_by_tcp(server, &question, id, name, family, meter)).await,
        reply => Ok(reply),
    }
}

async fn ask_by_udp(
    server: SocketAddr,
    question: &[u8],
    id: u16,
    name: &str,
    family: Family,
    meter: Option<&Meter>,
) -> io::Result<Reply> {
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    // A fresh socket has a random port, and a connected one takes packets from its server only: with the id,
    // that is what a forger has to guess.
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut message = vec![0; 4096];
    loop {
        let length = socket.recv(&mut message).await?;
        if let Some(meter) = meter {
            meter.came(length);
        }
        if let Some(reply) = answer::parse(&message[..length], id, name, family) {
            return Ok(reply);
        }
    }
}

async fn ask_by_tcp(
    server: SocketAddr,
    question: &[u8],
    id: u16,
    name: &str,
    family: Family,
    meter: Option<&Meter>,
) -> io::Result<Reply> {
    let stream = MeteredStream::of_outside(TcpStream::connect(server).await?, meter.cloned());
    let framed = [&(question.len() as u16).to_be_bytes(), question].concat();
    send(&stream, &framed, Duration::from_secs(5)).await?;
    let mut inbox = Vec::new();
    loop {
        if let Some((length, rest)) = inbox.split_first_chunk::<2>()
            && let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*length)))
        {
            return Ok(match answer::parse(message, id, name, family) {
                Some(Reply::Truncated) | None => Reply::Failed,
                Some(reply) => reply,
            });
        }
        if fill(&stream, &mut inbox).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn parse_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else { continue };
        for name in words {
            let own = hosts.entry(name.trim_end_matches('.').to_ascii_lowercase()).or_default();
            if own.len() < 16 && !own.contains(&address) {
                own.push(address);
            }
        }
    }
    hosts
}

/// `resolv.conf(5)`: at most three servers, `timeout` up to 30 seconds, `attempts` up to 5.
fn parse_configuration(text: &str) -> Configuration {
    let mut configuration = Configuration { servers: Vec::new(), ..Configuration::default() };
    for line in text.lines() {
        let mut words = line.split(['#', ';']).next().unwrap_or_default().split_ascii_whitespace();
        match words.next() {
            Some("nameserver") if configuration.servers.len() < 3 => {
                // `fe80::1%eth0` needs the interface's number.
                let server = words.next().and_then(|word| {
                    let (address, scope) = word.split_once('%').unwrap_or((word, ""));
                    match address.parse().ok()? {
                        IpAddr::V6(v6) if !scope.is_empty() => {
                            let scope = scope_number(scope)?;
                            Some(std::net::SocketAddrV6::new(v6, 53, 0, scope).into())
                        }
                        address => Some(SocketAddr::new(address, 53)),
                    }
                });
                configuration.servers.extend(server);
            }
            Some("options") => {
                for word in words {
                    let number = |prefix: &str| word.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
                    if let Some(seconds) = number("timeout:") {
                        configuration.timeout = Duration::from_secs(u64::clamp(seconds, 1, 30));
                    } else if let Some(attempts) = number("attempts:") {
                        configuration.attempts = u64::clamp(attempts, 1, 5) as u32;
                    }
                }
            }
            _ => {}
        }
    }
    if configuration.servers.is_empty() {
        configuration.servers = Configuration::default().servers;
    }
    configuration
}

fn scope_number(scope: &str) -> Option<u32> {
    let number =
        || std::fs::read_to_string(format!("/sys/class/net/{scope}/ifindex")).ok()?.trim().parse().ok();
    let is_a_word = scope.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    scope.parse().ok().or_else(|| is_a_word.then(number)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_configuration_is_read_as_its_manual_says() {
        let text = "# by someone\nnameserver 192.0.2.1\nsearch corp.internal\nnameserver 2001:db8::1 ; here\n\
                    nameserver nonsense\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n\
                    options ndots:5 timeout:2 attempts:99\n";
        let read = parse_configuration(text);
        let servers: Vec<String> = read.servers.iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"]);
        assert_eq!((read.timeout, read.attempts), (Duration::from_secs(2), 5));
        assert_eq!(parse_configuration(""), Configuration::default());
    }

    #[test]
    fn the_hosts_file_is_read_as_its_manual_says() {
        let hosts = parse_hosts(
            "127.0.0.1 localhost\n192.0.2.1\tA.test b.test # c.test\n2001:db8::1 a.test\nbad x\n",
        );
        assert_eq!(hosts["a.test"].len(), 2);
        assert_eq!(hosts["b.test"].len(), 1);
        assert!(!hosts.contains_key("c.test") && !hosts.contains_key("x"));
    }

    proptest! {
        #[test]
        fn files_of_any_content_are_read_without_panic(text in "(?s).{0,300}") {
            let _ = parse_hosts(&text);
            prop_assert!(!parse_configuration(&text).servers.is_empty());
        }
    }
}
