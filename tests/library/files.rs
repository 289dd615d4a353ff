//! File rules and mounts by the builder. The suite `filesystem` tries every rule; here is that each method says it.

use kennel::{GitLevel, MountPoint, Permission, ReadModel, Sandbox, SandboxBuilder};
use kennel_tests::{Scratch, ran, role};
use std::ffi::OsString;
use std::path::PathBuf;

fn sh(builder: SandboxBuilder, script: &str) -> kennel::ExecutionResult {
    builder.build().expect("a plain configuration").run("sh", &["-c", script]).expect("it runs")
}

#[test]
fn the_four_lists_mean_what_they_say() {
    let scratch = Scratch::new();
    scratch.write("work/open", "open\n");
    scratch.write("work/kept", "kept\n");
    scratch.write("work/hidden/shown", "shown\n");
    scratch.write("work/hidden/secret", "secret\n");
    let at = |name: &str| scratch.join(name);
    let builder = Sandbox::builder()
        .allow_write(at("work"))
        .deny_write(at("work/kept"))
        .deny_read(at("work/hidden"))
        .allow_read(at("work/hidden/shown"))
        .working_dir(at("work"));
    let script = "echo a >> open && echo open; echo a >> kept || echo kept; cat hidden/shown; cat hidden/secret || echo hidden";
    let result = sh(builder, script);
    assert_eq!(result.stdout, "open\nkept\nshown\nhidden\n", "{}", result.stderr);
    assert_eq!(std::fs::read_to_string(at("work/open")).expect("it stayed"), "open\na\n");
    assert_eq!(std::fs::read_to_string(at("work/kept")).expect("it stayed"), "kept\n");
}

#[test]
fn hooks_of_git_stay_at_its_level_and_under_the_profiles_for_agents_and_builds() {
    let scratch = Scratch::new();
    for name in ["HEAD", "config", "objects/x", "refs/x", "hooks/x"] {
        scratch.write(&format!("work/.git/{name}"), "text\n");
    }
    // Without a HEAD that git takes for one, it is no repository.
    scratch.write("work/.git/HEAD", "ref: refs/heads/main\n");
    let work = scratch.join("work");
    let script = "echo x > .git/hooks/pre-commit || echo kept; echo x > .git/objects/y && echo written; rm .git/hooks/pre-commit";
    let plain = Sandbox::builder().allow_write(&work).working_dir(&work);
    let by_level = plain.clone().git(GitLevel::HooksAndConfigReadOnly);
    let by_profile = |name| Sandbox::builder().working_dir(&work).profile(name);
    for builder in [by_level, by_profile("agent"), by_profile("build")] {
        assert_eq!(sh(builder, script).stdout, "kept\nwritten\n");
    }
    assert_eq!(sh(plain, script).stdout, "written\n");
}

#[test]
fn without_rules_nothing_but_tmp_can_be_written() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "before\n");
    let script = format!("echo x > {} || echo refused; echo x > /tmp/x && echo tmp", file.display());
    assert_eq!(sh(Sandbox::builder(), &script).stdout, "refused\ntmp\n");
    assert_eq!(std::fs::read_to_string(file).expect("it stayed"), "before\n");
}

#[test]
fn globs_work_in_the_lists() {
    let scratch = Scratch::new();
    for name in ["a.pem", "deep/b.pem", "c.txt"] {
        scratch.write(name, "x\n");
    }
    let builder = Sandbox::builder().deny_read(scratch.join("**/*.pem")).working_dir(scratch.path());
    let result = sh(builder, "cat a.pem; cat deep/b.pem; cat c.txt; true");
    assert_eq!(result.stdout, "x\n", "{}", result.stderr);
}

#[test]
fn under_listed_reads_only_what_is_listed_exists() {
    let scratch = Scratch::new();
    scratch.write("listed/file", "listed\n");
    scratch.write("other/file", "other\n");
    let script = "cat listed/file; cat other/file 2>/dev/null || echo absent";
    let builder = Sandbox::builder().working_dir("/");
    let (listed, other) =
        (scratch.join("listed/file").display().to_string(), scratch.join("other/file").display().to_string());
    let script = script.replace("listed/file", &listed).replace("other/file", &other);
    assert_eq!(sh(builder.clone(), &script).stdout, "listed\nother\n");
    let builder = builder.reads(ReadModel::Listed).allow_read(scratch.join("listed"));
    assert_eq!(sh(builder, &script).stdout, "listed\nabsent\n");
}

#[test]
fn mounts_appear_at_their_place_read_only_or_writable() {
    let scratch = Scratch::new();
    scratch.write("in/file", "input\n");
    scratch.dir("out");
    let builder = Sandbox::builder()
        .reads(ReadModel::Listed)
        .working_dir("/")
        .mount(MountPoint::read_only(scratch.join("in"), "/data/in"))
        .mount(MountPoint {
            source: scratch.join("out"),
            target: "/data/out".into(),
            permission: Permission::ReadWrite,
        });
    let script = "cat /data/in/file; echo x > /data/in/file || echo refused; cp /data/in/file /data/out/copy && echo copied";
    assert_eq!(sh(builder, script).stdout, "input\nrefused\ncopied\n");
    assert_eq!(std::fs::read_to_string(scratch.join("out/copy")).expect("it was copied"), "input\n");
    assert_eq!(std::fs::read_to_string(scratch.join("in/file")).expect("it stayed"), "input\n");
}

#[test]
fn relative_paths_are_the_caller_s() {
    let own = std::env::current_dir().expect("a working directory");
    let rule = Sandbox::builder().deny_read("some/name").build().expect("plain");
    let shown = format!("{:?}", rule.policy().files.deny_read[0]);
    assert!(shown.contains(&*own.join("some/name").to_string_lossy()), "{shown}");
}

/// The role: says rules with relative paths, goes elsewhere, and runs. Arguments: where from, where to.
pub fn moving(arguments: &[OsString]) -> i32 {
    let [from, to] = arguments else { return 98 };
    std::env::set_current_dir(from).expect("the first folder is there");
    let by_builder = Sandbox::builder()
        .deny_read("secret")
        .deny_read("*.key")
        .allow_write("out")
        .deny_write("out/kept")
        .mount(MountPoint::read_only("data", "/data"))
        .working_dir("out")
        .build()
        .expect("a plain configuration");
    let config = kennel::SandboxConfig {
        mounts: vec![MountPoint::read_only("data", "/data")],
        working_dir: Some("out".into()),
        ..kennel::SandboxConfig::default()
    };
    let by_config = kennel::SandboxBuilder::from(config)
        .deny_read("secret")
        .deny_read("*.key")
        .allow_write("out")
        .deny_write("out/kept")
        .build()
        .expect("a plain configuration");
    let text = "[files]\ndeny_read = [\"secret\", \"*.key\"]\nallow_write = [\"out\"]\ndeny_write = [\"out/kept\"]\n\
                mounts = [{ source = \"data\", target = \"/data\" }]\n[process]\nworkdir = \"out\"\n";
    let by_text = Sandbox::from_settings_text(text).expect("plain settings");
    std::fs::write("settings.toml", text).expect("the first folder is the test's own");
    let by_file = Sandbox::from_settings("settings.toml").expect("plain settings");
    std::env::set_current_dir(to).expect("the second folder is there");
    let script = format!(
        "cat {0}/secret {0}/a.key; cat {1}/secret {1}/a.key; (echo x >> {0}/out/kept) 2>/dev/null; \
         (echo x > {1}/out/new) 2>/dev/null; echo x > {0}/out/new && cat /data/name && pwd",
        from.display(),
        to.display()
    );
    for sandbox in [by_builder, by_config, by_text, by_file] {
        let result = sandbox.run("sh", &["-c", &script]).expect("it runs");
        print!("{}", result.stdout);
    }
    0
}

#[test]
#[kennel_claim::claim("files/rules-do-not-move")]
fn relative_rules_mean_what_they_meant_when_they_were_said() {
    let scratch = Scratch::new();
    for part in ["a", "b"] {
        for name in ["secret", "a.key", "data/name", "out/kept"] {
            scratch.write(&format!("{part}/{name}"), &format!("{part}/{name}\n"));
        }
    }
    let (from, to) = (scratch.join("a"), scratch.join("b"));
    let told = ran(role::play("moving-caller").arg(&from).arg(&to)).ok().stdout;
    let once = format!("b/secret\nb/a.key\na/data/name\n{}\n", from.join("out").display());
    assert_eq!(told, once.repeat(4));
    assert_eq!(std::fs::read_to_string(from.join("out/kept")).unwrap(), "a/out/kept\n");
    assert!(!to.join("out/new").exists());
}

#[test]
#[kennel_claim::claim("files/unexpanded-rules-are-errors")]
fn a_deny_of_the_home_hides_it_and_one_that_nobody_expanded_is_an_error() {
    // The home of this very process, whose key is made here and removed again.
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
    let Some(home) = home else { return kennel_tests::skipped("HOME is no folder") };
    let name = format!(".kennel-test-{}", std::process::id());
    let file = home.join(&name);
    if std::fs::write(&file, "key\n").is_err() {
        return kennel_tests::skipped("the home cannot be written");
    }
    let script = format!("cat {}", file.display());
    let shown = sh(Sandbox::builder(), &script).stdout;
    let hidden: Vec<String> = ["~", "$HOME", "${HOME}"]
        .map(|start| sh(Sandbox::builder().deny_read(format!("{start}/{name}")), &script).stdout)
        .to_vec();
    let glob = sh(Sandbox::builder().deny_read("~/.kennel-tes[t]-*"), &script).stdout;
    std::fs::remove_file(&file).unwrap();
    assert_eq!((shown.as_str(), glob.as_str()), ("key\n", ""));
    assert_eq!(hidden, ["", "", ""]);
    for wrong in ["$XDG_CONFIG_HOME/x", "~nobody/.ssh", "/home/$USER", " ~/.ssh"] {
        let error = Sandbox::builder().deny_read(wrong).build().unwrap_err();
        assert!(matches!(error, kennel::SandboxError::ConfigValidation(_)), "{wrong}: {error}");
        let config = kennel::SandboxConfig { working_dir: Some(wrong.into()), ..Default::default() };
        assert!(Sandbox::with_config(config).is_err(), "{wrong}");
    }
}

#[test]
fn special_characters_of_the_working_directory_mean_themselves() {
    let scratch = Scratch::new();
    for name in ["[slug]/secret", "[slug]/data/name", "s/secret", "s/data/name", "[slug]/out/x"] {
        scratch.write(name, &format!("{name}\n"));
    }
    let folder = scratch.join("[slug]");
    let agent = Sandbox::builder().working_dir(&folder).profile("agent");
    let result = sh(agent, "echo x > made && cat made");
    assert_eq!(result.stdout, "x\n", "{}", result.stderr);
    assert!(folder.join("made").exists());
}
