//! The agent's program: where it is, and becoming it.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::command::Command;
use crate::report::Trouble;
use crate::sys::{self, Errno};

/// What container runtimes set when an image says nothing.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program that exists and may be executed, with all that execve needs.
pub struct Program<'a> {
    file: CString,
    command: Command,
    environment: Vec<&'a CStr>,
}

impl<'a> Program<'a> {
    /// Looks for the command as the user that will run it, in the `PATH` that the agent will have.
    ///
    /// A name with a slash is a path, from the working directory if it is relative. Empty and relative elements of
    /// `PATH` are passed over: they mean the working directory, whose files came from a repository, and no file in
    /// there should become the agent because of its name.
    pub fn find(command: Command, environment: Vec<&'a CStr>) -> Result<Self, Trouble> {
        let name = command.name.to_bytes();
        let file = if name.contains(&b'/') {
            sys::executable(&command.name).map(|()| command.name.clone()).map_err(|errno| {
                Trouble::new(FINDING, name, errno.text()).help("the path has to name an executable file")
            })?
        } else {
            search(name, search_path(&environment))?
        };
        Ok(Self { file, command, environment })
    }

    /// Replaces this process. Returns only if that failed.
    pub fn exec(&self) -> Trouble {
        let name = core::iter::once(self.command.name.as_c_str());
        let arguments: Vec<_> = name.chain(self.command.arguments.iter().map(CString::as_c_str)).collect();
        let errno = sys::exec(&self.file, &arguments, &self.environment);
        let help = match errno {
            // The file itself was there a moment ago.
            Errno::ENOENT => {
                "the interpreter after #!, or the program's dynamic loader, is missing in the image"
            }
            Errno::ENOEXEC => "not a program of this architecture, or a script without a #! line",
            Errno::EACCES => "the agent's user may not execute it, or its file system is mounted noexec",
            Errno::E2BIG => "the environment and AGENT_ARGS are too large together",
            _ => "",
        };
        Trouble::new("executing the agent", self.file.to_bytes(), errno.text()).help(help)
    }
}

const FINDING: &str = "finding the agent's program";

fn search_path<'a>(environment: &[&'a CStr]) -> &'a [u8] {
    environment.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH)
}

fn search(name: &[u8], path: &[u8]) -> Result<CString, Trouble> {
    let mut said = "agent binary not found in PATH".as_bytes();
    let directories = path.split(|&byte| byte == b':').filter(|directory| directory.starts_with(b"/"));
    for directory in directories {
        let Ok(file) = CString::new([directory, b"/", name].concat()) else { continue };
        match sys::executable(&file) {
            Ok(()) => return Ok(file),
            Err(Errno::EACCES) => {
                said = b"agent binary found in PATH, but the agent's user may not execute it";
            }
            Err(_) => {}
        }
    }
    let help = if name.contains(&b' ') {
        "AGENT_COMMAND names one program; its arguments go into AGENT_ARGS"
    } else {
        "install it in a directory of the image's PATH, or give its absolute path"
    };
    Err(Trouble::new(FINDING, name, said).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_path_the_runtimes_default_is_searched() {
        assert_eq!(search_path(&[c"XPATH=/x"]), DEFAULT_PATH);
        assert_eq!(search_path(&[c"PATH=/x", c"PATH=/y"]), b"/x");
    }
}
