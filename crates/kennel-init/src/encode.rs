//! From a [`Plan`] to the bytes that init reads. The reader is `child::wire`; the two are changed together.
//!
//! Little-endian and unaligned. A string carries its NUL, so that init can hand it to the kernel where it lies.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::child::steps::{Tag, each_step};
use crate::child::tag;
use crate::plan::{
    Access, Base, Command, CommandUser, Cover, Covering, FirstLook, Identity, OpenFiles, Plan, Planned, Step,
    Terminal,
};

/// What can travel.
pub(crate) trait Encode: Sized {
    /// Puts it behind what is there.
    fn encode(&self, out: &mut Vec<u8>);

    /// The same for many, without their count.
    fn encode_all(all: &[Self], out: &mut Vec<u8>) {
        all.iter().for_each(|one| one.encode(out));
    }
}

impl Encode for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn encode_all(all: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(all);
    }
}

impl Encode for u32 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

impl Encode for u64 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

/// Lengths fit: the kernel takes no argument list, path or filter of 4 GiB.
fn encode_list<T: Encode>(list: &[T], out: &mut Vec<u8>) {
    u32::try_from(list.len()).unwrap_or(u32::MAX).encode(out);
    T::encode_all(list, out);
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(self, out);
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        T::encode_all(self, out);
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
}

impl Encode for &CStr {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_list(self.to_bytes_with_nul(), out);
    }
}

/// Each as something else that can travel.
macro_rules! encode_as {
    ($($kind:ty: $own:ident => $other:expr;)*) => {
        $(impl Encode for $kind {
            fn encode(&self, out: &mut Vec<u8>) {
                let $own = self;
                $other.encode(out);
            }
        })*
    };
}

encode_as! {
    bool: own => u8::from(*own);
    u16: own => u32::from(*own);
    i32: own => own.cast_unsigned();
    CString: own => own.as_c_str();
    Identity: own => (own.device, own.inode);
    CommandUser: own => ((own.uid, own.gid), (own.groups, own.capabilities));
    Base: own => (own.path.as_c_str(), own.identity);
    Access: own => match own {
        Access::Read => tag::ACCESS_READ,
        Access::Write => tag::ACCESS_WRITE,
        Access::Device => tag::ACCESS_DEVICE,
    };
    Cover: own => match own {
        Cover::Hide => tag::COVER_HIDE,
        Cover::Keep => tag::COVER_KEEP,
        Cover::Hold => tag::COVER_HOLD,
    };
    FirstLook: own => match *own {
        FirstLook::Over => (tag::FIRST_LOOK_OVER, Identity::default()),
        FirstLook::On(file) => (tag::FIRST_LOOK_ON, file),
        FirstLook::Own(file) => (tag::FIRST_LOOK_OWN, file),
    };
    Terminal: own => match own {
        Terminal::Detached => tag::TERMINAL_DETACHED,
        Terminal::Background => tag::TERMINAL_BACKGROUND,
        Terminal::Foreground => tag::TERMINAL_FOREGROUND,
    };
    OpenFiles: own => match *own {
        OpenFiles::Inherit => [0, u64::MAX],
        OpenFiles::AtMost(most) => [0, most],
        OpenFiles::Exactly(count) => [count, count],
    };
}

impl Encode for Covering {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.cover, self.base).encode(out);
        (self.target.as_c_str(), self.first).encode(out);
        self.known.encode(out);
    }
}

macro_rules! encode_step {
    ($($(#[doc = $what:literal])+ $name:ident $({ $($field:ident: $kind:ty = $about:literal),+ $(,)? })?,)*) => {
        impl Encode for Step {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Step::$name $({ $($field),+ })? => {
                        out.push(Tag::$name as u8);
                        $($($field.encode(out);)+)?
                    })*
                }
            }
        }
    };
}

each_step!(encode_step);

/// Each step is prefixed by its length, so that a reader can pass over it.
impl Encode for Planned {
    fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        0u32.encode(out);
        self.step.encode(out);
        let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

fn encode_part<T: Encode>(list: &[T], room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room);
    tag::MAGIC.encode(&mut out);
    encode_list(list, &mut out);
    out
}

/// The bytes of a plan's opening.
#[must_use]
pub fn encode_opening(opening: &[Planned]) -> Vec<u8> {
    encode_part(opening, 1024)
}

/// The bytes of the steps that come after [`Step::Later`].
#[must_use]
pub fn encode_late(steps: &[Planned]) -> Vec<u8> {
    encode_part(steps, 1024)
}

/// The bytes of a request to cover names again.
#[must_use]
pub fn encode_coverings(coverings: &[Covering]) -> Vec<u8> {
    encode_part(coverings, 0)
}

/// The bytes of the folders to take hold of, which come before all requests to cover names.
#[must_use]
pub fn encode_bases(bases: &[Base]) -> Vec<u8> {
    encode_part(bases, 0)
}

impl Plan {
    /// The bytes of the steps that follow the opening.
    #[must_use]
    pub fn encode_steps(&self) -> Vec<u8> {
        encode_part(&self.steps, 16 * 1024)
    }
}

impl Command {
    /// The bytes of the part that says what is started.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 * 1024);
        let limit = self.time_limit.map_or(0, |limit| limit.as_nanos().max(1));
        (tag::MAGIC, self.terminal).encode(&mut out);
        (u64::try_from(limit).unwrap_or(0), self.starts_silently).encode(&mut out);
        self.open_files.encode(&mut out);
        self.keep.encode(&mut out);
        self.user.is_some().encode(&mut out);
        if let Some(user) = &self.user {
            user.encode(&mut out);
        }
        for strings in [&self.candidates, &self.arguments, &self.environment] {
            strings.encode(&mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::child::wire::Reader;

    #[test]
    fn what_is_written_is_what_init_reads() {
        let identity = Identity { device: 7, inode: u64::MAX };
        let bind = Step::Bind {
            target: c"/t".into(),
            access: Access::Device,
            source: c"/s".into(),
            identity,
            early: true,
        };
        let listen = Step::Listen {
            family: 2,
            kind: 1,
            address: vec![1, 2, 3],
            options: vec![[4, 5, 6], [7, 8, 9]],
            role: 11,
        };
        let landlock =
            Step::Landlock { attributes: vec![1], paths: vec![(c"/p".into(), 2)], ports: vec![(443, 3)] };
        let steps = [bind, Step::PivotRoot, listen, landlock];
        let steps = steps.map(|step| Planned { step, reason: String::new() });
        let bytes = encode_opening(&steps);
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.magic(), reader.count()), (Ok(()), Ok(4)));
        let mut next = |expected| {
            let (tag, fields) = reader.step().expect("a step");
            assert_eq!(tag, expected);
            fields
        };

        let mut fields = next(Tag::Bind);
        assert_eq!((fields.string(), fields.u8()), (Ok(c"/t"), Ok(tag::ACCESS_DEVICE)));
        assert_eq!((fields.string(), fields.identity(), fields.u8()), (Ok(c"/s"), Ok(identity), Ok(1)));
        assert!(next(Tag::PivotRoot).u8().is_err());
        let mut fields = next(Tag::Listen);
        assert_eq!((fields.u32(), fields.u32(), fields.bytes()), (Ok(2), Ok(1), Ok(&[1, 2, 3][..])));
        assert_eq!(fields.count(), Ok(2));
        assert!((4..10).all(|number| fields.u32() == Ok(number)));
        assert_eq!(fields.u32(), Ok(11));
        let mut fields = next(Tag::Landlock);
        assert_eq!((fields.count(), fields.u64()), (Ok(1), Ok(1)));
        assert_eq!((fields.count(), fields.string(), fields.u64()), (Ok(1), Ok(c"/p"), Ok(2)));
        assert_eq!((fields.count(), fields.u32(), fields.u64()), (Ok(1), Ok(443), Ok(3)));
        assert!(fields.u8().is_err());
    }
}
