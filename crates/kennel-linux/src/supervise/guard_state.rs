//! The guard of a running sandbox: it takes hold of its paths while init sets up, and its thread starts with the first
//! call that it has to answer, or when the sandbox has run for a moment and names have to be watched. Most commands make
//! no such call and are gone by then, and pay nothing for it.

use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::guard::{
    Denials, Finding, Guard, GuardAssumptions, GuardError, GuardHandle, Namespaces, Rules, SHORT_RUN,
    Violation, Violations,
};

/// How far the guard is.
#[derive(Debug, Default)]
pub struct GuardState {
    guard: Option<Guard>,
    /// What names are covered with, as far as it has come.
    namespaces: Option<Namespaces>,
    store: Option<OwnedFd>,
    /// What is to stay absent in a root that can be written, and that root, when it has come.
    in_root: Vec<Finding>,
    root: Option<OwnedFd>,
    rules: Option<Rules>,
    /// A helper for several users.
    helper: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    /// When names have to be watched, if nobody calls before.
    begin: Option<Instant>,
    serving: Option<GuardHandle>,
    failed: Option<GuardError>,
    /// Whether every call that makes a name comes here.
    hears_of_names: bool,
    /// Whether calls come here at all.
    asks: bool,
    /// Whether every call that uses a path does.
    traces: bool,
}

impl GuardState {
    /// Takes hold of the paths that `rules` speak of. `asks` says that the filter asks about calls.
    ///
    /// # Errors
    /// When one of them is not what it was.
    pub fn guard(
        &mut self,
        rules: &Rules,
        assumptions: GuardAssumptions,
        asks: bool,
    ) -> Result<(), GuardError> {
        self.guard = Some(Guard::new(rules, assumptions)?);
        self.hears_of_names = asks && rules.names();
        self.asks = asks;
        self.traces = asks && rules.explains_every_call();
        self.in_root.clone_from(&rules.in_root);
        if self.namespaces.is_some() {
            self.rules = Some(rules.clone());
            self.begin = Some(Instant::now() + SHORT_RUN);
        }
        Ok(())
    }

    /// Takes the link to a helper that looks where the guard may not.
    pub fn hold_helper(&mut self, helper: OwnedFd) {
        self.helper = Some(helper);
    }

    /// The command starts now: a moment for short ones begins.
    pub fn command_starts(&mut self) {
        self.begin = self.begin.map(|_| Instant::now() + SHORT_RUN);
    }

    /// Takes the namespaces in which names are covered.
    pub fn hold(&mut self, namespaces: Namespaces) {
        self.namespaces = Some(namespaces);
    }

    /// Takes the store of what hides things.
    pub fn keep_store(&mut self, store: OwnedFd) {
        self.store = Some(store);
    }

    /// Takes the root of a sandbox that can write to it.
    pub fn keep_root(&mut self, root: OwnedFd) {
        self.root = Some(root);
    }

    /// Takes the listener that init made. Calls wait there until [`GuardState::start`].
    pub fn listen(&mut self, listener: OwnedFd) {
        self.listener = Some(listener);
    }

    /// The listener, until a thread has it.
    #[must_use]
    pub fn listener(&self) -> Option<&OwnedFd> {
        self.listener.as_ref()
    }

    /// Whether every call that uses a path comes here.
    #[must_use]
    pub fn traces(&self) -> bool {
        self.traces
    }

    /// When the thread has to start, if nobody calls before.
    #[must_use]
    pub fn begin(&self) -> Option<Instant> {
        self.begin
    }

    /// Nobody is left who could call.
    pub fn hung_up(&mut self) {
        self.listener = None;
    }

    /// Starts the thread, because somebody calls or it is time. `end` ends the sandbox: when a rule is broken, and here
    /// and now when there is no thread to be had.
    pub fn start(&mut self, mut end: impl FnMut() + Clone + Send + 'static) {
        self.begin = None;
        let Some(mut guard) = self.guard.take() else { return };
        if let Some(helper) = self.helper.take() {
            guard.help(helper);
        }
        let held = match self.root.take() {
            Some(root) => guard.keep_in_root(&self.in_root, root),
            None if self.in_root.is_empty() => Ok(()),
            // It was handed over before anything could call.
            None => Err(GuardError::Start(std::io::ErrorKind::NotFound.into())),
        };
        if let Err(error) = held {
            end();
            self.failed = Some(error);
            return;
        }
        let names = (self.rules.take(), self.namespaces.take(), self.store.take());
        if let (Some(rules), Some(namespaces), Some(store)) = names {
            guard.cover(rules, namespaces, store);
        }
        match guard.serve(self.listener.take(), end.clone()) {
            Ok(handle) => self.serving = Some(handle),
            Err(error) => {
                end();
                self.failed = Some(error);
            }
        }
    }

    /// Whether the sandbox made a name, or may have.
    #[must_use]
    pub fn made_names(&self) -> bool {
        let called = self.serving.as_ref().map_or(self.failed.is_some(), GuardHandle::made_names);
        called || !self.hears_of_names
    }

    /// Whether no call has ever come here, and every one that the filter sends would have.
    #[must_use]
    pub fn heard_nothing(&self) -> bool {
        self.asks && self.serving.is_none() && self.failed.is_none()
    }

    /// Stops, when nothing of the sandbox is left, and tells all that was tried, and what the command could not do with files.
    #[must_use]
    pub fn finish(mut self) -> (Violations, Denials) {
        let mut denials = self.serving.as_mut().map(GuardHandle::denials).unwrap_or_default();
        // A command that made no call to look at was looked at as well.
        denials.traced |= self.traces && self.failed.is_none();
        let mut violations = self.serving.map(GuardHandle::finish).unwrap_or_default();
        if let Some(error) = self.failed {
            violations.list.push(Violation::GuardFailed { why: error.to_string() });
        }
        (violations, denials)
    }
}
