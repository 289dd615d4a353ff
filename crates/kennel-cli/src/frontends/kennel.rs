//! kennel's own command line: one command after another, and the file that does it.

use std::ffi::OsString;

use crate::commands::{self, print, say};
use crate::flags::{self, Invocation};

/// Does what the words ask for and returns the exit code.
pub fn main(words: Vec<OsString>) -> i32 {
    match flags::parse(words) {
        Ok(Invocation::Run(args)) => commands::run(&args),
        Ok(Invocation::Plan { args, json }) => commands::plan(&args, json),
        Ok(Invocation::Doctor { json }) => commands::doctor(json),
        Ok(Invocation::FrontEnd { name, words }) => match super::other(name) {
            Some(front_end) => (front_end.main)(words),
            // A test holds that there is one.
            None => commands::FAILED,
        },
        Ok(Invocation::Registries { json }) => commands::registries(json),
        Ok(Invocation::Caches { json }) => commands::caches(json),
        Ok(Invocation::CacheTable) => commands::cache_table(),
        Ok(Invocation::ClearCaches { project, all }) => commands::clear_caches(project.as_ref(), all),
        Ok(Invocation::Enable { names, yes }) => commands::enable(&names, yes, &super::others()),
        Ok(Invocation::Disable { names }) => commands::disable(&names),
        Ok(Invocation::Bypass { name, words }) => commands::bypass(&name, &words),
        Ok(Invocation::Shim { name, words }) => match name.to_str().and_then(super::other) {
            Some(front_end) => (front_end.main)(words),
            None => commands::shim(&name, words),
        },
        Ok(Invocation::Trust { what, path }) => commands::trust(what, path.as_deref()),
        Ok(Invocation::Answers { json }) => commands::answers(json),
        Ok(Invocation::RemoveAnswers { hosts, all }) => commands::remove_answers(&hosts, all),
        Ok(Invocation::Secrets { json }) => commands::secrets(json),
        Ok(Invocation::Profiles { name: None, json }) => commands::profiles(json),
        Ok(Invocation::Profiles { name: Some(name), .. }) => commands::profile(&name),
        Ok(Invocation::Schema) => print(&format!("{:#}\n", kennel_policy::settings::schema())),
        Ok(Invocation::Completions(shell)) => print(&flags::completions::script(shell)),
        Ok(Invocation::Man) => print(&flags::man::page()),
        Ok(Invocation::Help(topic)) => print(&flags::help::render(topic)),
        Ok(Invocation::HelpAll(command)) => print(&flags::help::all(command)),
        Ok(Invocation::Version) => print(concat!("kennel ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(error) => {
            say(&error.to_string());
            error.exit_code().into()
        }
    }
}
