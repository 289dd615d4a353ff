//! The gate of a sandbox that has the host's own network, with all ports closed to it but the gate's.
//!
//! There is no transparent door and no name server: who is to reach a host has to know the proxy, by its variables. The
//! proxy listens on the host's loopback, where other programs can knock too, and lets in who knows the sandbox's token. A
//! published port needs nothing of the gate's, since the command's server listens on the host's loopback itself.

use std::ffi::{OsStr, OsString};
#[cfg(unix)]
use std::path::Path;
#[cfg(unix)]
use std::sync::Arc;
use std::sync::OnceLock;

use kennel_policy::environment::DefaultVariable;
use kennel_policy::listeners::SocketRole;
#[cfg(unix)]
use kennel_policy::outcome::GatewayUse;
use kennel_policy::outcome::NetworkUse;
use kennel_policy::policy::{NetworkPolicy, Policy};
#[cfg(unix)]
use kennel_proxy::gateway::Gateway;
use kennel_proxy::{Gate, GateSockets, OpenGate, Socket};

use super::rules::{self, GateHandle, NetworkError, Recipe};
use super::{Published, publish, variables};
use crate::control::{AskAboutHosts, ControlLines, NetworkControl};
#[cfg(unix)]
use crate::secrets::{self, SandboxSecrets};
use crate::{Result, SandboxError};

/// The gate of one sandbox, and what its network is beside.
#[derive(Debug)]
pub(crate) struct HostGate {
    proxy: Option<Proxy>,
    published: Vec<Published>,
    /// Whether there are rules about hosts, and not only a gateway.
    listed: bool,
    /// Ports of the host's loopback that the command may connect to.
    ports: Vec<u16>,
    variables: Vec<(OsString, OsString)>,
    defaults: Vec<DefaultVariable>,
}

/// The gate, and what it serves.
#[derive(Debug)]
struct Proxy {
    recipe: Recipe,
    /// Made with the first client, or with the first who wants to change its rules.
    gate: OnceLock<Gate>,
    listeners: Vec<(SocketRole, Socket)>,
    /// The model gateway.
    #[cfg(unix)]
    gateway: Option<Arc<Gateway>>,
    open: Option<OpenGate>,
    failure: Option<String>,
}

impl Proxy {
    fn new(recipe: Recipe, listeners: Vec<Socket>) -> Proxy {
        Proxy {
            recipe,
            gate: OnceLock::new(),
            listeners: listeners.into_iter().map(|listener| (SocketRole::Proxy, listener)).collect(),
            #[cfg(unix)]
            gateway: None,
            open: None,
            failure: None,
        }
    }

    fn gate(&self) -> &Gate {
        self.gate.get_or_init(|| self.recipe.clone().gate())
    }
}

impl HostGate {
    /// What a policy asks for. Nothing is served before [`HostGate::open`], but clients can connect by then. `environment`
    /// is the caller's. With `bind` false nothing is made, for a plan, and the ports are not known.
    pub(crate) fn new<'e>(
        policy: &Policy,
        environment: impl Iterator<Item = (&'e OsStr, &'e OsStr)>,
        ask: Option<&AskAboutHosts>,
        bind: bool,
    ) -> Result<HostGate> {
        let wanted = &policy.network;
        let published = wanted.publish.iter().map(|port| published(port, bind)).collect::<Result<_>>()?;
        let mut made = HostGate {
            proxy: None,
            published,
            listed: wanted.mode.is_gated(),
            ports: relayed(wanted)?,
            variables: Vec::new(),
            defaults: Vec::new(),
        };
        if !wanted.mode.is_gated() {
            return Ok(made);
        }
        if !bind {
            rules::parents_for(wanted, environment)?;
            return Ok(made);
        }
        let (port, listeners) = publish::free_port()
            .map_err(|(address, error)| format!("listening on {address} for the network gate: {error}"))
            .map_err(|text| SandboxError::Setup(text.into()))?;
        let token = rules::token().map_err(NetworkError::Token)?;
        (made.variables, made.defaults) =
            (variables::variables(wanted, &token, port), variables::ssh_variables());
        let recipe = Recipe::of(policy, environment, ask, token, "localhost".into(), true)?;
        made.ports.push(port);
        made.proxy = Some(Proxy::new(recipe, listeners));
        Ok(made)
    }

    /// Reads the secrets of a policy, tells the gate, and listens for clients of the model gateway. `folder` is where the files
    /// of kennel's own are put that the result has.
    #[cfg(unix)]
    pub(crate) fn add_secrets<'e>(
        &mut self,
        policy: &Policy,
        environment: &(impl Iterator<Item = (&'e OsStr, &'e OsStr)> + Clone),
        folder: &Path,
    ) -> Result<SandboxSecrets> {
        let mut ports = Vec::new();
        let mut providers = Vec::new();
        for (number, provider) in (0..).zip(&policy.gateway.providers) {
            let (port, listeners) = publish::free_port()
                .map_err(|(address, error)| {
                    format!("listening on {address} for the gateway to {}: {error}", provider.name)
                })
                .map_err(|text| SandboxError::Setup(text.into()))?;
            ports.push(port);
            let role = SocketRole::Gateway { provider: number };
            providers.extend(listeners.into_iter().map(|listener| (role, listener)));
        }
        let address = |number: usize| format!("http://127.0.0.1:{}", ports.get(number).copied().unwrap_or(0));
        let mut found = secrets::read(policy, environment, folder, address)?;
        let mut proxy = match self.proxy.take() {
            Some(proxy) => proxy,
            None => {
                let token = rules::token().map_err(NetworkError::Token)?;
                let recipe = Recipe::of(policy, environment.clone(), None, token, "localhost".into(), true)?;
                Proxy::new(recipe, Vec::new())
            }
        };
        let (inspect, gateway) = (found.inspector.take(), found.gateway.take());
        proxy.gateway.clone_from(&gateway);
        proxy.listeners.extend(providers);
        proxy.recipe.read_requests(inspect, gateway);
        self.proxy = Some(proxy);
        self.ports.extend(ports);
        self.variables.append(&mut found.variables);
        Ok(found)
    }

    /// What was used of the way to models so far.
    #[cfg(unix)]
    pub(crate) fn gateway_use(&self) -> GatewayUse {
        let gateway = self.proxy.as_ref().and_then(|proxy| proxy.gateway.as_ref());
        gateway.map(|gateway| gateway.used()).unwrap_or_default()
    }

    /// Starts to serve, in a thread. `alone` says that this process has no other gate, and needs few descriptors itself.
    pub(crate) fn open(&mut self, alone: bool) {
        let Some(proxy) = &mut self.proxy else { return };
        let sockets =
            GateSockets { sockets: std::mem::take(&mut proxy.listeners), alone, ..GateSockets::default() };
        // The caller may be in a runtime of its own, in which the gate's could not be given up if something fails.
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| proxy.gate().open(sockets));
            opening.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        match opened {
            Ok(open) => proxy.open = Some(open),
            // The doors are shut: nothing gets out, and the end of the run says why.
            Err(error) => proxy.failure = Some(error.to_string()),
        }
    }

    /// Takes new rules from these lines.
    pub(crate) fn follow(&self, lines: ControlLines) {
        if let Some(control) = self.control() {
            lines.follow(control);
        }
    }

    /// Handle to change the rules; `None` without rules.
    pub(crate) fn control(&self) -> Option<NetworkControl> {
        self.proxy
            .as_ref()
            .filter(|_| self.listed)
            .map(|proxy| NetworkControl::new(GateHandle(proxy.gate().clone())))
    }

    /// Ports of the host's loopback that the command may connect to.
    #[cfg_attr(all(windows, not(test)), expect(dead_code, reason = "nothing keeps it from the others"))]
    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Which ports are found where.
    pub(crate) fn published(&self) -> &[Published] {
        &self.published
    }

    /// Variables that lead programs to the gate, and those for callers who have not set them.
    pub(crate) fn variables(&self) -> (&[(OsString, OsString)], &[DefaultVariable]) {
        (&self.variables, &self.defaults)
    }

    /// Ends all that is under way, and counts it: the last word about what was used comes after this.
    pub(crate) fn close(&mut self) {
        if let Some(proxy) = &mut self.proxy {
            proxy.open = None;
        }
    }

    /// What was decided.
    pub(crate) fn used(&self, advice: &str) -> NetworkUse {
        let proxy = self.proxy.as_ref();
        proxy.map(|proxy| rules::used(proxy.gate(), proxy.failure.as_deref(), advice)).unwrap_or_default()
    }
}

/// A published port: the command's own, since the loopback is one.
fn published(port: &kennel_policy::policy::PublishedPort, bind: bool) -> Result<Published> {
    if ![0, port.inside].contains(&port.host) {
        let text = format!(
            "publishing a port of the sandbox ({}): the command listens on the host's own loopback here, so port {} is \
             found at the same number\nhelp: publish {1}:{1}, or have the command listen on {}",
            port.origin, port.inside, port.host
        );
        return Err(SandboxError::ConfigValidation(text.into()));
    }
    if bind {
        // Only to say so before the start: the command binds it itself.
        publish::both_families(port.inside).map_err(|(address, error)| {
            let text = format!(
                "publishing a port of the sandbox ({}): {address} must be free for the command: {error}\n\
                 help: end what listens there, or have the command listen on another port",
                port.origin
            );
            SandboxError::Setup(text.into())
        })?;
    }
    Ok(Published { inside: port.inside, host: port.inside })
}

/// Ports of the host's that the command reaches as they are. What has to be sent there first could be left out by the command.
fn relayed(wanted: &NetworkPolicy) -> Result<Vec<u16>> {
    if wanted.relays.iter().any(|relay| !relay.greeting.expose().is_empty()) {
        let text = "a managed proxy that is told who its client is requires a network of the sandbox's own, which this system does not have";
        return Err(SandboxError::ConfigValidation(text.into()));
    }
    Ok(wanted.relays.iter().map(|relay| relay.port).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use kennel_policy::domain::{HostRule, ListKind};
    use kennel_policy::policy::{Greeting, Origin, PublishedPort, Relay};

    use super::*;

    fn is_taken(port: u16) -> bool {
        TcpListener::bind(("127.0.0.1", port)).is_err()
    }

    fn gate(policy: &Policy) -> Result<HostGate> {
        HostGate::new(policy, std::iter::empty(), None, true)
    }

    fn listed(rules: &[&str]) -> Policy {
        let mut policy = Policy::default();
        policy.network.mode = kennel_policy::policy::NetworkMode::AllowList;
        policy.network.allow =
            rules.iter().map(|rule| HostRule::parse(rule, ListKind::Allow).expect("a rule")).collect();
        policy
    }

    /// What the proxy says to a request with this token.
    fn ask(port: u16, token: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let login = base64(&format!("kennel:{token}"));
        let request = format!(
            "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {login}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn base64(text: &str) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut written = String::new();
        for part in text.as_bytes().chunks(3) {
            let bits =
                part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
            for index in 0..4 {
                let letter = LETTERS[(bits >> (18 - 6 * index) & 63) as usize];
                written.push(if index <= part.len() { letter as char } else { '=' });
            }
        }
        written
    }

    fn token(gate: &HostGate) -> String {
        let (variables, defaults) = gate.variables();
        assert!(defaults.iter().any(|default| default.name == "GIT_SSH_COMMAND"));
        let value = |name: &str| variables.iter().find(|(own, _)| own == name).expect("it is set").1.clone();
        let address = value("HTTP_PROXY").into_string().expect("text");
        assert!(address.ends_with(&format!("@127.0.0.1:{}", gate.ports[0])), "{address}");
        let login = address.split_once("kennel:").expect("a login").1;
        login.split_once('@').expect("a host").0.to_owned()
    }

    #[cfg(unix)]
    #[test]
    fn secrets_and_the_gateway_are_served_here_too() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = server.local_addr().expect("bound").port();
        let (told, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.expect("a client");
                let mut some = [0; 4096];
                let count = stream.read(&mut some).unwrap_or(0);
                let _ = told.send(String::from_utf8_lossy(&some[..count]).into_owned());
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            }
        });
        let settings = format!(
            "[secrets.KEY]\nhosts = [\"localhost:{port}\"]\nplaintext = true\n\
             [gateway.ollama]\nupstream = \"http://127.0.0.1:{port}\"\nkey = \"none\"\n"
        );
        let sandbox = crate::Sandbox::from_settings_text(&settings).expect("settings");
        let policy = sandbox.policy();
        let mut gate = gate(policy).expect("a gate");
        let real = "a-real-value-of-a-secret";
        let environment = [(OsStr::new("KEY"), OsStr::new(real))];
        let folder = Path::new("/nowhere");
        gate.add_secrets(policy, &environment.iter().copied(), folder).expect("secrets");
        let (proxy, token) = (gate.ports[0], token(&gate));
        let variables = gate.variables().0.to_vec();
        let value = |name: &str| {
            let found = variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
            found.expect("it is set").into_string().expect("text")
        };
        let stand_in = value("KEY");
        assert!(stand_in != real && stand_in.len() == real.len(), "{stand_in}");
        gate.open(false);
        let ask = |port: u16, line: &str, fields: &str| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let host = line.split('/').nth(2).unwrap_or("127.0.0.1").to_owned();
            let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("it reads");
            let mut text = Vec::new();
            let _ = stream.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        };
        let login = base64(&format!("kennel:{token}"));
        let fields = format!("Proxy-Authorization: Basic {login}\r\nX-Api-Key: {stand_in}\r\n");
        let answer = ask(proxy, &format!("GET http://localhost:{port}/x"), &fields);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(heard.recv().expect("a request").contains(real));
        let address = value("OLLAMA_HOST");
        let gateway = address.rsplit_once(':').expect("a port").1.parse().expect("a number");
        let answer = ask(gateway, "GET /api/tags", "");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        gate.close();
        assert_eq!(gate.gateway_use().total.requests, 1);
        assert!(TcpStream::connect(("127.0.0.1", gateway)).is_err(), "nobody listens any more");
    }

    #[test]
    #[kennel_claim::claim("macos/gate-has-a-token")]
    fn an_allowed_host_is_reached_with_the_token_and_nothing_without_it() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = format!("127.0.0.1:{}", server.local_addr().expect("bound").port());
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let mut stream = stream.expect("a client");
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
            }
        });
        let mut gate = gate(&listed(&[&to])).expect("a gate");
        gate.open(false);
        let (port, token) = (gate.ports()[0], token(&gate));
        assert!(ask(port, &token, &to).ends_with("hello"));
        assert!(ask(port, "wrong", &to).starts_with("HTTP/1.1 407"), "{}", ask(port, "wrong", &to));
        assert!(!ask(port, &token, "other.example").contains(" 200 "));
        let used = gate.used("to allow it: ");
        assert!(used.decisions.iter().any(|decision| decision.allowed), "{used:?}");
        assert!(used.blocked.contains("other.example"), "{used:?}");
        drop(gate);
        assert!(!is_taken(port), "the port is given back");
    }

    #[test]
    fn lines_that_came_before_change_the_rules_at_once() {
        let (lines, mut writer) = std::io::pipe().expect("a pipe");
        let mut gate = gate(&listed(&[])).expect("a gate");
        writer.write_all(b"{\"network\": {\"allow\": [\"127.0.0.1:1\"]}}\n").expect("written");
        gate.follow(ControlLines::new(lines.into(), |_| ()));
        gate.open(false);
        // Nobody listens there, but it was tried.
        let _ = ask(gate.ports()[0], &token(&gate), "127.0.0.1:1");
        assert!(gate.used("").decisions.iter().any(|decision| decision.allowed));
        assert!(gate.control().is_some());
    }

    #[test]
    #[kennel_claim::claim("macos/gate-has-a-token")]
    fn both_families_of_the_port_are_the_gates() {
        let gate = gate(&listed(&[])).expect("a gate");
        let port = gate.ports()[0];
        assert!(is_taken(port));
        if TcpListener::bind("[::1]:0").is_ok() {
            assert!(TcpListener::bind(("::1", port)).is_err());
        }
    }

    #[test]
    fn a_published_port_keeps_its_number_or_is_refused() {
        let publish = |host, inside| {
            let mut policy = Policy::default();
            policy.network.publish = vec![PublishedPort { host, inside, origin: Origin("--publish".into()) }];
            gate(&policy)
        };
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
        assert_eq!(publish(0, free).expect("it is free").published()[0].host, free);
        assert_eq!(publish(free, free).expect("it is free").published()[0].host, free);
        let error = publish(8080, 3000).expect_err("there is one loopback").to_string();
        assert!(error.contains("--publish") && error.contains("help: publish 3000:3000"), "{error}");
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let error =
            publish(0, taken.local_addr().expect("bound").port()).expect_err("it is taken").to_string();
        assert!(error.contains("must be free"), "{error}");
    }

    #[test]
    fn a_relay_that_tells_who_the_client_is_is_refused() {
        let relay = |greeting: &[u8]| {
            let mut policy = Policy::default();
            policy.network.relays = vec![Relay { port: 1234, greeting: Greeting::from(greeting.to_vec()) }];
            gate(&policy)
        };
        assert_eq!(relay(b"").expect("nothing to tell").ports(), [1234]);
        assert!(relay(b"me").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_gateway_listens_without_an_allow_list_and_its_variables_lead_there() {
        use kennel_policy::gateway::{Api, Budget, ProviderRule};
        use kennel_policy::secrets::SecretSource;
        let mut policy = Policy::default();
        policy.gateway.providers = vec![ProviderRule {
            name: "anthropic".into(),
            api: Api::Anthropic,
            key: Some(SecretSource::Value(b"sk-ant-api03-never-seen-inside".to_vec())),
            upstream: "https://127.0.0.1:1".into(),
            models: Vec::new(),
            members: Vec::new(),
            budget: Budget::default(),
            variables: Vec::new(),
            origin: Origin("--gateway".into()),
        }];
        let mut gate = gate(&policy).expect("a gate");
        let found = gate.add_secrets(&policy, &std::iter::empty(), Path::new("/x")).expect("secrets");
        let port = gate.ports()[0];
        assert!(is_taken(port) && gate.control().is_none() && found.files.is_empty());
        let value =
            |name: &str| gate.variables().0.iter().find(|(own, _)| own == name).expect("set").1.clone();
        assert_eq!(value("ANTHROPIC_BASE_URL"), OsString::from(format!("http://127.0.0.1:{port}")));
        let token = value("ANTHROPIC_API_KEY").into_string().expect("text");
        assert!(token.starts_with("sk-ant-api03-") && !token.contains("never-seen"), "{token}");
        gate.open(false);
        assert_eq!(gate.gateway_use().total.requests, 0);
        drop(gate);
        assert!(!is_taken(port), "the port is given back");
    }

    #[test]
    fn a_plan_binds_nothing() {
        let gate = HostGate::new(&listed(&["example.com"]), std::iter::empty(), None, false).expect("a plan");
        assert!(gate.ports().is_empty() && gate.control().is_none());
    }
}
