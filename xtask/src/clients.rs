//! The clients that `tests/clients` and `tests/secrets` make requests with: libraries and package managers from PyPI and npm,
//! in fixed versions, in a folder that stays for the next run. docs/network.md names the versions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peers::user;

/// Where, because an ordinary user has to reach it.
const FOLDER: &str = "/var/tmp/kennel-clients";

/// Packages of PyPI, in the folder `python`.
const PYTHON: &[(&str, &str)] = &[
    ("aiohttp", "3.14.5"),
    ("anthropic", "2.8.0"),
    ("google-genai", "3.1.0"),
    ("grpcio", "1.85.1"),
    ("httpx", "0.28.1"),
    ("huggingface_hub", "2.4.0"),
    ("openai", "3.49.0"),
    ("pip", "26.3"),
    ("requests", "2.34.2"),
    ("uv", "0.13.7"),
];

/// Packages of PyPI in the major before, in the folder `python-previous`: they send the key in another header field.
const PREVIOUS: &[(&str, &str)] = &[("anthropic", "1.17.0")];

/// Packages of npm, in the folder `node_modules`; `name@npm:package` is a package under another name.
const NODE: &[(&str, &str)] = &[
    ("@anthropic-ai/sdk", "1.8.0"),
    ("@grpc/grpc-js", "1.14.7"),
    ("@yarnpkg/cli-dist", "4.18.1"),
    ("anthropic-previous@npm:@anthropic-ai/sdk", "0.137.0"),
    ("npm", "11.21.1"),
    ("openai", "7.53.0"),
    ("pnpm", "12.18.0"),
    ("yarn", "1.22.22"),
];

/// The folder, with whatever is in it; a test whose client is not there is skipped.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(FOLDER);
    // Anybody can make a folder there; what we run is our own.
    let data = folder.symlink_metadata().ok()?;
    (data.is_dir() && data.uid() == user()).then(|| folder.to_path_buf())
}

/// Installs what is missing. A failure is told, not returned: the tests of these clients are then skipped.
pub fn install() {
    let _ = fs::create_dir(FOLDER);
    let Some(folder) = folder() else {
        return println!("note: {FOLDER} is somebody else's; tests of clients are skipped");
    };
    let node = |(name, version): &(&str, &str)| {
        let name = name.split_once("@npm:").map_or(*name, |(alias, _)| alias);
        let package = folder.join("node_modules").join(name).join("package.json");
        fs::read_to_string(package).is_ok_and(|text| text.contains(&format!("\"version\": \"{version}\"")))
    };
    by_pip(&folder.join("python"), PYTHON);
    by_pip(&folder.join("python-previous"), PREVIOUS);
    if !NODE.iter().all(node) {
        println!("installing into {FOLDER}: {}", words(NODE, "@").join(" "));
        let mut npm = Command::new("npm");
        npm.arg("install").arg("--prefix").arg(&folder).args(["--save-exact", "--no-audit", "--no-fund"]);
        npm.args(["--loglevel=error", "--fetch-retries=1", "--fetch-timeout=60000"]);
        npm.args(words(NODE, "@"));
        if !succeeds(&mut npm) || !NODE.iter().all(node) {
            println!("note: npm could not install all of them; tests of these clients are skipped");
        }
    }
}

/// Installs packages of PyPI into a folder, unless all of them are there.
fn by_pip(folder: &Path, packages: &[(&str, &str)]) {
    let is_there = |(name, version): &(&str, &str)| {
        // Names of such folders have `_` where the package's name has `-`.
        folder.join(format!("{}-{version}.dist-info", name.replace('-', "_"))).is_dir()
    };
    if packages.iter().all(is_there) {
        return;
    }
    println!("installing into {}: {}", folder.display(), words(packages, "==").join(" "));
    let mut pip = Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1"]);
    pip.args(["--upgrade", "--only-binary=:all:", "--target"]).arg(folder);
    pip.args(words(packages, "=="));
    if !succeeds(&mut pip) || !packages.iter().all(is_there) {
        println!("note: pip could not install all of them; tests of these clients are skipped");
    }
}

/// Packages as their installers are told them.
fn words(packages: &[(&str, &str)], between: &str) -> Vec<String> {
    packages.iter().map(|(name, version)| format!("{name}{between}{version}")).collect()
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|end| end.success())
}
