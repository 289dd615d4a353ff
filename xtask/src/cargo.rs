//! Calling cargo, and learning from its messages which programs came of a build.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Failure;
use crate::static_linux::StaticLinux;

/// The cargo that runs this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The folder of the workspace.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// A program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What cargo calls the target: the name of a suite, a crate or a binary.
    pub name: String,
    /// `test` for integration tests, `bin`, `lib`, …
    pub kind: String,
    /// Whether it runs the tests of the target, rather than being it.
    pub has_tests: bool,
    /// Where it lies.
    pub path: PathBuf,
}

/// Builds, and returns the programs that came of it.
///
/// # Errors
/// When something does not compile; the compiler has said what.
pub fn build(arguments: &[&str]) -> Result<Vec<Program>, Failure> {
    build_by(cargo(), arguments)
}

/// The same by a call of cargo that has been told more.
///
/// # Errors
/// When something does not compile; the compiler has said what.
pub fn build_by(command: Command, arguments: &[&str]) -> Result<Vec<Program>, Failure> {
    build_messages(command, arguments).map(|messages| programs(&messages))
}

/// The same, for all of cargo's messages.
///
/// # Errors
/// When something does not compile; the compiler has said what.
pub fn build_messages(mut command: Command, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    let output = command
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("running cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", arguments.join(" "), output.status).into());
    }
    Ok(output.stdout)
}

/// The programs that cargo's messages speak of.
pub fn programs(messages: &[u8]) -> Vec<Program> {
    String::from_utf8_lossy(messages).lines().filter_map(program_of).collect()
}

/// The crates of registries that cargo's messages say were made into libraries for a target: names and versions.
pub fn registry_libraries(messages: &[u8], target: &str) -> BTreeSet<(String, String)> {
    let folder = format!("/{target}/");
    let text = String::from_utf8_lossy(messages);
    let library = |line: &str| {
        let id = text_after(line, r#""package_id":""#)?;
        let files = line.split_once(r#""filenames":["#)?.1.split_once(']')?.0;
        let is_library = files.contains(".rlib") && files.contains(&folder);
        let (name, version) = id.rsplit_once('#')?.1.split_once('@')?;
        (is_library && id.starts_with("registry+")).then(|| (name.to_owned(), version.to_owned()))
    };
    text.lines().filter_map(library).collect()
}

/// Builds packages for this machine as they are released. A standard library of musl is used if it is there.
///
/// # Errors
/// When something does not compile.
pub fn build_release(packages: &[&str]) -> Result<Vec<Program>, Failure> {
    let platform = StaticLinux::find(std::env::consts::ARCH, false)?;
    println!("release binaries are built for {}", platform.target);
    Ok(platform.build_release(packages)?.programs)
}

/// The compiler that cargo uses.
pub fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Whether the compiler has the standard library of this target.
pub fn has_standard_library(target: &str) -> bool {
    let Ok(output) = rustc().args(["--print", "target-libdir", "--target", target]).output() else {
        return false;
    };
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.as_encoded_bytes().starts_with(b"libstd-") && name.as_encoded_bytes().ends_with(b".rlib")
        })
    })
}

/// The one binary of this name.
///
/// # Errors
/// When it is not among them.
pub fn binary<'p>(programs: &'p [Program], name: &str) -> Result<&'p Program, Failure> {
    let found = programs.iter().find(|program| program.name == name && !program.has_tests);
    found.ok_or_else(|| format!("cargo built no program called {name}").into())
}

/// The program that a message speaks of. The messages are cargo's own, one per line, without blanks between their
/// parts; a path that JSON has to escape is one that nobody builds in, and is passed over.
fn program_of(message: &str) -> Option<Program> {
    let path = text_after(message, r#""executable":""#)?;
    let target = message.split_once(r#""target":{"#)?.1;
    Some(Program {
        name: text_after(target, r#""name":""#)?.to_owned(),
        kind: text_after(target, r#""kind":[""#)?.to_owned(),
        has_tests: target.split_once(r#""profile":{"#)?.1.split_once('}')?.0.contains(r#""test":true"#),
        path: path.into(),
    })
}

fn text_after<'m>(message: &'m str, key: &str) -> Option<&'m str> {
    let (text, _) = message.split_once(key)?.1.split_once('"')?;
    (!text.contains('\\')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_from_cargos_message() {
        let message = concat!(
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/tests#kennel-tests@0.1.0","#,
            r#""manifest_path":"/w/tests/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"#,
            r#""name":"escape","src_path":"/w/tests/escape/main.rs"},"profile":{"test":true},"#,
            r#""filenames":["/t/deps/escape-1"],"executable":"/t/deps/escape-1","fresh":true}"#
        );
        let (name, kind) = ("escape".into(), "test".into());
        let expected = Program { name, kind, has_tests: true, path: "/t/deps/escape-1".into() };
        assert_eq!(program_of(message), Some(expected));
    }

    #[test]
    fn libraries_of_the_target_are_told_from_those_of_build_scripts() {
        let message = |place: &str| {
            format!(
                r#"{{"package_id":"registry+https://r/index#libc@0.2.1","filenames":["/w/target/{place}/liblibc-1.rlib"]}}"#
            )
        };
        let found = registry_libraries(message("a-b-c/release/deps").as_bytes(), "a-b-c");
        assert_eq!(found, [("libc".to_owned(), "0.2.1".to_owned())].into());
        assert!(registry_libraries(message("release/deps").as_bytes(), "a-b-c").is_empty());
    }

    #[test]
    fn a_library_is_no_program() {
        let message = r#"{"target":{"kind":["lib"],"name":"kennel"},"executable":null}"#;
        assert_eq!(program_of(message), None);
    }
}
