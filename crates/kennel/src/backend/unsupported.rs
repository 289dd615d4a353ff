//! A system that kennel does not run on yet: everything can be said, and nothing be started.

use std::convert::Infallible;
use std::sync::Arc;

use kennel_policy::host::{Finding, State};
use kennel_policy::outcome::Outcome;

use super::{Attend, Backend, Lasting, Signaller};
use crate::backend::PoolKind;
use crate::job::{Job, PlannedStep};
use crate::network::Published;
use crate::stdio::{Handle, Pipes};
use crate::{NetworkControl, Result, SandboxError, Usage};

pub(crate) struct Unsupported;

fn unsupported() -> SandboxError {
    let system = std::env::consts::OS;
    SandboxError::UnsupportedPlatform(format!("kennel does not run on {system} yet").into())
}

impl Backend for Unsupported {
    type Running = Infallible;
    type Zygote = Arc<Infallible>;

    fn start_zygote() -> Result<Self::Zygote> {
        Err(unsupported())
    }

    type Pool = Arc<Infallible>;

    fn start_pool(zygote: &Self::Zygote, _: PoolKind) -> Result<Self::Pool> {
        match **zygote {}
    }

    fn pool_ready(pool: &Self::Pool) -> usize {
        match **pool {}
    }

    fn zygote_pids(zygote: &Self::Zygote) -> Vec<u32> {
        match **zygote {}
    }

    type Session = Infallible;

    fn start_session(_: Job, _: Lasting) -> Result<(Infallible, Infallible)> {
        Err(unsupported())
    }

    fn check() -> Result<()> {
        Err(unsupported())
    }

    fn start(_: Job) -> Result<Infallible> {
        Err(unsupported())
    }

    fn plan(_: Job) -> Result<Vec<PlannedStep>> {
        Err(unsupported())
    }

    fn block_signals() {}

    fn findings(_: impl FnOnce() -> std::result::Result<(), String>) -> Vec<Finding> {
        let detail = unsupported().to_string();
        vec![Finding { subject: "system", state: State::Missing, detail, remedy: None }]
    }
}

impl Attend for Infallible {
    fn turn(&mut self) -> Result<Option<Outcome>> {
        match *self {}
    }
    fn on_ready(&mut self) -> Result<Option<Outcome>> {
        match *self {}
    }
    #[cfg(unix)]
    fn descriptor(&mut self) -> Result<std::os::fd::BorrowedFd<'_>> {
        match *self {}
    }
    fn end_by(&mut self, _: Handle) {
        match *self {}
    }
    fn process(&self) -> Result<Handle> {
        match *self {}
    }
    fn signaller(&self) -> Result<Signaller> {
        match *self {}
    }
    fn init_pid(&self) -> u32 {
        match *self {}
    }
    fn kill(&mut self) {
        match *self {}
    }
    fn killer(&self) -> Option<Handle> {
        match *self {}
    }
    fn meter(&self) -> Box<dyn Fn() -> Usage + Send + Sync> {
        match *self {}
    }
    fn network(&self) -> Option<NetworkControl> {
        match *self {}
    }
    fn published(&self) -> &[Published] {
        match *self {}
    }
    fn take_pipes(&mut self) -> Pipes {
        match *self {}
    }
    fn take_output(&mut self) -> [Vec<u8>; 2] {
        match *self {}
    }
}
