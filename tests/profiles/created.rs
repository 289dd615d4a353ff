//! Folders and files that rules want to be there, and that kennel creates.

use std::os::unix::fs::{PermissionsExt, symlink};

use kennel_tests::ran;

use crate::profiles::Home;

const SETTINGS: &str = "[files]\n\
    allow_write = [{ path = \"~/a/b/c\", missing = \"create\" }, { path = \"~/a/file\", missing = \"create-file\" }]\n\
    tmpfs = [{ target = \"~/a/b/c/memory\", missing = \"create\" }]\n";

#[test]
fn what_is_missing_is_created_for_this_user_alone_and_stays() {
    let home = Home::new();
    home.write("project/s.toml", SETTINGS);
    let script = "echo x > ~/a/b/c/kept; echo y > ~/a/file; echo z > ~/a/b/c/memory/gone; echo n > ~/a/b/no 2>/dev/null";
    let ran = home.inside(&["-s", "s.toml"], script);
    assert_ne!(ran.code, 0, "only what is named can be written");
    assert_eq!(home.read("a/b/c/kept").as_deref(), Some("x\n"));
    assert_eq!(home.read("a/file").as_deref(), Some("y\n"));
    assert_eq!(home.outside("ls -A ~/a ~/a/b ~/a/b/c/memory | tr '\\n' ' '").stdout.matches("no").count(), 0);
    assert!(home.at("a/b/c/memory").read_dir().unwrap().next().is_none());
    let mode = |name: &str| home.at(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        [mode("a"), mode("a/b/c"), mode("a/file"), mode("a/b/c/memory")],
        [0o700, 0o700, 0o600, 0o700]
    );
    // What is there stays as it is.
    home.outside("chmod 755 ~/a/b/c");
    home.inside(&["-s", "s.toml"], "cat ~/a/b/c/kept ~/a/file").ok();
    assert_eq!(mode("a/b/c"), 0o755);
}

#[test]
fn a_plan_shows_what_would_be_created_and_creates_nothing() {
    let home = Home::new();
    home.write("project/s.toml", SETTINGS);
    for words in [&["-s", "s.toml"][..], &["--profile", "claude"], &["--profile", "opencode"]] {
        let plan = ran(home.kennel(["plan", "--steps"]).args(words).args(["--", "true"])).ok().stdout;
        assert!(plan.contains("  create /"), "{plan}");
    }
    assert_eq!(home.outside("ls -A ~").stdout, "project\n");
}

#[test]
fn a_place_where_nothing_can_be_created_is_an_error_that_names_it() {
    let home = Home::new();
    home.write("project/s.toml", "[files]\nallow_write = [{ path = \"/sys/a/b\", missing = \"create\" }]\n");
    let refused = home.inside(&["-s", "s.toml"], "true").expect_code(125);
    assert!(
        refused.stderr.contains("creating a folder for allow_write /sys/a/b (s.toml:2): "),
        "{}",
        refused.stderr
    );
    // Nothing is made in the root: a home that is not there is not made either.
    home.write(
        "project/s.toml",
        "[files]\nallow_write = [{ path = \"/kennel-no-such-home/x\", missing = \"create\" }]\n",
    );
    let refused = home.inside(&["-s", "s.toml"], "true").expect_code(125);
    assert!(
        refused.stderr.contains("/kennel-no-such-home/x: no such file or directory"),
        "{}",
        refused.stderr
    );
    assert!(!std::path::Path::new("/kennel-no-such-home").exists());
    // A file in the way.
    home.write("file", "");
    home.write("project/s.toml", "[files]\nallow_write = [{ path = \"~/file/x\", missing = \"create\" }]\n");
    let refused = home.inside(&["-s", "s.toml"], "true").expect_code(125);
    assert!(refused.stderr.contains("/file/x: Not a directory"), "{}", refused.stderr);
}

#[test]
#[kennel_claim::claim("handed-back/created-folders-land-in-place")]
fn a_link_that_an_earlier_run_made_leads_no_creation_elsewhere() {
    let home = Home::new();
    home.write(
        "project/s.toml",
        "[files]\nallow_write = [\"~/project\", { path = \"~/project/link/new\", missing = \"create\" }]\n",
    );
    home.outside("mkdir ~/elsewhere && mkdir ~/project/link");
    home.inside(&["-s", "s.toml"], "true").ok();
    assert!(home.at("project/link/new").is_dir());
    home.inside(&["-s", "s.toml"], "rm -r link && ln -s ../elsewhere link").ok();
    let refused = home.inside(&["-s", "s.toml"], "true").expect_code(125);
    assert!(refused.stderr.contains("leads through the symlink"), "{}", refused.stderr);
    assert_eq!(home.outside("ls -A ~/elsewhere").stdout, "");
    // The same for a file system in memory.
    home.write("project/s.toml", "[files]\nallow_write = [\"~/project\"]\ntmpfs = [{ target = \"~/project/link/new\", missing = \"create\" }]\n");
    let refused = home.inside(&["-s", "s.toml"], "true").expect_code(125);
    assert!(refused.stderr.contains("leads through the symlink"), "{}", refused.stderr);
    assert_eq!(home.outside("ls -A ~/elsewhere").stdout, "");
}

#[test]
fn a_home_that_is_a_link_has_its_state_where_it_leads() {
    let home = Home::new();
    symlink(home.at(""), home.scratch.join("link")).unwrap();
    for agent in ["claude", "codex", "opencode"] {
        let mut command = home.kennel(["run", "--profile", agent, "--", "sh", "-c"]);
        command.arg("touch ~/.claude/x ~/.codex/x ~/.local/share/opencode/x 2>/dev/null; echo done");
        ran(command.env("HOME", home.scratch.join("link"))).ok();
    }
    for path in ["claude/x", "codex/x", "opencode/share/x"] {
        assert!(home.at(&format!(".local/state/kennel/agents/{path}")).exists(), "{path}");
    }
}
