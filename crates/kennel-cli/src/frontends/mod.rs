//! The front ends: command lines that kennel answers to, each by the name that it is called by.
//!
//! `srt` and `codex-linux-sandbox` are other programs' command lines with settings of their own. Each front end reads its
//! words, ends in the same policy as all the others, and differs in its messages and exit codes.

mod codex;
mod kennel;
mod srt;

use std::env::consts::EXE_SUFFIX;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A command line that kennel answers to.
pub struct FrontEnd {
    /// The name of the program.
    pub name: &'static str,
    /// Does what the words ask for, which come without the program's name, and returns the exit code.
    pub main: fn(Vec<OsString>) -> i32,
}

const KENNEL: FrontEnd = FrontEnd { name: "kennel", main: kennel::main };

/// All of them but kennel's own. Each is a command of kennel too.
static OTHERS: [FrontEnd; 2] =
    [FrontEnd { name: "srt", main: srt::main }, FrontEnd { name: "codex-linux-sandbox", main: codex::main }];

/// The front end for the name that this program was called by; kennel's own for any name that it does not know.
pub fn called(program: &OsStr) -> &'static FrontEnd {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    other(name.strip_suffix(EXE_SUFFIX).unwrap_or(name)).unwrap_or(&KENNEL)
}

/// The front end of this name, unless it is kennel's own.
fn other(name: &str) -> Option<&'static FrontEnd> {
    OTHERS.iter().find(|front_end| front_end.name == name)
}

/// Their names.
fn others() -> Vec<&'static str> {
    OTHERS.iter().map(|front_end| front_end.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_end_is_found_by_the_last_part_of_the_programs_path() {
        let name = |program: &str| called(program.as_ref()).name;
        assert_eq!(name("/opt/bin/srt"), "srt");
        assert_eq!(name(&format!("codex-linux-sandbox{EXE_SUFFIX}")), "codex-linux-sandbox");
        for own in ["kennel", "./kennel-1.2", "srt.sh", "srt/kennel", "", ".."] {
            assert_eq!(name(own), "kennel", "{own}");
        }
    }

    #[test]
    fn every_other_front_end_is_a_command_of_kennel() {
        for FrontEnd { name, .. } in &OTHERS {
            let typed = crate::flags::parse([*name, "--help", "x"].map(OsString::from));
            let Ok(crate::flags::Invocation::FrontEnd { name: found, words }) = typed else {
                panic!("{name}: {typed:?}")
            };
            assert_eq!((found, words), (*name, vec!["--help".into(), "x".into()]));
        }
    }
}
