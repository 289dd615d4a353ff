//! The zygote: a small process that sandboxes are cloned from.

use crate::Result;
use crate::backend::{Backend, Native};

/// A small process of one thread that [`Sandbox`](crate::Sandbox)es are cloned from. Start it early; while a reference to
/// it lives, every sandbox of this process that can uses it, and nothing else in the program changes. It makes starts
/// cheaper, and their cost does not depend on how large this process is or how many threads it has.
///
/// Sandboxes are this process's own children all the same. A zygote that dies is replaced when the next sandbox starts, and
/// sandboxes that run go on. It ends with the last reference to it, or with this process.
///
/// What a sandbox inherits from the calling process, it inherits from the zygote: umask, resource limits, priority,
/// processor affinity, supplementary groups and the network of mode `host` are those that this process had when the zygote
/// was started. A process that has changed its user, group, root folder or mount namespace since, or was forked from the one
/// that started it, starts its sandboxes without it.
///
/// ```
/// let _zygote = kennel::Zygote::start()?;
/// let sandbox = kennel::Sandbox::builder().build()?;
/// assert_eq!(sandbox.run("echo", &["hello"])?.stdout, "hello\n");
/// # Ok::<(), kennel::SandboxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Zygote {
    native: <Native as Backend>::Zygote,
}

impl Zygote {
    /// Starts the zygote of this process; the one that runs, if one does.
    ///
    /// # Errors
    /// When the system has no process left, or kennel cannot run here.
    pub fn start() -> Result<Zygote> {
        Ok(Zygote { native: Native::start_zygote()? })
    }

    pub(crate) fn native(&self) -> &<Native as Backend>::Zygote {
        &self.native
    }

    /// Its processes: one, and a second one from the first sandbox on that has a network with nothing in it. Such a network is
    /// used again if no command has used it; the second process is the only one that has power over these networks.
    #[must_use]
    pub fn ids(&self) -> Vec<u32> {
        Native::zygote_pids(&self.native)
    }
}
