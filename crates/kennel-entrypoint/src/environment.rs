//! The initial environment: what the agent keeps, what configures the entrypoint, and what neither may see again.
//!
//! Unsetting a variable only edits a list of pointers: the strings themselves stay on the initial stack, where
//! `/proc/1/environ` and `/proc/1/mem` go on showing them for as long as this program runs. execve replaces that
//! memory, so an agent that *becomes* PID 1 inherits nothing; but until then, and for good with `AGENT_INIT=1`, the
//! values would be there. So every string that is not for the agent is wiped in place once it has been read. The control
//! plane's values are not even copied: the entrypoint has no use for them. What is for the agent stays where it is.

use alloc::borrow::ToOwned;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::report::Trouble;
use crate::sys::Strings;

/// Variables of the control plane. The agent never sees them.
const CONTROL_PLANE: [&[u8]; 3] = [b"SESSION_TOKEN", b"CONTROL_PLANE_URL", b"SESSION_ID"];

/// The environment, sorted by who it is for.
pub struct Environment<'a> {
    /// Everything else, byte for byte and in order: what the agent gets.
    pub kept: Vec<&'a CStr>,
    /// Variables that configure this program, taken out of the agent's environment.
    pub configuration: Configuration,
}

/// The `AGENT_…` variables, as they were set; the accessors give their meaning. An empty one counts as not set.
#[derive(Default)]
pub struct Configuration {
    command: Option<CString>,
    arguments: Option<CString>,
    user: Option<CString>,
    workdir: Option<CString>,
    strict: Option<CString>,
    init: Option<CString>,
}

impl Environment<'_> {
    /// Reads the initial environment, and wipes in it what is not for the agent.
    pub fn take(initial: Strings) -> Self {
        let mut kept = Vec::new();
        let mut configuration = Configuration::default();
        for entry in initial {
            match configuration.sort(entry.get()) {
                For::Agent => kept.push(entry.keep()),
                For::Nobody => entry.wipe(),
            }
        }
        Self { kept, configuration }
    }
}

/// Who may still see a variable.
enum For {
    Agent,
    Nobody,
}

impl Configuration {
    /// Decides who a variable is for, and remembers it if it configures this program.
    fn sort(&mut self, entry: &CStr) -> For {
        let bytes = entry.to_bytes();
        let name_end = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
        let name = &bytes[..name_end];
        if CONTROL_PLANE.contains(&name) {
            return For::Nobody;
        }
        let Some(setting) = self.slot(name) else { return For::Agent };
        // Of a variable that occurs twice the first counts, as in getenv(); none of them is passed on.
        if setting.is_none() && bytes.len() > name_end + 1 {
            *setting = CStr::from_bytes_with_nul(&entry.to_bytes_with_nul()[name_end + 1..])
                .ok()
                .map(ToOwned::to_owned);
        }
        For::Nobody
    }

    /// The one place that names the variables that are read and stripped.
    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<CString>> {
        match name {
            b"AGENT_COMMAND" => Some(&mut self.command),
            b"AGENT_ARGS" => Some(&mut self.arguments),
            b"AGENT_USER" => Some(&mut self.user),
            b"AGENT_WORKDIR" => Some(&mut self.workdir),
            b"AGENT_STRICT" => Some(&mut self.strict),
            b"AGENT_INIT" => Some(&mut self.init),
            _ => None,
        }
    }

    /// `AGENT_COMMAND`: the name or path of one program.
    pub fn command(&self) -> Option<&CStr> {
        self.command.as_deref()
    }

    /// `AGENT_ARGS`: words or a JSON array, not yet parsed.
    pub fn arguments(&self) -> Option<&CStr> {
        self.arguments.as_deref()
    }

    /// `AGENT_USER`: a name in `/etc/passwd`.
    pub fn user(&self) -> &CStr {
        self.user.as_deref().unwrap_or(c"agent")
    }

    /// `AGENT_WORKDIR`: where the agent starts.
    pub fn workdir(&self) -> &CStr {
        self.workdir.as_deref().unwrap_or(c"/workspace")
    }

    /// `AGENT_STRICT`: whether warnings are errors.
    pub fn strict(&self) -> Result<bool, Trouble> {
        switch("AGENT_STRICT", self.strict.as_deref())
    }

    /// `AGENT_INIT`: whether to stay as the agent's init.
    pub fn init(&self) -> Result<bool, Trouble> {
        switch("AGENT_INIT", self.init.as_deref())
    }
}

/// Only 1 and 0: a switch for safety must not be off because somebody wrote `yes`.
fn switch(name: &'static str, value: Option<&CStr>) -> Result<bool, Trouble> {
    match value.map(CStr::to_bytes) {
        None | Some(b"0") => Ok(false),
        Some(b"1") => Ok(true),
        Some(other) => Err(Trouble::new("reading a switch", name, [b"neither 1 nor 0: ", other].concat())
            .help("set it to 1, or leave it out")),
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::c_char;

    use super::*;

    /// Runs `test` on what was taken from a block like the kernel's, and returns what the block holds afterwards.
    fn take(entries: &[&CStr], test: impl FnOnce(Environment)) -> Vec<Vec<u8>> {
        let mut strings: Vec<_> = entries.iter().map(|entry| entry.to_bytes_with_nul().to_vec()).collect();
        let mut list: Vec<*mut c_char> =
            strings.iter_mut().map(|string| string.as_mut_ptr().cast()).collect();
        list.push(std::ptr::null_mut());
        // SAFETY: a null-terminated list of writable C strings that only this function knows.
        test(Environment::take(unsafe { Strings::new(list.as_ptr()) }));
        strings
    }

    #[test]
    fn what_is_not_for_the_agent_is_wiped_where_it_was() {
        let strings = take(&[c"SESSION_TOKEN=hunter2", c"PATH=/bin", c"AGENT_ARGS=--key k"], |_| ());
        assert!([&strings[0], &strings[2]].iter().all(|string| string.iter().all(|&byte| byte == 0)));
        assert_eq!(strings[1], b"PATH=/bin\0");
    }

    #[test]
    fn what_is_not_ours_is_kept_byte_for_byte_and_in_order() {
        let strange = [c"B=2", c"A=\xff\xfe=", c"no-equals-sign", c"=odd", c"SESSION_TOKEN_2=x", c"B=again"];
        take(&strange, |environment| assert_eq!(environment.kept, strange));
    }

    #[test]
    fn a_variable_that_occurs_twice_is_stripped_twice_and_the_first_counts() {
        let twice = [
            c"SESSION_ID=1",
            c"AGENT_COMMAND=first",
            c"SESSION_ID=2",
            c"AGENT_COMMAND=second",
            c"SESSION_ID",
        ];
        take(&twice, |environment| {
            assert!(environment.kept.is_empty());
            assert_eq!(environment.configuration.command(), Some(c"first"));
        });
    }

    #[test]
    fn an_empty_setting_counts_as_not_set() {
        take(&[c"AGENT_USER=", c"AGENT_WORKDIR=", c"AGENT_COMMAND=", c"AGENT_STRICT="], |environment| {
            assert_eq!(environment.configuration.user(), c"agent");
            assert_eq!(environment.configuration.workdir(), c"/workspace");
            assert_eq!(environment.configuration.command(), None);
            assert_eq!(environment.configuration.strict(), Ok(false));
        });
    }

    #[test]
    fn a_switch_is_1_or_0_and_nothing_else() {
        assert_eq!(switch("AGENT_INIT", Some(c"1")), Ok(true));
        assert_eq!(switch("AGENT_INIT", Some(c"0")), Ok(false));
        assert!(switch("AGENT_INIT", Some(c"true")).is_err());
    }
}
