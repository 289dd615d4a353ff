//! kennel's built-in profiles, for a configuration to start from.

use std::path::PathBuf;

use kennel_policy::profiles;
use kennel_policy::settings::{PathEntry, Settings, Stated};

use crate::config::said_path;
use crate::home::Homes;
use crate::{Result, SandboxConfig, SandboxError};

impl SandboxConfig {
    /// Says everything that a built-in profile says: `judge` for a stranger's program, `agent` for a coding agent,
    /// `build` for a build step, `data` for looking at data. What is said later replaces it; lists grow. The
    /// profile's relative paths are relative to the configuration's working directory, else to the caller's.
    ///
    /// # Errors
    /// [`SandboxError::ConfigValidation`] when there is no such profile.
    pub fn apply_profile(&mut self, name: &str) -> Result<()> {
        let folder = match &self.working_dir {
            Some(folder) => said_path(folder)?,
            None => std::env::current_dir()?,
        };
        let base = Homes::of_this_process().base(folder);
        let settings = profiles::settings(name, &base).ok_or_else(|| {
            let known = profiles::NAMES.join(", ");
            SandboxError::ConfigValidation(format!("there is no profile `{name}`; there are {known}"))
        })?;
        self.apply(settings.map_err(|error| SandboxError::Internal(error.to_string()))?);
        Ok(())
    }

    fn apply(&mut self, settings: Settings) {
        let Settings { files, network, limits, environment, process, .. } = settings;
        say(&mut self.reads, files.reads);
        for (list, entries) in [
            (&mut self.deny_read, files.deny_read),
            (&mut self.allow_read, files.allow_read),
            (&mut self.allow_write, files.allow_write),
            (&mut self.deny_write, files.deny_write),
        ] {
            list.extend(entries.into_iter().map(|entry: PathEntry| PathBuf::from(entry.pattern.to_text())));
        }
        say(&mut self.git, files.git);
        say(&mut self.on_replace, files.on_replace);
        say(&mut self.network_mode, network.mode);
        say(&mut self.memory_limit, limits.memory);
        say(&mut self.swap_limit, limits.swap);
        say(&mut self.cpu_limit, limits.cpus);
        say(&mut self.wall_time_limit, limits.timeout);
        say(&mut self.cpu_time_limit, limits.cpu_time);
        say(&mut self.max_pids, limits.pids);
        say(&mut self.max_open_files, limits.open_files);
        say(&mut self.max_file_size, limits.file_size);
        say(&mut self.tmp_size, limits.tmp_size);
        if let Some(output) = limits.output {
            self.max_output = output.value.unwrap_or(u64::MAX);
        }
        say(&mut self.clear_env, environment.clear);
        say(&mut self.seccomp_profile, process.seccomp);
    }
}

fn say<T>(field: &mut T, stated: Option<Stated<T>>) {
    if let Some(stated) = stated {
        *field = stated.value;
    }
}

#[cfg(test)]
mod tests {
    use kennel_policy::merge::{Sources, merge};
    use kennel_policy::policy::{Origin, Policy};

    use super::*;

    /// The policy without what only messages show, and without what the library says by itself.
    fn substance(mut policy: Policy) -> Policy {
        let files = &mut policy.files;
        for list in
            [&mut files.deny_read, &mut files.allow_read, &mut files.allow_write, &mut files.deny_write]
        {
            list.iter_mut().for_each(|rule| {
                rule.origin = Origin::default();
                rule.missing = kennel_policy::policy::Missing::Skip;
            });
        }
        policy.limits.output = policy.limits.output.or(Some(SandboxConfig::default().max_output));
        policy
    }

    #[test]
    fn a_profile_means_the_same_as_on_the_command_line() {
        for name in profiles::NAMES {
            let base = Homes::of_this_process().base(std::env::current_dir().unwrap());
            let profile = Some(Stated { value: name.to_owned(), origin: Origin::default() });
            let flags = Settings { profile, ..Settings::default() };
            let expected = merge(Sources::flags(base, flags)).unwrap().policy;
            let mut config = SandboxConfig::default();
            config.apply_profile(name).unwrap();
            assert_eq!(substance(config.policy().unwrap()), substance(expected), "{name}");
        }
    }

    #[test]
    fn what_is_said_later_replaces_the_profile() {
        let sandbox = crate::Sandbox::builder().profile("judge").memory_limit(1 << 30).build().unwrap();
        assert_eq!(sandbox.config().memory_limit, Some(1 << 30));
        assert_eq!(sandbox.config().max_pids, Some(64));
        let wrong = crate::Sandbox::builder().profile("jugde").build().unwrap_err();
        assert!(wrong.to_string().contains("no profile `jugde`"), "{wrong}");
    }
}
