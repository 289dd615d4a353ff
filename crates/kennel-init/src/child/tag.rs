//! Small numbers in the bytes of a plan. The tags of steps are in [`steps`](super::steps).

#![allow(missing_docs, reason = "one constant for each variant of a type in plan")]

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

/// `FirstLook` at a name.
pub const FIRST_LOOK_OVER: u8 = 0;
pub const FIRST_LOOK_ON: u8 = 1;
pub const FIRST_LOOK_OWN: u8 = 2;

/// First four bytes of an encoded plan.
pub const MAGIC: u32 = 0x6b65_6e31;
