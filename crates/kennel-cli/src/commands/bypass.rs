//! `kennel bypass` and `kennel shim`: the program behind a name, without its shim, and in its profile.

use std::ffi::OsString;
use std::io;

use kennel_policy::printed::show;

use super::shims::InPath;
use super::{FAILED, run, say};
use crate::flags::{self, Invocation};
use crate::platform;

/// Runs the program itself, in the place of kennel. Returns only when it could not be run.
pub fn bypass(name: &OsString, arguments: &[OsString]) -> i32 {
    let shown = show(name.as_encoded_bytes());
    let Some(program) = name.to_str().and_then(|name| InPath::find(name).program) else {
        say(&format!("kennel bypass: {shown}: command not found, besides kennel's own shims"));
        return 127;
    };
    let error = platform::become_program(&program, name, arguments);
    say(&format!("kennel bypass: {}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Runs the program in its profile, as its shim does; inside a sandbox, which holds already, the program itself.
pub fn shim(name: &OsString, arguments: Vec<OsString>) -> i32 {
    if platform::is_inside() {
        return bypass(name, &arguments);
    }
    let shown = show(name.as_encoded_bytes());
    if name.to_str().is_none_or(|name| name.contains('/') || InPath::find(name).program.is_none()) {
        say(&format!(
            "kennel: {shown}: command not found, besides kennel's own shim\nhelp: install {shown}, or `kennel disable {shown}`"
        ));
        return 127;
    }
    let words =
        ["run", "--profile"].map(OsString::from).into_iter().chain([name.clone(), "--".into(), name.clone()]);
    match flags::parse(words.chain(arguments)) {
        Ok(Invocation::Run(args)) => run(&args),
        _ => FAILED,
    }
}
