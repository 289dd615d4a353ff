//! Where the clients are. `cargo xtask test` installs those of PyPI and npm and says where, in `KENNEL_CLIENTS`; the others
//! are programs of the system.

use std::path::PathBuf;

use kennel_tests::program;

/// Something that a client needs.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// A program that `PATH` leads to, and that this user can run.
    Program(&'static str),
    /// A package of PyPI.
    Python(&'static str),
    /// A package of npm.
    Node(&'static str),
}

/// The folder with packages of both.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("KENNEL_CLIENTS").map(PathBuf::from).filter(|folder| folder.is_dir())
}

impl Need {
    /// Its version, where it is one that kennel's tests choose; else nothing. An error says why it is not there.
    pub fn version(self) -> Result<Option<String>, String> {
        match self {
            Need::Program(name) => {
                let path = program(name).ok_or_else(|| format!("{name} is not installed"))?;
                // Some, such as rustup's cargo, are there for one user and do not work for another.
                let words = if name == "go" { "version" } else { "--version" };
                let works = name == "ssh"
                    || std::process::Command::new(path)
                        .arg(words)
                        .stdin(std::process::Stdio::null())
                        .output()
                        .is_ok_and(|output| output.status.success());
                if works { Ok(None) } else { Err(format!("{name} does not work for this user")) }
            }
            Need::Python(name) => {
                let missing = || format!("the Python package {name} is not installed (KENNEL_CLIENTS)");
                let entries = folder().and_then(|folder| std::fs::read_dir(folder.join("python")).ok());
                let prefix = format!("{name}-");
                let version = entries.into_iter().flatten().flatten().find_map(|entry| {
                    let name = entry.file_name().into_string().ok()?;
                    Some(name.strip_prefix(&prefix)?.strip_suffix(".dist-info")?.to_owned())
                });
                version.map(Some).ok_or_else(missing)
            }
            Need::Node(name) => {
                let missing = || format!("the npm package {name} is not installed (KENNEL_CLIENTS)");
                let path = folder().map(|folder| folder.join("node_modules").join(name).join("package.json"));
                let text = path.and_then(|path| std::fs::read_to_string(path).ok()).ok_or_else(missing)?;
                let package: serde_json::Value = serde_json::from_str(&text).map_err(|_| missing())?;
                package["version"].as_str().map(|version| Some(version.to_owned())).ok_or_else(missing)
            }
        }
    }
}
