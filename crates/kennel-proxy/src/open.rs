//! Opening the gate: one thread that serves all doors of one sandbox.
//!
//! Nothing runs before [`Gate::open`], so a controller can wait with it until a listener has its first client.

use std::io;
use std::net::{TcpListener as StdListener, UdpSocket as StdUdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::client::{CLIENT, Client, Transport, Who};
use crate::clock;
use crate::doors;
use crate::gate::Gate;
#[cfg(unix)]
use crate::gateway::{self, Gateway};
use crate::inside::Source;
use crate::places::{Company, Share};
use crate::relay::Wire;
use crate::sockets::{self, Socket};

/// The sockets of a sandbox, made inside its network namespace. A socket stays in the namespace it was made in, so
/// the gate accepts from these and connects out from its own.
#[derive(Debug, Default)]
pub struct GateSockets {
    /// Listeners for HTTP and SOCKS5.
    pub proxy: Vec<Socket>,
    /// Listeners to which plain connections are delivered.
    pub transparent: Vec<Socket>,
    /// Bound UDP sockets for look-ups.
    pub dns_udp: Vec<Socket>,
    /// Listeners for look-ups over TCP.
    pub dns_tcp: Vec<Socket>,
    /// Listeners of *this* side, each with the port inside that it leads to.
    pub published: Vec<(Socket, u16)>,
    /// Listeners inside, each with the port of this host's loopback that it leads to, and what is sent there first.
    pub relays: Vec<(Socket, u16, Vec<u8>)>,
    /// Listeners inside for the model gateway, each with the number of its provider ([`crate::gateway::GatewaySettings`]).
    #[cfg(unix)]
    pub gateway: Vec<(Socket, usize)>,
    /// Pairs of listeners inside, on its loopback, one pair for each address family: what is published is reached by
    /// sockets that are made from these.
    pub inside: Vec<(Socket, Socket)>,
    /// Tells which program a client is.
    pub who: Option<Who>,
    /// Whether this process has no other gate, and nothing else that needs many descriptors.
    pub alone: bool,
}

/// A gate could not be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "opening the network gate: {step}: {source}\nhelp: the limit on open files or processes may be too low; see `ulimit -n` and `ulimit -u`"
)]
pub struct OpenError {
    step: &'static str,
    source: io::Error,
}

/// An open gate. Dropping it closes every connection and ends its thread.
#[derive(Debug)]
pub struct OpenGate {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl OpenGate {
    /// Closes every connection and waits for the thread.
    pub fn close(self) {}
}

impl Drop for OpenGate {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
enum Kind {
    Proxy,
    Transparent,
    Dns,
    /// From this side to a port inside.
    Published(u16),
    /// From the inside to a port of this host's loopback, which is sent this first.
    Relay(u16, Arc<[u8]>),
    /// To a provider of models.
    #[cfg(unix)]
    Gateway(Arc<Gateway>, usize),
}

impl Gate {
    /// Serves these doors on a thread of its own until the result is dropped.
    pub fn open(&self, doors: GateSockets) -> Result<OpenGate, OpenError> {
        let failed = |step| move |source| OpenError { step, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed("starting its event loop"))?;
        let mut listeners = Vec::new();
        let mut packets = Vec::new();
        let mut sources = Vec::new();
        {
            let _inside = runtime.enter();
            let kinds = [
                (doors.proxy, Kind::Proxy),
                (doors.transparent, Kind::Transparent),
                (doors.dns_tcp, Kind::Dns),
            ];
            for (sockets, kind) in kinds {
                for socket in sockets {
                    let listener = listener(socket).map_err(failed("taking over a listener"))?;
                    listeners.push((listener, kind.clone()));
                }
            }
            for (socket, port) in doors.published {
                let listener = listener(socket).map_err(failed("taking over a published port"))?;
                listeners.push((listener, Kind::Published(port)));
            }
            for (socket, port, greeting) in doors.relays {
                let listener = listener(socket).map_err(failed("taking over a port of the host's"))?;
                listeners.push((listener, Kind::Relay(port, greeting.into())));
            }
            #[cfg(unix)]
            for (socket, number) in doors.gateway {
                let listener =
                    listener(socket).map_err(failed("taking over a listener of the model gateway"))?;
                // A listener without a provider is closed.
                if let Some(gateway) = self.settings().gateway.clone().filter(|own| own.has(number)) {
                    let address = listener.local_addr().map_err(failed("asking for a listener's port"))?;
                    gateway.listens(address.port(), number);
                    listeners.push((listener, Kind::Gateway(gateway, number)));
                }
            }
            for (connector, listener) in doors.inside {
                sources.push(Source::new(connector, listener).map_err(failed("taking over sockets"))?);
            }
            for socket in doors.dns_udp {
                packets.push(packet_socket(socket).map_err(failed("taking over a UDP socket"))?);
            }
        }
        let (stop, stopped) = oneshot::channel();
        let (gate, who) = (self.clone(), doors.who);
        let company = if doors.alone { Company::Nobody } else { Company::Others };
        let work = move || {
            let tasks = LocalSet::new();
            let most = gate.settings().most_connections;
            let (from_inside, from_outside) = (Share::new(most, company), Share::new(most, company));
            let sources: Rc<[Source]> = sources.into();
            for (listener, kind) in listeners {
                let published = matches!(kind, Kind::Published(_));
                let share = if published { &from_outside } else { &from_inside };
                let (share, sources) = (share.clone(), Rc::clone(&sources));
                // A client of this side is nobody inside.
                let who = who.clone().filter(|_| !published);
                tasks.spawn_local(accept(gate.clone(), listener, kind, share, sources, who));
            }
            for socket in packets {
                let (gate, who) = (gate.clone(), who.clone());
                tasks.spawn_local(async move { doors::dns::serve_packets(&gate, &socket, who).await });
            }
            tasks.block_on(&runtime, async {
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new()
            .name("kennel-gate".into())
            .spawn(work)
            .map_err(failed("starting its thread"))?;
        Ok(OpenGate { stop: Some(stop), thread: Some(thread) })
    }
}

fn listener(socket: Socket) -> io::Result<TcpListener> {
    let listener = StdListener::from(socket);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn packet_socket(socket: Socket) -> io::Result<UdpSocket> {
    let socket = StdUdpSocket::from(socket);
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// Takes connections for as long as there are places. One that finds none waits, and those behind it wait in the listener's
/// queue; no place is held for one that has not come.
async fn accept(
    gate: Gate,
    listener: TcpListener,
    kind: Kind,
    share: Share,
    sources: Rc<[Source]>,
    who: Option<Who>,
) {
    let gate = Rc::new(gate);
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Out of descriptors: connections that end give some back.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let place = share.take().await;
        let (gate, sources, kind) = (Rc::clone(&gate), Rc::clone(&sources), kind.clone());
        clock::expect_deadlines();
        let client = Client { who: who.clone(), transport: Transport::Tcp, address };
        let serve = async move {
            sockets::prepare(&stream);
            let client = Wire::new(stream);
            // Each stage is boxed, so that a tunnel holds none of the memory that its opening took.
            let tunnel = match kind {
                Kind::Proxy => Box::pin(doors::proxy::serve(&gate, client)).await,
                Kind::Transparent => Box::pin(doors::transparent::serve(&gate, client)).await,
                Kind::Dns => {
                    Box::pin(doors::dns::serve_stream(&gate, client)).await;
                    None
                }
                Kind::Published(port) => {
                    Box::pin(doors::published::serve(&gate, client, &sources, port)).await;
                    None
                }
                Kind::Relay(port, greeting) => {
                    Box::pin(doors::relay::serve(&gate, client, port, &greeting)).await;
                    None
                }
                #[cfg(unix)]
                Kind::Gateway(models, number) => {
                    Box::pin(gateway::serve(&gate, &models, number, client, false)).await;
                    None
                }
            };
            if let Some(tunnel) = tunnel {
                Box::pin(doors::tunnel::carry(&gate, tunnel)).await;
            }
            drop(place);
        };
        tokio::task::spawn_local(CLIENT.scope(client, serve));
    }
}
