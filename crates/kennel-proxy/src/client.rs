//! Who a connection comes from, for the record of what was refused.
//!
//! Only whoever made the sandbox can tell a program by the address of its end, and it takes a look at every process
//! inside. So it is asked about what is refused, and only when it is refused for the first time.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

pub use kennel_policy::outcome::Program;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A connection.
    Tcp,
    /// Packets.
    Udp,
}

/// Tells which program inside has this end of a connection.
#[derive(Clone)]
pub struct Who(Arc<Tell>);

type Tell = dyn Fn(Transport, SocketAddr) -> Option<Program> + Send + Sync;

impl Who {
    /// Asks `tell`, which may take milliseconds and may not know.
    pub fn new(tell: impl Fn(Transport, SocketAddr) -> Option<Program> + Send + Sync + 'static) -> Self {
        Who(Arc::new(tell))
    }
}

impl fmt::Debug for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Who")
    }
}

/// The client that a task serves.
pub(crate) struct Client {
    pub(crate) who: Option<Who>,
    pub(crate) transport: Transport,
    pub(crate) address: SocketAddr,
}

tokio::task_local! {
    pub(crate) static CLIENT: Client;
}

/// The program that this task serves, where it serves one and that can be told.
pub(crate) fn program() -> Option<Program> {
    CLIENT
        .try_with(|client| {
            let Who(tell) = client.who.as_ref()?;
            tell(client.transport, client.address)
        })
        .ok()?
}
