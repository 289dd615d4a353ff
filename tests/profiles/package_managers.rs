//! Real package managers and compilers in profiles `agent` and `build`: with empty caches, with what an earlier run of the project
//! left, and with the host's below.

use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_tests::{program, ran, skipped};

use crate::profiles::Home;

#[test]
fn npm_installs_and_finds_its_cache_again() {
    if program("npm").is_none() {
        return skipped("npm is not installed");
    }
    for profile in ["agent", "build"] {
        let home = Home::new();
        home.write("project/dep/package.json", r#"{ "name": "dep", "version": "1.0.0", "main": "dep.js" }"#);
        home.write("project/dep/dep.js", "module.exports = 'from a dependency'\n");
        let packed = "cd dep && tar -czf ../dep.tgz --transform 's,^,package/,' package.json dep.js";
        home.outside(packed);
        home.write(
            "project/package.json",
            r#"{ "name": "p", "version": "1.0.0", "dependencies": { "dep": "file:dep.tgz" } }"#,
        );
        let install = "npm install --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null && \
                       rm -r node_modules && npm ci --no-audit --no-fund --no-update-notifier --loglevel=error >/dev/null && \
                       node -e 'console.log(require(\"dep\"))'; ls ~/.npm/_cacache";
        for round in ["cold", "warm"] {
            let told = home.inside(&["--profile", profile], install).ok();
            assert!(told.stdout.starts_with("from a dependency\n"), "{profile} {round}: {told:?}");
            assert!(!told.stderr.contains("EROFS") && !told.stderr.contains("kennel:"), "{}", told.stderr);
        }
        assert!(!home.at(".npm").exists(), "the host's is not made");
    }
}

#[test]
fn pip_installs_without_a_word_about_its_cache() {
    let python = Path::new("/usr/bin/python3");
    let has_pip = Command::new(python)
        .args(["-m", "pip", "--version"])
        .output()
        .is_ok_and(|told| told.status.success());
    if !has_pip {
        return skipped("there is no pip");
    }
    for profile in ["agent", "build"] {
        let home = Home::new();
        home.write(
            "project/pack.py",
            "import zipfile\n\
             with zipfile.ZipFile('wheels/dep-1.0-py3-none-any.whl', 'w') as wheel:\n  \
             wheel.writestr('dep.py', 'word = \"from a wheel\"\\n')\n  \
             wheel.writestr('dep-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: dep\\nVersion: 1.0\\n')\n  \
             wheel.writestr('dep-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n  \
             wheel.writestr('dep-1.0.dist-info/RECORD', '')\n",
        );
        home.outside("mkdir wheels && /usr/bin/python3 pack.py");
        let install = "/usr/bin/python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore \
                       --no-index --find-links wheels --upgrade --target lib dep && \
                       PYTHONPATH=lib /usr/bin/python3 -c 'import dep; print(dep.word)'";
        for round in ["cold", "warm"] {
            let told = home.inside(&["--profile", profile], install).ok();
            assert_eq!(told.stdout, "from a wheel\n", "{profile} {round}");
            assert_eq!(told.stderr, "", "{profile} {round}");
        }
    }
}

#[test]
fn go_compiles_once_for_the_project_and_not_at_all_after_the_host() {
    if program("go").is_none() {
        return skipped("Go is not installed");
    }
    // It names what it compiles, and not what it finds.
    let build = "go build -v -o ./out . && ./out";
    let compiled = "example.com/p/dep\n";
    let with_module = || {
        let home = Home::new();
        home.write("project/go.mod", "module example.com/p\n\ngo 1.19\n");
        home.write(
            "project/main.go",
            "package main\n\nimport \"example.com/p/dep\"\n\nfunc main() { println(dep.Word) }\n",
        );
        home.write("project/dep/dep.go", "package dep\n\nconst Word = \"built\"\n");
        home
    };
    let home = with_module();
    for (profile, is_cold) in [("agent", true), ("agent", false), ("build", false)] {
        let told = home.inside(&["--profile", profile], build).ok().stderr;
        assert!(told.ends_with("built\n") && told.contains(compiled) == is_cold, "{profile}: {told}");
    }
    assert!(!home.at(".cache").exists(), "the host's is not made");
    let home = with_module();
    home.outside("unset GOCACHE; go build -o ./out .");
    let told = home.inside(&["--profile", "build"], build).ok().stderr;
    assert!(told.ends_with("built\n") && !told.contains(compiled), "{told}");
}

#[test]
fn cargo_builds_with_dependencies() {
    let Some(rustc) = program("rustc") else { return skipped("there is no rustc") };
    let told = Command::new(&rustc).args(["--print", "sysroot"]).output();
    let Some(sysroot) = told.ok().filter(|told| told.status.success()) else {
        return skipped("rustc does not run as this user");
    };
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    let home = Home::new();
    let at = home.at(".rustup/toolchains/x");
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    if !Command::new("cp").arg("-rl").arg(&sysroot).arg(&at).output().unwrap().status.success() {
        return skipped("the toolchain cannot be linked into a home of this test's");
    }
    home.write("project/Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\ndep = \"1\"\nnear = { path = \"near\" }\n");
    home.write("project/src/main.rs", "fn main() { println!(\"{} {}\", dep::WORD, near::WORD); }\n");
    home.write(
        "project/near/Cargo.toml",
        "[package]\nname = \"near\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    home.write("project/near/src/lib.rs", "pub const WORD: &str = \"near\";\n");
    home.write(
        "project/vendor/dep/Cargo.toml",
        "[package]\nname = \"dep\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    );
    home.write("project/vendor/dep/src/lib.rs", "pub const WORD: &str = \"vendored\";\n");
    home.write("project/vendor/dep/.cargo-checksum.json", "{\"files\":{}}");
    home.write(
        "project/.cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"vendored\"\n\n[source.vendored]\ndirectory = \"vendor\"\n",
    );
    let path = format!("{}:/usr/bin:/bin", at.join("bin").display());
    for profile in ["agent", "build"] {
        for round in ["cold", "warm"] {
            let script =
                "cargo run -q --offline && echo kept > ~/.cargo/registry/kept; cat ~/.cargo/registry/kept";
            let mut run = home.kennel(["run", "--profile", profile, "--", "sh", "-c", script]);
            let told = ran(run.env("PATH", &path).env_remove("CARGO_HOME").env_remove("RUSTUP_HOME")).ok();
            assert_eq!(told.stdout, "vendored near\nkept\n", "{profile} {round}: {}", told.stderr);
        }
    }
    assert!(!home.at(".cargo").exists(), "the host's is not made");
}
