//! Opening the gate: one thread that serves all doors of one sandbox.
//!
//! Nothing runs before [`Gate::open`], so a controller can wait with it until a listener has its first client.

use std::io;
use std::net::{TcpListener as StdListener, UdpSocket as StdUdpSocket};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use kennel_policy::listeners::SocketRole;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::client::{CLIENT, Client, Transport, Who};
use crate::clock;
use crate::doors;
use crate::gate::Gate;
use crate::inside::Source;
use crate::metered::MeteredStream;
use crate::relay::Wire;
#[cfg(unix)]
use crate::services;
use crate::slots::{ConnectionSlots, DescriptorBudget};
use crate::sockets::{self, Socket};

/// The sockets of a sandbox, made inside its network namespace, and what the doors behind them need. A socket stays in the namespace
/// it was made in, so the gate accepts from these and connects out from its own.
#[derive(Debug, Default)]
pub struct GateSockets {
    /// Each with what it is for. Those of published ports are listeners of *this* side, and reach the inside by pairs of
    /// [`SocketRole::OutboundSocket`] and [`SocketRole::ConnectTarget`], one pair for each address family, one behind the other.
    pub sockets: Vec<(SocketRole, Socket)>,
    /// What is sent first to a port of this host's loopback that is found inside, by the port.
    pub greetings: Vec<(u16, Vec<u8>)>,
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

/// What connections that come in may need beside the gate.
struct Doors {
    gate: Gate,
    /// Sockets that reach the inside.
    sources: Vec<Source>,
    greetings: Vec<(u16, Vec<u8>)>,
}

impl Gate {
    /// Serves these sockets on a thread of its own until the result is dropped.
    pub fn open(&self, sockets: GateSockets) -> Result<OpenGate, OpenError> {
        let failed = |step| move |source| OpenError { step, source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed("starting its event loop"))?;
        let GateSockets { sockets, greetings, who, alone } = sockets;
        let (mut listeners, mut packets, mut sources, mut outbound) =
            (Vec::new(), Vec::new(), Vec::new(), None);
        {
            let _inside = runtime.enter();
            for (role, socket) in sockets {
                match role {
                    SocketRole::DnsUdp => {
                        packets.push(packet_socket(socket).map_err(failed("taking over a UDP socket"))?);
                    }
                    SocketRole::OutboundSocket => outbound = Some(socket),
                    SocketRole::ConnectTarget => {
                        let source =
                            outbound.take().map(|outbound| Source::new(outbound, socket)).transpose();
                        sources.extend(source.map_err(failed("taking over sockets"))?);
                    }
                    // A listener without a door behind it is closed.
                    _ if !self.has_door(role, &greetings) => {}
                    _ => {
                        let listener = listener(socket).map_err(failed("taking over a listener"))?;
                        #[cfg(unix)]
                        self.tell_gateway(role, &listener).map_err(failed("asking for a listener's port"))?;
                        listeners.push((listener, role));
                    }
                }
            }
        }
        let (stop, stopped) = oneshot::channel();
        let gate = self.clone();
        let descriptors = if alone { DescriptorBudget::Whole } else { DescriptorBudget::Shared };
        let work = move || {
            let tasks = LocalSet::new();
            let most = gate.settings().most_connections;
            let (from_inside, from_outside) =
                (ConnectionSlots::new(most, descriptors), ConnectionSlots::new(most, descriptors));
            let doors = Rc::new(Doors { gate: gate.clone(), sources, greetings });
            for (listener, role) in listeners {
                let published = matches!(role, SocketRole::Published { .. });
                let slots = if published { &from_outside } else { &from_inside };
                // A client of this side is nobody inside.
                let who = who.clone().filter(|_| !published);
                tasks.spawn_local(accept(Rc::clone(&doors), listener, role, slots.clone(), who));
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

    /// Whether this gate has something behind a listener.
    fn has_door(&self, role: SocketRole, greetings: &[(u16, Vec<u8>)]) -> bool {
        match role {
            SocketRole::Relay { port } => greetings.iter().any(|(own, _)| *own == port),
            #[cfg(unix)]
            SocketRole::Gateway { provider } => {
                self.settings().gateway.as_ref().is_some_and(|own| own.has(provider.into()))
            }
            #[cfg(not(unix))]
            SocketRole::Gateway { .. } => false,
            _ => true,
        }
    }

    /// The model gateway learns where its providers are found inside.
    #[cfg(unix)]
    fn tell_gateway(&self, role: SocketRole, listener: &TcpListener) -> io::Result<()> {
        if let (SocketRole::Gateway { provider }, Some(gateway)) = (role, &self.settings().gateway) {
            gateway.listens(listener.local_addr()?.port(), provider.into());
        }
        Ok(())
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

/// Takes connections for as long as there are slots. One that finds none waits, and those behind it wait in the listener's
/// queue; no slot is held for one that has not come.
async fn accept(
    doors: Rc<Doors>,
    listener: TcpListener,
    role: SocketRole,
    slots: ConnectionSlots,
    who: Option<Who>,
) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Out of descriptors: connections that end give some back.
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let slot = slots.take().await;
        let doors = Rc::clone(&doors);
        clock::expect_deadlines();
        let client = Client { who: who.clone(), transport: Transport::Tcp, address };
        let serve = async move {
            sockets::prepare(&stream);
            let client = Wire::new(MeteredStream::of_inside(stream));
            let Doors { gate, sources, greetings } = &*doors;
            // Each stage is boxed, so that a tunnel holds none of the memory that its opening took.
            let tunnel = match role {
                SocketRole::Proxy => Box::pin(doors::proxy::serve(gate, client)).await,
                SocketRole::Transparent => Box::pin(doors::transparent::serve(gate, client)).await,
                SocketRole::DnsTcp => {
                    Box::pin(doors::dns::serve_stream(gate, client)).await;
                    None
                }
                SocketRole::Published { inside } => {
                    Box::pin(doors::published::serve(gate, client, sources, inside)).await;
                    None
                }
                SocketRole::Relay { port } => {
                    if let Some((_, greeting)) = greetings.iter().find(|(own, _)| *own == port) {
                        Box::pin(doors::relay::serve(gate, client, port, greeting)).await;
                    }
                    None
                }
                #[cfg(unix)]
                SocketRole::Gateway { provider } => {
                    if let Some(gateway) = &gate.settings().gateway {
                        Box::pin(services::gateway::serve(gate, gateway, provider.into(), client)).await;
                    }
                    None
                }
                #[cfg(not(unix))]
                SocketRole::Gateway { .. } => None,
                // No listeners.
                SocketRole::DnsUdp | SocketRole::OutboundSocket | SocketRole::ConnectTarget => None,
            };
            if let Some(tunnel) = tunnel {
                Box::pin(doors::tunnel::carry(gate, tunnel)).await;
            }
            drop(slot);
        };
        tokio::task::spawn_local(CLIENT.scope(client, serve));
    }
}
