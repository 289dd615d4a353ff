//! `files.caches`: what a sandbox adds to the cache of a tool is a layer of the project's own. The host's cache shows below and stays
//! as it is; another project, and an agent beside a build, see nothing of it.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use kennel_tests::{Ran, am_root, eventually, program, ran, skipped};

use crate::profiles::Home;

const CACHE: &str = ".npm/_cacache";

/// Where layers are in a home.
const LAYERS: &str = ".local/state/kennel/caches";

impl Home {
    /// A script in another project, with these flags.
    fn inside_of(&self, project: &str, flags: &[&str], script: &str) -> Ran {
        let mut command = self.kennel(["run"]);
        std::fs::create_dir_all(self.at(project)).unwrap();
        ran(command.args(flags).args(["--", "sh", "-c", script]).current_dir(self.at(project)))
    }

    /// The folders of layers of this name, of all projects and slots.
    fn layers(&self, name: &str) -> Vec<PathBuf> {
        let list =
            |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let slots = list(self.at(LAYERS)).flat_map(list);
        slots.map(|slot| slot.join(name)).filter(|layer| layer.exists()).collect()
    }

    /// A run that goes on until the file `stop` is in the project.
    fn that_goes_on(&self, started: &str) -> Child {
        let script =
            format!("echo mine > ~/{CACHE}/held; touch {started}; until [ -e stop ]; do sleep 0.1; done");
        let mut command = self.kennel(["run", "--profile", "build", "--", "sh", "-c", &script]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        eventually("the run", || self.read(&format!("project/{started}")));
        child
    }
}

fn with_cache() -> Home {
    let home = Home::new();
    home.write(&format!("{CACHE}/entry"), "host");
    home
}

#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn a_poisoned_entry_reaches_neither_the_host_nor_another_project() {
    for profile in ["build", "agent"] {
        let home = with_cache();
        let flags = ["--profile", profile];
        let poison =
            format!("cat ~/{CACHE}/entry; echo poison > ~/{CACHE}/entry; echo more > ~/{CACHE}/more");
        assert_eq!(home.inside(&flags, &poison).ok().stdout, "host", "{profile}");
        let look = format!("cat ~/{CACHE}/*");
        assert_eq!(home.inside(&flags, &look).ok().stdout, "poison\nmore\n", "it stays for the project");
        assert_eq!(home.inside_of("other", &flags, &look).ok().stdout, "host", "{profile}");
        assert_eq!(home.read(&format!("{CACHE}/entry")).as_deref(), Some("host"));
        assert!(!home.at(CACHE).join("more").exists());
        // Nor an agent, which runs what it finds beside its login.
        let agents = ["--profile", "claude"];
        assert_eq!(home.inside(&agents, &look).ok().stdout, "host", "{profile}");
        // Without them it is as it was before there were any.
        let off = [&flags[..], &["--no-caches"]].concat();
        home.inside(&off, &format!("cat ~/{CACHE}/entry")).expect_code(1);
    }
}

#[test]
fn a_folder_of_a_repository_has_the_caches_of_the_repository() {
    let home = with_cache();
    std::fs::create_dir_all(home.at("project/.git")).unwrap();
    home.inside(&["--profile", "build"], &format!("echo mine > ~/{CACHE}/entry")).ok();
    let below = home.inside_of("project/src/deep", &["--profile", "build"], &format!("cat ~/{CACHE}/entry"));
    assert_eq!(below.ok().stdout, "mine\n");
}

#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn programs_that_a_sandbox_installs_are_gone_at_the_next_start() {
    let home = with_cache();
    home.write(".local/bin/tool", "host");
    home.write(".cargo/bin/cargo", "host");
    let plant = "for f in ~/.local/bin ~/.cargo/bin; do echo planted > $f/git; echo planted > $f/cargo; done; cat ~/.local/bin/git";
    assert_eq!(home.inside(&["--profile", "build"], plant).ok().stdout, "planted\n");
    let look = "cat ~/.local/bin/* ~/.cargo/bin/*";
    assert_eq!(home.inside(&["--profile", "build"], look).ok().stdout, "hosthost");
    assert!(!home.at(".local/bin/git").exists() && !home.at(".cargo/bin/git").exists());
}

/// A gem brings programs along, and what it says is run by whatever requires it.
#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn gems_are_programs() {
    for gems in [".gem/ruby", ".local/share/gem/ruby"] {
        let home = Home::new();
        let tool = format!("{gems}/3.2.0/bin/tool");
        home.write(&tool, "host");
        let plant = format!("echo planted > ~/{tool}; echo more > ~/{gems}/3.2.0/bin/more; cat ~/{tool}");
        assert_eq!(home.inside(&["--profile", "build"], &plant).ok().stdout, "planted\n");
        let look = format!("cat ~/{gems}/3.2.0/bin/*");
        assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "host");
        assert_eq!(home.read(&tool).as_deref(), Some("host"));
    }
}

/// The file that says whose layers a folder holds has one path in it, whatever is in that.
#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn projects_whose_names_differ_by_a_line_end_have_layers_of_their_own() {
    let home = with_cache();
    let projects = ["other", "other\n", "other\nmore", "other\n\nmore"];
    for project in projects {
        let read = home.inside_of(project, &["--profile", "build"], &format!("cat ~/{CACHE}/entry")).ok();
        assert_eq!(read.stdout, "host", "{project:?}");
        home.inside_of(project, &["--profile", "build"], &format!("echo mine > ~/{CACHE}/entry")).ok();
    }
    let told = ran(&mut home.kennel(["caches", "--json"])).ok().stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let mut paths: Vec<&str> = told["projects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|project| project["path"].as_str().unwrap())
        .collect();
    paths.sort();
    assert_eq!(paths.len(), projects.len(), "{told:#}");
    let mut projects = projects;
    projects.sort();
    for (path, project) in paths.iter().zip(projects) {
        assert!(path.ends_with(project), "{path:?}");
    }
}

#[test]
fn what_lies_beside_a_cache_stays_hidden() {
    let home = Home::new();
    for (cache, secret) in [
        (".cargo/registry/index/x", ".cargo/credentials.toml"),
        (".m2/repository/x", ".m2/settings.xml"),
        (".gradle/caches/x", ".gradle/gradle.properties"),
        (".npm/_cacache/x", ".npmrc"),
        (".npm/_cacache/y", ".npm/_logs/x"),
        (".cache/huggingface/hub/x", ".cache/huggingface/token"),
        (".cache/pypoetry/cache/x", ".config/pypoetry/auth.toml"),
    ] {
        home.write(cache, "cached");
        home.write(secret, "canary");
        for profile in ["agent", "build"] {
            let told =
                home.inside(&["--profile", profile], &format!("cat ~/{cache}; cat ~/{secret}; exit 0")).ok();
            assert_eq!(told.stdout, "cached", "{secret}");
        }
    }
    // What a rule denies wins.
    let cache = home.at(CACHE).display().to_string();
    let denied = home.inside(&["--profile", "build", "--deny-read", &cache], &format!("cat ~/{CACHE}/x"));
    assert!(denied.code != 0 && denied.stdout.is_empty(), "{denied:?}");
    // And what a rule opens is the host's.
    home.inside(&["--profile", "build", "--allow-write", &cache], &format!("echo through > ~/{CACHE}/x"))
        .ok();
    assert_eq!(home.read(&format!("{CACHE}/x")).as_deref(), Some("through\n"));
}

#[test]
fn what_is_removed_inside_is_there_on_the_host_and_again_once_the_layers_are_cleared() {
    let home = with_cache();
    home.write(&format!("{CACHE}/folder/file"), "host");
    home.inside(
        &["--profile", "build"],
        &format!("rm -r ~/{CACHE}/entry ~/{CACHE}/folder; mkdir ~/{CACHE}/folder"),
    )
    .ok();
    let look = format!("cd ~/{CACHE} && find . -type f | sort");
    assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "");
    assert_eq!(home.read(&format!("{CACHE}/folder/file")).as_deref(), Some("host"));
    ran(&mut home.kennel(["caches", "clear"])).ok();
    assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "./entry\n./folder/file\n");
}

#[test]
fn the_hosts_cache_can_change_below() {
    let home = with_cache();
    home.inside(&["--profile", "build"], &format!("echo mine > ~/{CACHE}/own")).ok();
    home.write(&format!("{CACHE}/entry"), "changed");
    home.write(&format!("{CACHE}/new"), "new");
    let look = format!("cat ~/{CACHE}/*");
    assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "changednewmine\n");
    // And while a run goes on: what it sees of that is not promised, but its own is as it left it.
    let script = format!(
        "echo mine > ~/{CACHE}/kept; touch started; until [ -e stop ]; do sleep 0.1; done; \
         cat ~/{CACHE}/kept; ls ~/{CACHE} >/dev/null; echo again > ~/{CACHE}/entry; cat ~/{CACHE}/entry"
    );
    let mut command = home.kennel(["run", "--profile", "build", "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the run", || home.read("project/started"));
    std::fs::remove_dir_all(home.at(CACHE)).unwrap();
    home.write(&format!("{CACHE}/entry"), "anew");
    home.write(&format!("{CACHE}/kept"), "theirs");
    home.write("project/stop", "");
    let told = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr);
    assert!(told.starts_with("mine\n"), "{told}");
    assert_eq!(home.read(&format!("{CACHE}/entry")).as_deref(), Some("anew"));
    assert_eq!(home.read(&format!("{CACHE}/kept")).as_deref(), Some("theirs"));
}

#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn runs_at_the_same_time_have_layers_of_their_own() {
    let home = with_cache();
    let first = home.that_goes_on("first");
    let look = format!("cat ~/{CACHE}/*");
    assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "host");
    // Those that a run holds are not taken away.
    let cleared = ran(&mut home.kennel(["caches", "clear"]));
    assert!(cleared.code == 1 && cleared.stderr.contains("in use by a run"), "{cleared:?}");
    let mut runs = vec![first];
    for index in 1..8 {
        runs.push(home.that_goes_on(&format!("run{index}")));
    }
    // One more has none, works, and says so.
    let without = home.inside(&["--profile", "build"], "echo works").ok();
    assert_eq!(without.stdout, "works\n");
    assert!(without.stderr.contains("no layers for caches"), "{}", without.stderr);
    home.write("project/stop", "");
    for mut run in runs {
        run.wait().unwrap();
    }
    assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "hostmine\n");
}

/// What a sandbox leaves in a layer is neither followed nor obeyed, by the next run or when it is removed.
#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn links_powers_and_sockets_in_a_layer_lead_nowhere() {
    let home = with_cache();
    home.write("secret/key", "canary");
    let secret = home.at("secret");
    let script = format!(
        "cd ~/{CACHE}; ln -s {0} link; ln -s {0}/key file; ln {0}/key hard 2>/dev/null; ln /usr/bin/env hard 2>/dev/null; \
         cp /bin/sh suid; chmod 6755 suid; mknod null c 1 3 2>/dev/null; mknod white c 0 0 2>/dev/null; mkfifo pipe; \
         rm -r ~/{CACHE}/entry; ln -s {0} entry; \
         d=deep; for n in 1 2 3 4 5 6 7; do d=$d/deep/deep/deep/deep/deep/deep/deep; done; mkdir -p $d; touch $d/x; \
         mkdir shut; touch shut/x; chmod 000 shut; ls; cat link/key file entry/key 2>/dev/null; exit 0",
        secret.display()
    );
    let told = home.inside(&["--profile", "build"], &script).ok();
    assert!(!told.stdout.contains("canary") && !told.stdout.contains("hard"), "{}", told.stdout);
    assert!(!told.stdout.contains("null") && !told.stdout.contains("white"), "{}", told.stdout);
    // A set-user-ID bit is only good below a folder that nobody else may enter, and inside means nothing.
    let layers = home.at(LAYERS);
    assert_eq!(std::fs::metadata(&layers).unwrap().permissions().mode() & 0o777, 0o700);
    let again = format!(
        "cat ~/{CACHE}/link/key ~/{CACHE}/entry/key ~/{CACHE}/file; echo over > ~/{CACHE}/file; exit 0"
    );
    assert!(!home.inside(&["--profile", "build"], &again).ok().stdout.contains("canary"));
    assert_eq!(home.read(&format!("{CACHE}/entry")).as_deref(), Some("host"));
    ran(&mut home.kennel(["caches", "clear", "--all"])).ok();
    assert_eq!(home.read("secret/key").as_deref(), Some("canary"));
    assert_eq!(home.layers("npm-_cacache"), Vec::<PathBuf>::new());
}

/// The kernel reads attributes of the upper folder: a sandbox that could write them would show itself other folders of the host's.
#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn the_attributes_of_an_overlay_cannot_be_forged() {
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        return skipped("there is no python3");
    }
    let home = with_cache();
    home.write(&format!("{CACHE}/folder/file"), "host");
    let script = format!(
        "import os\ntop = os.path.expanduser('~/{CACHE}')\nos.makedirs(top + '/mine', exist_ok=True)\n\
         for path in [top, top + '/folder', top + '/mine']:\n  \
         for name, value in [('opaque', b'y'), ('redirect', b'/'), ('metacopy', b''), ('whiteout', b'y'), ('whiteouts', b'y')]:\n    \
         for space in ['user.overlay.', 'trusted.overlay.']:\n      \
         try: os.setxattr(path, space + name, value)\n      except OSError: pass\n"
    );
    home.write("project/forge.py", &script);
    for _ in 0..2 {
        home.inside(&["--profile", "build"], &format!("{python} forge.py")).ok();
        let look = format!("cat ~/{CACHE}/entry ~/{CACHE}/folder/file; ls ~/{CACHE}/mine");
        assert_eq!(home.inside(&["--profile", "build"], &look).ok().stdout, "hosthost");
    }
}

#[test]
fn a_place_for_layers_that_is_a_link_or_somebody_elses_is_not_used() {
    let home = with_cache();
    let elsewhere = home.scratch.dir("elsewhere");
    std::fs::create_dir_all(home.at(".local/state/kennel")).unwrap();
    symlink(&elsewhere, home.at(LAYERS)).unwrap();
    let told = home.inside(&["--profile", "build"], "echo works").ok();
    assert!(told.stdout == "works\n" && told.stderr.contains("no layers for caches"), "{told:?}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    std::fs::remove_file(home.at(LAYERS)).unwrap();
    // One that others could write.
    std::fs::create_dir(home.at(LAYERS)).unwrap();
    std::fs::set_permissions(home.at(LAYERS), std::fs::Permissions::from_mode(0o777)).unwrap();
    let told = home.inside(&["--profile", "build"], "echo works").ok();
    assert!(told.stdout == "works\n" && told.stderr.contains("is open to others"), "{told:?}");
    if am_root() {
        std::fs::set_permissions(home.at(LAYERS), std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(home.at(LAYERS), Some(4321), None).unwrap();
        let told = home.inside(&["--profile", "build"], "echo works").ok();
        assert!(told.stdout == "works\n" && told.stderr.contains("is open to others"), "{told:?}");
    }
}

#[test]
#[kennel_claim::claim("files/caches-are-a-projects-own")]
fn no_sandbox_reaches_the_layers_themselves() {
    let home = with_cache();
    home.inside(&["--profile", "build"], &format!("echo mine > ~/{CACHE}/own")).ok();
    let upper = home.layers("npm-_cacache")[0].join("u/own");
    assert_eq!(std::fs::read_to_string(&upper).unwrap(), "mine\n");
    let script = format!("cat {0}; echo over > {0}; rm {0}; ls ~/{LAYERS}; exit 0", upper.display());
    let top = home.at("").display().to_string();
    for flags in [
        &["--profile", "build"][..],
        &["--profile", "build", "--home", "host"],
        &["--profile", "build", "--home", "host", "--allow-home", "--allow-write", &top],
        &["--allow-home", "--allow-write", &top],
        &["--profile", "agent", "--allow-home", "--allow-write", &top],
    ] {
        let told = home.inside(flags, &script).ok();
        assert!(flags.contains(&&*top) || !told.stdout.contains("mine"), "{flags:?}: {}", told.stdout);
        assert_eq!(std::fs::read_to_string(&upper).unwrap(), "mine\n", "{flags:?}");
    }
    // Nor makes them where there are none.
    ran(&mut home.kennel(["caches", "clear", "--all"])).ok();
    std::fs::remove_dir_all(home.at(LAYERS)).unwrap();
    home.inside(&["--allow-home", "--allow-write", &top], &format!("mkdir -p ~/{LAYERS}/x; exit 0")).ok();
    assert!(!home.at(LAYERS).join("x").exists());
}

#[test]
fn layers_are_listed_and_cleared() {
    let home = with_cache();
    let list = |words: &[&str]| ran(home.kennel(["caches"]).args(words));
    assert!(list(&[]).ok().stdout.starts_with("There are no layers of caches in "));
    home.inside(&["--profile", "build"], &format!("head -c 100000 /dev/zero > ~/{CACHE}/large")).ok();
    home.inside_of("other", &["--profile", "build"], &format!("echo x > ~/{CACHE}/small")).ok();
    let told = list(&[]).ok().stdout;
    let (project, other) =
        (home.at("project").canonicalize().unwrap(), home.at("other").canonicalize().unwrap());
    assert!(
        told.contains(&format!("{}: 100K, used today\n        100K  npm-_cacache\n", project.display())),
        "{told}"
    );
    assert!(told.contains(&format!("{}: ", other.display())), "{told}");
    let json = list(&["--json"]).ok().stdout;
    assert!(json.contains("\"bytes\": 102400") && json.contains("\"in_use\": false"), "{json}");
    assert!(list(&["--table"]).ok().stdout.contains("~/.npm/_cacache"));
    list(&["clear"]).ok();
    let told = list(&[]).ok().stdout;
    assert!(
        !told.contains(&format!("{}: ", project.display()))
            && told.contains(&format!("{}: ", other.display()))
    );
    list(&["clear", &other.display().to_string()]).ok();
    assert!(list(&[]).ok().stdout.starts_with("There are no layers"));
    let again = list(&["clear"]).expect_code(125);
    assert!(again.stderr.contains("has no layers of caches"), "{}", again.stderr);
    for wrong in
        [&["--all"][..], &["clear", "x", "--all"], &["clear", "--json"], &["x"], &["--json", "--table"]]
    {
        assert_eq!(list(wrong).code, 2, "{wrong:?}");
    }
}

#[test]
fn layers_that_nobody_used_for_long_go_away_by_themselves() {
    let home = with_cache();
    let write = format!("echo x > ~/{CACHE}/x");
    home.inside_of("old", &["--profile", "build"], &write).ok();
    home.inside_of("older", &["--profile", "build"], &write).ok();
    home.inside_of("new", &["--profile", "build"], &write).ok();
    let layers = home.layers("npm-_cacache");
    assert_eq!(layers.len(), 3);
    let age = |days: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(days * 24 * 3600);
    for layer in &layers {
        let slot = layer.parent().unwrap();
        let name = slot.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let days = if name.starts_with("new-") { 1 } else { 40 };
        std::fs::File::open(slot).unwrap().set_modified(age(days)).unwrap();
    }
    // They were looked for today already.
    home.inside_of("new", &["--profile", "build"], "true").ok();
    assert_eq!(home.layers("npm-_cacache").len(), 3);
    std::fs::File::open(home.at(LAYERS).join(".looked")).unwrap().set_modified(age(2)).unwrap();
    home.inside_of("new", &["--profile", "build"], "true").ok();
    assert_eq!(home.layers("npm-_cacache").len(), 1);
}

#[test]
fn variables_move_caches_but_show_nothing_that_is_closed() {
    let home = with_cache();
    home.scratch.write("elsewhere/_cacache/entry", "moved");
    home.write("closed/_cacache/entry", "closed");
    let run = |place: PathBuf, script: &str| {
        let mut command = home.kennel(["run", "--profile", "build", "--", "sh", "-c", script]);
        ran(command.env("npm_config_cache", place)).ok()
    };
    let script = "cat $npm_config_cache/_cacache/entry; echo own > $npm_config_cache/_cacache/entry && echo written; exit 0";
    assert_eq!(run(home.scratch.join("elsewhere"), script).stdout, "movedwritten\n");
    let closed = run(home.at("closed"), script).stdout;
    assert!(!closed.contains("closed"), "{closed}");
    assert_eq!(home.read("closed/_cacache/entry").as_deref(), Some("closed"));
    // No variable makes a cache of the home, the project or the system.
    for place in ["/", "/usr", "/etc", ""] {
        run(home.at(place), "true");
    }
    run(home.at("project"), "echo x > mine");
    assert_eq!(home.read("project/mine").as_deref(), Some("x\n"));
}

#[test]
fn a_plan_shows_each_cache_and_makes_nothing() {
    let home = with_cache();
    let told = ran(&mut home.kennel(["plan", "--steps", "--profile", "build", "--", "true"])).ok().stdout;
    assert!(told.contains("the cache of npm: downloaded packages (files.caches)"), "{told}");
    assert!(!home.at(".local").exists());
}

#[test]
#[kennel_claim::claim("processes/own-sockets-are-own")]
fn the_sandboxs_own_unix_sockets_work_in_profiles_and_those_of_the_host_do_not() {
    let home = with_cache();
    let daemon = std::os::unix::net::UnixListener::bind(home.at("project/daemon")).unwrap();
    daemon.set_nonblocking(true).unwrap();
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        return skipped("there is no python3");
    }
    home.write(
        "project/try.py",
        "import multiprocessing, os, socket\n\
         if __name__ == '__main__':\n  \
         with multiprocessing.Manager() as m:\n    d = m.dict(); d['a'] = 1; print(d['a'])\n  \
         s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen()\n  \
         socket.socket(socket.AF_UNIX).connect('own'); print('own')\n  \
         cached = os.path.expanduser('~/.npm/_cacache/s')\n  \
         s = socket.socket(socket.AF_UNIX); s.bind(cached); s.listen()\n  \
         socket.socket(socket.AF_UNIX).connect(cached); print('cached')\n  \
         os.symlink('daemon', 'link')\n  \
         for name in ['daemon', 'link']:\n    \
         try: socket.socket(socket.AF_UNIX).connect(name); print('REACHED')\n    \
         except PermissionError: print('refused')\n",
    );
    for profile in ["agent", "build"] {
        let told =
            home.inside(&["--profile", profile], &format!("{python} try.py; rm own link ~/{CACHE}/s")).ok();
        assert_eq!(told.stdout, "1\nown\ncached\nrefused\nrefused\n", "{profile}: {}", told.stderr);
        assert!(daemon.accept().is_err());
    }
    if program("tmux").is_some() {
        let script = "export TERM=xterm SHELL=/bin/sh; tmux -f /dev/null new-session -d 'sleep 60'; tmux ls; tmux kill-server";
        let told = home.inside(&["--profile", "agent"], script);
        assert!(told.stdout.contains("1 windows"), "{told:?}");
    }
}

#[test]
fn a_cache_of_which_something_is_denied_stays_the_hosts() {
    let home = Home::new();
    home.write(".rustup/toolchains/t/bin/cargo", "of the host");
    let write = "echo z > ~/.rustup/toolchains/t/bin/cargo";
    for denied in ["~/.rustup", "~/.rustup/toolchains/t/bin/cargo"] {
        home.inside(&["--profile", "build", "--deny-write", denied], write).expect_code(2);
    }
    home.inside(&["--profile", "build"], write).ok();
    // A glob hides what the table of caches and of the home would show.
    let read = "cat ~/.rustup/toolchains/t/bin/cargo";
    for more in [&["--deny-read", "~/.rust*"][..], &["--no-caches", "--deny-read", "~/.rust*"]] {
        home.inside(&[&["--profile", "build"][..], more].concat(), read).expect_code(1);
    }
    assert_eq!(home.read(".rustup/toolchains/t/bin/cargo").as_deref(), Some("of the host"));
}
