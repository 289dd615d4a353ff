//! From a [`Plan`] to the bytes that init reads. The reader is `child::wire`; the two are changed together.
//!
//! Little-endian and unaligned. A string carries its NUL, so that init can hand it to the kernel where it lies.

use alloc::ffi::CString;
use alloc::vec::Vec;

use crate::child::tag;
use crate::plan::{Access, Command, Cover, Covering, Plan, Planned, Step, Terminal};

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }
    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    /// Lengths fit: the kernel takes no argument list, path or filter of 4 GiB.
    fn len(&mut self, value: usize) -> &mut Self {
        self.u32(u32::try_from(value).unwrap_or(u32::MAX))
    }
    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.len(value.len());
        self.0.extend_from_slice(value);
        self
    }
    fn string(&mut self, value: &CString) -> &mut Self {
        self.bytes(value.as_bytes_with_nul())
    }
    fn numbers(&mut self, values: impl ExactSizeIterator<Item = u32>) -> &mut Self {
        self.len(values.len());
        for value in values {
            self.u32(value);
        }
        self
    }
    fn strings(&mut self, values: &[CString]) -> &mut Self {
        self.len(values.len());
        for value in values {
            self.string(value);
        }
        self
    }
}

/// The bytes of a plan's opening.
#[must_use]
pub fn encode_opening(opening: &[Planned]) -> Vec<u8> {
    encode_part(opening)
}

/// The bytes of the steps that come after [`Step::Later`].
#[must_use]
pub fn encode_late(steps: &[Planned]) -> Vec<u8> {
    encode_part(steps)
}

fn encode_part(steps: &[Planned]) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(1024));
    encode_steps(&mut out, steps);
    out.0
}

/// The bytes of a request to cover names again.
#[must_use]
pub fn encode_coverings(coverings: &[Covering]) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(tag::MAGIC).len(coverings.len());
    for covering in coverings {
        let how = match covering.cover {
            Cover::Hide => tag::COVER_HIDE,
            Cover::Keep => tag::COVER_KEEP,
            Cover::Hold => tag::COVER_HOLD,
        };
        out.u8(how).string(&covering.target);
    }
    out.0
}

impl Plan {
    /// The bytes of the steps that follow the opening.
    #[must_use]
    pub fn encode_steps(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(16 * 1024));
        encode_steps(&mut out, &self.steps);
        out.0
    }
}

impl Command {
    /// The bytes of the part that says what is started.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(4 * 1024));
        out.u32(tag::MAGIC).u8(match self.terminal {
            Terminal::Detached => tag::TERMINAL_DETACHED,
            Terminal::Background => tag::TERMINAL_BACKGROUND,
            Terminal::Foreground => tag::TERMINAL_FOREGROUND,
        });
        let limit = self.time_limit.map_or(0, |limit| limit.as_nanos().max(1));
        out.u64(u64::try_from(limit).unwrap_or(0)).u8(u8::from(self.starts_silently));
        out.numbers(self.keep.iter().map(|fd| fd.cast_unsigned()));
        out.u8(u8::from(self.user.is_some()));
        if let Some(user) = self.user {
            out.u32(user.uid).u32(user.gid).u8(u8::from(user.groups)).u64(user.capabilities);
        }
        out.strings(&self.candidates).strings(&self.arguments).strings(&self.environment);
        out.0
    }
}

fn encode_steps(out: &mut Writer, steps: &[Planned]) {
    out.u32(tag::MAGIC).len(steps.len());
    for planned in steps {
        // Each step is prefixed by its length, so that a reader can pass over it.
        let at = out.0.len();
        out.u32(0);
        encode_step(out, &planned.step);
        let length = u32::try_from(out.0.len() - at - 4).unwrap_or(u32::MAX);
        out.0[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

fn encode_step(out: &mut Writer, step: &Step) {
    match step {
        Step::PrivateMounts => out.u8(tag::PRIVATE_MOUNTS),
        Step::HostRoot { access } => out.u8(tag::HOST_ROOT).u8(access_tag(*access)),
        Step::TmpfsRoot { size } => out.u8(tag::TMPFS_ROOT).u64(*size),
        Step::Store { target, size, inodes } => out.u8(tag::STORE).string(target).u64(*size).u64(*inodes),
        Step::HandOverStore => out.u8(tag::HAND_OVER_STORE),
        Step::Private { target, name, mode } => out.u8(tag::PRIVATE).string(target).string(name).u32(*mode),
        Step::Tmpfs { target, size, inodes, mode } => {
            out.u8(tag::TMPFS).string(target).u64(*size).u64(*inodes).u32(*mode)
        }
        Step::MakeDir { path, mode } => out.u8(tag::MAKE_DIR).string(path).u32(*mode),
        Step::MakeFile { path } => out.u8(tag::MAKE_FILE).string(path),
        Step::Symlink { path, points_to } => out.u8(tag::SYMLINK).string(path).string(points_to),
        Step::WriteFile { path, contents, mode } => {
            out.u8(tag::WRITE_FILE).string(path).bytes(contents).u32(*mode)
        }
        // The target comes first in every mounting step: the old-kernel way of making things read-only reads it.
        Step::Bind { source, identity, target, access, early } => out
            .u8(tag::BIND)
            .string(target)
            .u8(access_tag(*access))
            .string(source)
            .u64(identity.device)
            .u64(identity.inode)
            .u8(u8::from(*early)),
        Step::MaskDir { target } => out.u8(tag::MASK_DIR).string(target),
        Step::MaskFile { target } => out.u8(tag::MASK_FILE).string(target),
        Step::CoverFile { target, contents } => out.u8(tag::COVER_FILE).string(target).bytes(contents),
        Step::Proc { target, write } => out.u8(tag::PROC).string(target).u8((*write).into()),
        Step::Devpts { target } => out.u8(tag::DEVPTS).string(target),
        Step::ReadOnly { target } => out.u8(tag::READ_ONLY).string(target),
        Step::SealMounts => out.u8(tag::SEAL_MOUNTS),
        Step::PivotRoot => out.u8(tag::PIVOT_ROOT),
        Step::Hostname { name } => out.u8(tag::HOSTNAME).string(name),
        Step::OwnNetwork => out.u8(tag::OWN_NETWORK),
        Step::EnterNetwork => out.u8(tag::ENTER_NETWORK),
        Step::LoopbackUp => out.u8(tag::LOOPBACK_UP),
        Step::Netlink { protocol, messages, acknowledgements } => {
            out.u8(tag::NETLINK).u32(*protocol).bytes(messages).u32(*acknowledgements)
        }
        Step::Listen { family, kind, address, options, role } => {
            out.u8(tag::LISTEN).u32(*family).u32(*kind).bytes(address).len(options.len());
            for [level, option, value] in options {
                out.u32(*level).u32(*option).u32(*value);
            }
            out.u32(role.encode())
        }
        Step::Terminal { modes, size, streams } => {
            out.u8(tag::TERMINAL).bytes(modes);
            for number in size {
                out.u32(u32::from(*number));
            }
            out.numbers(streams.iter().copied())
        }
        Step::DeviceStream { path, streams } => {
            out.u8(tag::DEVICE_STREAM).string(path).numbers(streams.iter().copied())
        }
        Step::InputFile { source, identity, offset } => {
            out.u8(tag::INPUT_FILE).string(source).u64(identity.device).u64(identity.inode).u64(*offset)
        }
        Step::ChangeDir { path } => out.u8(tag::CHANGE_DIR).string(path),
        Step::Limit { resource, soft, hard } => out.u8(tag::LIMIT).u32(*resource).u64(*soft).u64(*hard),
        Step::NamespaceLimit { file, value, half_of } => {
            out.u8(tag::NAMESPACE_LIMIT).string(file).u64(*value).string(half_of)
        }
        Step::OwnKeyring => out.u8(tag::OWN_KEYRING),
        Step::OwnCgroups => out.u8(tag::OWN_CGROUPS),
        Step::AwaitController => out.u8(tag::AWAIT_CONTROLLER),
        Step::NoNewPrivileges => out.u8(tag::NO_NEW_PRIVILEGES),
        Step::Landlock { attributes, paths, ports } => {
            out.u8(tag::LANDLOCK).len(attributes.len());
            for attribute in attributes {
                out.u64(*attribute);
            }
            out.len(paths.len());
            for (path, access) in paths {
                out.string(path).u64(*access);
            }
            out.len(ports.len());
            for (port, access) in ports {
                out.u32(u32::from(*port)).u64(*access);
            }
            out
        }
        Step::RootOwns { masks } => out.u8(tag::ROOT_OWNS).u32(masks.0).u32(masks.1),
        Step::Home { target, name, uid, gid } => {
            out.u8(tag::HOME).string(target).string(name).u32(*uid).u32(*gid)
        }
        Step::NestUsers { users, groups, follow } => {
            out.u8(tag::NEST_USERS).string(users).string(groups).u8(u8::from(*follow))
        }
        Step::LimitCapabilities { left } => out.u8(tag::LIMIT_CAPABILITIES).u64(*left),
        Step::DropCapabilities => out.u8(tag::DROP_CAPABILITIES),
        Step::Filter { program, listener, awaits } => {
            out.u8(tag::FILTER).bytes(program).u8(u8::from(*listener)).u8(u8::from(*awaits))
        }
        Step::BornInNetwork => out.u8(tag::BORN_IN_NETWORK),
        Step::HoldHost { path } => out.u8(tag::HOLD_HOST).string(path),
        Step::Later => out.u8(tag::LATER),
        Step::TakeDescriptors { numbers } => out.u8(tag::TAKE_DESCRIPTORS).numbers(numbers.iter().copied()),
        Step::Session { layer } => out.u8(tag::SESSION).u64(*layer),
    };
}

fn access_tag(access: Access) -> u8 {
    match access {
        Access::Read => tag::ACCESS_READ,
        Access::Write => tag::ACCESS_WRITE,
        Access::Device => tag::ACCESS_DEVICE,
    }
}
