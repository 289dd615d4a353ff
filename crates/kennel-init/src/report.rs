//! What init and its controller tell each other over their socket pair: messages of 16 bytes.

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
    },
    /// A signal ended the command.
    Killed {
        /// Which.
        signal: i32,
        /// How much CPU time it had used, in milliseconds.
        cpu: u32,
    },
    /// What the processes that ended inside have used, sent just before the end.
    Used {
        /// CPU time in programs, in milliseconds.
        cpu_user: u32,
        /// CPU time in the kernel, in milliseconds.
        cpu_system: u32,
        /// The most memory of any one of them, in KiB.
        peak: u32,
    },
    /// A descriptor travels with this message.
    Descriptor {
        /// How the plan calls it.
        tag: u32,
    },
}

/// From the controller to init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Enter the cgroup whose `tasks` file travels with this message.
    Enter,
    /// Go on with the step that waits.
    Go,
    /// Continue the stopped command.
    Continue {
        /// Give it the terminal first.
        foreground: bool,
    },
}

/// A message as it travels.
pub type Message = [u8; 16];

fn message(kind: u32, a: u32, b: u32) -> Message {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..12].copy_from_slice(&b.to_le_bytes());
    bytes
}

fn fields(bytes: &[u8]) -> Option<(u32, u32, u32, u32)> {
    let field = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some((field(0)?, field(4)?, field(8)?, field(12)?))
}

impl Report {
    /// As it travels.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Report::Failed { step, errno } => message(1, step, errno.cast_unsigned()),
            Report::NotExecuted { candidate, errno } => message(2, candidate, errno.cast_unsigned()),
            Report::Started => message(3, 0, 0),
            Report::Starting => message(8, 0, 0),
            Report::Used { cpu_user, cpu_system, peak } => {
                let mut bytes = message(9, cpu_user, cpu_system);
                bytes[12..].copy_from_slice(&peak.to_le_bytes());
                bytes
            }
            Report::Stopped { signal } => message(4, signal.cast_unsigned(), 0),
            Report::Exited { code } => message(5, code.cast_unsigned(), 0),
            Report::Killed { signal, cpu } => message(6, signal.cast_unsigned(), cpu),
            Report::Descriptor { tag } => message(7, tag, 0),
        }
    }

    /// From what arrived; `None` if it is not a report.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Report> {
        let (kind, a, b, c) = fields(bytes)?;
        Some(match kind {
            1 => Report::Failed { step: a, errno: b.cast_signed() },
            2 => Report::NotExecuted { candidate: a, errno: b.cast_signed() },
            3 => Report::Started,
            4 => Report::Stopped { signal: a.cast_signed() },
            5 => Report::Exited { code: a.cast_signed() },
            6 => Report::Killed { signal: a.cast_signed(), cpu: b },
            7 => Report::Descriptor { tag: a },
            8 => Report::Starting,
            9 => Report::Used { cpu_user: a, cpu_system: b, peak: c },
            _ => return None,
        })
    }
}

impl Order {
    /// As it travels.
    #[must_use]
    pub fn encode(self) -> Message {
        match self {
            Order::Go => message(1, 0, 0),
            Order::Continue { foreground } => message(2, u32::from(foreground), 0),
            Order::Enter => message(3, 0, 0),
        }
    }

    /// From what arrived; `None` if it is not an order.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Order> {
        let (kind, a, ..) = fields(bytes)?;
        match kind {
            1 => Some(Order::Go),
            2 => Some(Order::Continue { foreground: a != 0 }),
            3 => Some(Order::Enter),
            _ => None,
        }
    }
}
