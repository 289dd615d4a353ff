//! What init and its controller tell each other over their socket pair: messages of 24 bytes.

use crate::role::DescriptorRole;

/// The step number under which init reports that its id maps were refused.
pub const ID_MAPS: u32 = u32::MAX;

/// From init to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A step could not be done.
    Failed {
        /// Its place in the plan.
        step: u32,
        /// What the kernel said.
        errno: i32,
    },
    /// The command could not be executed.
    NotExecuted {
        /// Which of the candidates said so.
        candidate: u32,
        /// What the kernel said.
        errno: i32,
    },
    /// The opening is being performed: it is time to send the rest.
    Begun,
    /// The sandbox is ready; the steps that come late and the command are waited for.
    Ready,
    /// The set-up is done and the command is about to be executed.
    Starting,
    /// The command runs.
    Started,
    /// The command was stopped by a signal of job control.
    Stopped {
        /// Which.
        signal: i32,
    },
    /// The command ended by itself.
    Exited {
        /// Its exit code.
        code: i32,
        /// By all that ended inside.
        used: Used,
    },
    /// A signal ended the command.
    Killed {
        /// Which.
        signal: i32,
        /// How much CPU time it had used, in milliseconds.
        cpu: u32,
        /// By all that ended inside.
        used: Used,
    },
    /// A name is covered; or, in answer to the first request, a folder is held.
    Covered {
        /// Its place in the request.
        index: u32,
        /// By which mount.
        mount: u64,
        /// Whether it was not, before.
        again: bool,
    },
    /// All names of a request are covered.
    Mended,
    /// Something inside tried to reach a network that is not there. Said before the end of a command that failed.
    TriedNetwork,
    /// A descriptor travels with this message.
    Descriptor {
        /// What it is for.
        role: DescriptorRole,
    },
    /// Everything inside stands still, as ordered.
    Held,
    /// The command has been continued, as ordered. What was typed before that could have been lost: a process that is
    /// continued forgets that it was to stop.
    Continued,
    /// The time limit passed while the controller did nothing about it, and everything inside was ended.
    TimedOut {
        /// By everything inside.
        used: Used,
    },
    /// Everything inside was ended, as ordered.
    Ended {
        /// By everything inside.
        used: Used,
    },
}

/// What the processes that ended inside have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time in programs, in milliseconds.
    pub cpu_user: u32,
    /// CPU time in the kernel, in milliseconds.
    pub cpu_system: u32,
    /// The most memory of any one of them, in KiB.
    pub peak: u32,
}

/// From the controller to init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Enter the cgroups whose `tasks` files travel with this message, and go on with the step that waits.
    Enter,
    /// Go on with the step that waits.
    Go,
    /// Continue everything inside that was held, and the stopped command.
    Continue {
        /// Whether it is in the foreground of its terminal from now on, or in the background.
        foreground: bool,
    },
    /// Stop everything inside, and report when that is done.
    Hold,
    /// Continue what was held, and nothing that had been stopped before.
    Release,
    /// End everything inside, and report what it has used.
    End,
    /// Of a session: run a command. One end of a fresh socket pair travels with this message, and everything about the command
    /// goes over that.
    Command,
}

/// How long a message is.
pub const LENGTH: usize = 24;

/// A message as it travels: its kind, then up to five numbers.
pub type Message = [u8; LENGTH];

fn message<const N: usize>(kind: u32, numbers: [u32; N]) -> Message {
    let mut bytes = [0; LENGTH];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    for (field, number) in bytes[4..].chunks_exact_mut(4).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn fields(bytes: &[u8]) -> Option<[u32; LENGTH / 4]> {
    let bytes: &Message = bytes.try_into().ok()?;
    let mut numbers = [0; LENGTH / 4];
    for (number, field) in numbers.iter_mut().zip(bytes.chunks_exact(4)) {
        *number = u32::from_le_bytes(field.try_into().ok()?);
    }
    Some(numbers)
}

impl Report {
    /// As it travels.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Report::Failed { step, errno } => message(1, [step, errno.cast_unsigned()]),
            Report::NotExecuted { candidate, errno } => message(2, [candidate, errno.cast_unsigned()]),
            Report::Started => message(3, []),
            Report::Stopped { signal } => message(4, [signal.cast_unsigned()]),
            Report::Exited { code, used } => {
                message(5, [code.cast_unsigned(), 0, used.cpu_user, used.cpu_system, used.peak])
            }
            Report::Killed { signal, cpu, used } => {
                message(6, [signal.cast_unsigned(), cpu, used.cpu_user, used.cpu_system, used.peak])
            }
            Report::Descriptor { role } => message(7, [role.encode()]),
            Report::Starting => message(8, []),
            Report::Begun => message(9, []),
            Report::Covered { index, mount, again } => {
                message(10, [index, mount as u32, (mount >> 32) as u32, u32::from(again)])
            }
            Report::Mended => message(11, []),
            Report::Held => message(12, []),
            Report::Continued => message(13, []),
            Report::TimedOut { used } => message(14, [0, 0, used.cpu_user, used.cpu_system, used.peak]),
            Report::Ended { used } => message(15, [0, 0, used.cpu_user, used.cpu_system, used.peak]),
            Report::TriedNetwork => message(20, []),
            Report::Ready => message(24, []),
        }
    }

    /// From what arrived; `None` if it is not a report.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Report> {
        let [kind, a, b, cpu_user, cpu_system, peak] = fields(bytes)?;
        let used = Used { cpu_user, cpu_system, peak };
        Some(match kind {
            1 => Report::Failed { step: a, errno: b.cast_signed() },
            2 => Report::NotExecuted { candidate: a, errno: b.cast_signed() },
            3 => Report::Started,
            4 => Report::Stopped { signal: a.cast_signed() },
            5 => Report::Exited { code: a.cast_signed(), used },
            6 => Report::Killed { signal: a.cast_signed(), cpu: b, used },
            7 => Report::Descriptor { role: DescriptorRole::decode(a)? },
            8 => Report::Starting,
            9 => Report::Begun,
            10 => Report::Covered {
                index: a,
                mount: u64::from(b) | u64::from(cpu_user) << 32,
                again: cpu_system != 0,
            },
            11 => Report::Mended,
            12 => Report::Held,
            13 => Report::Continued,
            14 => Report::TimedOut { used },
            15 => Report::Ended { used },
            20 => Report::TriedNetwork,
            24 => Report::Ready,
            _ => return None,
        })
    }
}

impl Order {
    /// As it travels.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Order::Go => message(1, []),
            Order::Continue { foreground } => message(2, [u32::from(foreground)]),
            Order::Enter => message(3, []),
            Order::Hold => message(4, []),
            Order::Release => message(5, []),
            Order::End => message(6, []),
            Order::Command => message(10, []),
        }
    }

    /// From what arrived; `None` if it is not an order.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Order> {
        let [kind, a, ..] = fields(bytes)?;
        match kind {
            1 => Some(Order::Go),
            2 => Some(Order::Continue { foreground: a != 0 }),
            3 => Some(Order::Enter),
            4 => Some(Order::Hold),
            5 => Some(Order::Release),
            6 => Some(Order::End),
            10 => Some(Order::Command),
            _ => None,
        }
    }
}
