//! The guard of a running sandbox: it takes hold of its paths while init sets up, and its thread starts with the first
//! call that it has to answer. Most commands make none, and pay nothing for it.

use std::os::fd::OwnedFd;

use crate::guard::{Guard, GuardError, GuardHandle, Premises, Rules, Violation, Violations};

/// How far the guard is.
#[derive(Debug, Default)]
pub struct Sentry {
    guard: Option<Guard>,
    listener: Option<OwnedFd>,
    serving: Option<GuardHandle>,
    failed: Option<GuardError>,
}

impl Sentry {
    /// Takes hold of the paths that `rules` speak of.
    ///
    /// # Errors
    /// When one of them is not what it was.
    pub fn new(rules: &Rules, premises: Premises) -> Result<Sentry, GuardError> {
        let guard = Guard::new(rules, premises)?;
        Ok(Sentry { guard: Some(guard), ..Sentry::default() })
    }

    /// Takes the listener that init made. Calls wait there until [`Sentry::called`].
    pub fn listen(&mut self, listener: OwnedFd) {
        self.listener = Some(listener);
    }

    /// The listener, until a thread has it.
    #[must_use]
    pub fn listener(&self) -> Option<&OwnedFd> {
        self.listener.as_ref()
    }

    /// Nobody is left who could call.
    pub fn hung_up(&mut self) {
        self.listener = None;
    }

    /// Has the thread answer, now that somebody calls. `end` ends the sandbox: when a rule is broken, and here and now
    /// when there is no thread to be had.
    pub fn called(&mut self, mut end: impl FnMut() + Clone + Send + 'static) {
        let (Some(guard), Some(listener)) = (self.guard.take(), self.listener.take()) else { return };
        match guard.serve(listener, end.clone()) {
            Ok(handle) => self.serving = Some(handle),
            Err(error) => {
                end();
                self.failed = Some(error);
            }
        }
    }

    /// Stops, when nothing of the sandbox is left, and tells all that was tried.
    #[must_use]
    pub fn finish(self) -> Violations {
        let mut violations = self.serving.map(GuardHandle::finish).unwrap_or_default();
        if let Some(error) = self.failed {
            violations.list.push(Violation::GuardFailed { why: error.to_string() });
        }
        violations
    }
}
