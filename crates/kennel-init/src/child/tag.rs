//! The first byte of each encoded step.

#![allow(missing_docs, reason = "one constant for each variant of plan::Step")]

pub const PRIVATE_MOUNTS: u8 = 1;
pub const HOST_ROOT: u8 = 2;
pub const TMPFS_ROOT: u8 = 3;
pub const TMPFS: u8 = 4;
pub const MAKE_DIR: u8 = 5;
pub const MAKE_FILE: u8 = 6;
pub const SYMLINK: u8 = 7;
pub const WRITE_FILE: u8 = 8;
pub const BIND: u8 = 9;
pub const MASK_DIR: u8 = 10;
pub const MASK_FILE: u8 = 11;
pub const PROC: u8 = 12;
pub const DEVPTS: u8 = 13;
pub const READ_ONLY: u8 = 14;
pub const PIVOT_ROOT: u8 = 15;
pub const HOSTNAME: u8 = 16;
pub const LOOPBACK_UP: u8 = 17;
pub const NETLINK: u8 = 18;
pub const LISTEN: u8 = 19;
pub const CHANGE_DIR: u8 = 20;
pub const LIMIT: u8 = 21;
pub const AWAIT_CONTROLLER: u8 = 22;
pub const NO_NEW_PRIVILEGES: u8 = 23;
pub const LANDLOCK: u8 = 24;
pub const DROP_CAPABILITIES: u8 = 25;
pub const FILTER: u8 = 26;
pub const STORE: u8 = 27;
pub const SEAL_MOUNTS: u8 = 28;
pub const COVER_FILE: u8 = 29;
pub const PRIVATE: u8 = 30;
pub const OWN_NETWORK: u8 = 31;
pub const ENTER_NETWORK: u8 = 32;
pub const HAND_OVER_STORE: u8 = 33;
pub const NAMESPACE_LIMIT: u8 = 34;
pub const OWN_KEYRING: u8 = 35;
pub const OWN_CGROUPS: u8 = 36;
pub const TERMINAL: u8 = 37;
pub const DEVICE_STREAM: u8 = 38;
pub const INPUT_FILE: u8 = 39;
pub const LATER: u8 = 50;
pub const TAKE_DESCRIPTORS: u8 = 51;
pub const HOLD_HOST: u8 = 58;
pub const BORN_IN_NETWORK: u8 = 59;
pub const SESSION: u8 = 52;
pub const ROOT_OWNS: u8 = 70;
pub const HOME: u8 = 71;
pub const NEST_USERS: u8 = 72;
pub const LIMIT_CAPABILITIES: u8 = 73;

/// `Access` of a bind.
pub const ACCESS_READ: u8 = 0;
pub const ACCESS_WRITE: u8 = 1;
pub const ACCESS_DEVICE: u8 = 2;

/// `Terminal` of a command.
pub const TERMINAL_DETACHED: u8 = 0;
pub const TERMINAL_BACKGROUND: u8 = 1;
pub const TERMINAL_FOREGROUND: u8 = 2;

/// How a name is covered again.
pub const COVER_HIDE: u8 = 0;
pub const COVER_KEEP: u8 = 1;
pub const COVER_HOLD: u8 = 2;

/// First four bytes of an encoded plan.
pub const MAGIC: u32 = 0x6b65_6e31;
