//! An agent has a state of its own inside, which stays; of the host's it sees what it needs, and writes nothing.

use kennel_policy::profiles::AGENTS;

use crate::profiles::Home;

/// What agents keep: a file that must still be there after the run.
const KEPT: &[(&str, &str)] = &[
    ("claude", ".claude/projects/x/session.jsonl"),
    ("claude", ".claude/.credentials.json"),
    ("claude", ".claude/.claude.json"),
    ("codex", ".codex/sessions/2026/rollout.jsonl"),
    ("codex", ".codex/auth.json"),
    ("codex", ".codex/state_5.sqlite"),
    ("gemini", ".gemini/tmp/project/chats/session.json"),
    ("gemini", ".gemini/oauth_creds.json"),
    ("opencode", ".local/share/opencode/opencode.db"),
    ("opencode", ".local/state/opencode/model.json"),
    ("aider", ".aider/caches/prices.json"),
    ("goose", ".local/share/goose/sessions/sessions.db"),
    ("amp", ".local/share/amp/device-id.json"),
];

/// Where each agent takes commands from: the file, and of what it is a part that must not be made, moved or replaced.
const COMMANDS: &[(&str, &str)] = &[
    ("claude", ".claude/settings.json"),
    ("claude", ".claude/settings.local.json"),
    ("claude", ".claude/.config.json"),
    ("claude", ".claude/CLAUDE.md"),
    ("claude", ".claude/agents/helper.md"),
    ("claude", ".claude/commands/go.md"),
    ("claude", ".claude/hooks/hook.sh"),
    ("claude", ".claude/skills/x/SKILL.md"),
    ("claude", ".claude/plugins/installed_plugins.json"),
    ("claude", ".claude/local/claude"),
    ("claude", ".claude/daemon.json"),
    ("claude", ".claude/routines/x.md"),
    ("claude", ".claude/scheduled_tasks.json"),
    ("claude", ".claude/statusline-command.sh"),
    ("claude", ".claude.json"),
    ("codex", ".codex/config.toml"),
    ("codex", ".codex/hooks.json"),
    ("codex", ".codex/environments.toml"),
    ("codex", ".codex/.env"),
    ("codex", ".codex/AGENTS.md"),
    ("codex", ".codex/rules/default.rules"),
    ("codex", ".codex/prompts/go.md"),
    ("codex", ".codex/skills/x/SKILL.md"),
    ("codex", ".codex/packages/x"),
    ("gemini", ".gemini/settings.json"),
    ("gemini", ".gemini/.env"),
    ("gemini", ".gemini/GEMINI.md"),
    ("gemini", ".gemini/extensions/x/gemini-extension.json"),
    ("gemini", ".gemini/commands/go.toml"),
    ("gemini", ".gemini/trustedFolders.json"),
    ("gemini", ".gemini/policies/x.toml"),
    ("opencode", ".config/opencode/opencode.json"),
    ("opencode", ".config/opencode/plugin/x.js"),
    ("opencode", ".local/share/opencode/bin/rg"),
    ("opencode", ".local/share/opencode/auth.json"),
    ("aider", ".aider.conf.yml"),
    ("aider", ".aider/oauth-keys.env"),
    ("goose", ".config/goose/config.yaml"),
    ("goose", ".local/share/goose/recipes/x.yaml"),
    ("goose", ".local/share/goose/schedule.json"),
    ("goose", ".local/share/goose/scheduled_recipes/x.yaml"),
    ("amp", ".config/amp/settings.json"),
];

/// What each session makes for itself and runs: sessions on the host have theirs there at the same time.
const OF_SESSIONS: &[(&str, &str)] = &[
    ("claude", ".claude/shell-snapshots"),
    ("claude", ".claude/session-env"),
    ("claude", ".claude/backups"),
    ("codex", ".codex/tmp"),
    ("codex", ".codex/shell_snapshots"),
    ("opencode", ".cache/opencode"),
    ("opencode", ".local/share/opencode/snapshot"),
];

/// Where a path of an agent's state folder is kept for its sandboxes.
fn own(agent: &str, path: &str) -> String {
    let folders = [
        (".claude", "claude"),
        (".codex", "codex"),
        (".gemini", "gemini"),
        (".aider", "aider"),
        (".local/share/opencode", "opencode/share"),
        (".local/state/opencode", "opencode/state"),
        (".local/share/goose", "goose/share"),
        (".local/state/goose", "goose/state"),
        (".local/share/amp", "amp/share"),
    ];
    for (folder, own) in folders {
        if let Some(rest) = path.strip_prefix(&format!("{folder}/"))
            && own.starts_with(agent)
        {
            return format!(".local/state/kennel/agents/{own}/{rest}");
        }
    }
    path.to_owned()
}

/// The part of a path that is right below the state folder.
fn top(path: &str) -> &str {
    let folders =
        [".claude", ".codex", ".gemini", ".config/opencode", ".local/share/opencode", ".config/goose"];
    let more = [".local/share/goose", ".config/amp"];
    let below = folders.iter().chain(&more).find_map(|folder| path.strip_prefix(&format!("{folder}/")));
    let rest = below.map_or("", |below| below.split_once('/').map_or("", |(_, rest)| rest));
    path.strip_suffix(rest).unwrap_or(path).trim_end_matches('/')
}

#[test]
fn an_agents_state_is_kept_and_its_folder_is_made_for_the_first_run() {
    for agent in AGENTS {
        let home = Home::new();
        let kept: Vec<&str> = KEPT.iter().filter(|(own, _)| *own == agent).map(|(_, path)| *path).collect();
        assert!(!kept.is_empty(), "{agent}");
        for path in &kept {
            let script = format!(
                "mkdir -p \"$(dirname ~/{path})\" && echo one > ~/{path}.tmp && mv ~/{path}.tmp ~/{path} && echo fine > made"
            );
            home.inside(&["--profile", agent], &script).ok();
            let again =
                home.inside(&["--profile", agent], &format!("echo two >> ~/{path}; cat ~/{path}")).ok();
            assert_eq!(again.stdout, "one\ntwo\n", "{agent}: {path}");
            assert_eq!(home.read(&own(agent, path)).as_deref(), Some("one\ntwo\n"), "{agent}: {path}");
            assert_eq!(home.read(path), None, "{agent}: {path} is none of the host's");
        }
        // The rest of the home is as closed as under profile agent.
        home.inside(&["--profile", agent], "echo x > ~/file").ok();
        assert_eq!(home.read("file"), None, "{agent}");
        let folder = home.at(&format!(".local/state/kennel/agents/{agent}"));
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{agent}");
    }
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn nothing_that_an_agent_on_the_host_would_run_can_be_written() {
    for agent in AGENTS {
        let home = Home::new();
        let paths: Vec<&str> =
            COMMANDS.iter().filter(|(own, _)| *own == agent).map(|(_, path)| *path).collect();
        assert!(!paths.is_empty(), "{agent}");
        // Absent ones are not made, whichever way. Each line of the script is a try of its own.
        let mut script = String::new();
        for path in &paths {
            let top = top(path);
            script.push_str(&format!(
                "(mkdir -p $(dirname ~/{path}) && echo evil > ~/{path}) 2>/dev/null\n\
                 (mkdir -p new/$(basename {top}) && echo evil > new/x && mv new/x ~/{path}) 2>/dev/null\n\
                 (mkdir -p tree && echo evil > tree/x && mv -T tree ~/{top}) 2>/dev/null\n\
                 ln -s $PWD/made ~/{top} 2>/dev/null\n\
                 ln $PWD/made ~/{path} 2>/dev/null\n"
            ));
        }
        home.inside(&["--profile", agent], &format!("echo evil > made\n{script}exit 0")).ok();
        for path in &paths {
            let found = home.outside(&format!("cat ~/{path} ~/{} 2>/dev/null || true", own(agent, path)));
            assert_eq!(found.stdout, "", "{agent}: {path} was made");
            let is_link = home.at(top(path)).symlink_metadata().is_ok_and(|file| file.is_symlink());
            assert!(!is_link, "{agent}: {path} was made a link");
        }
        // Existing ones stay as they are.
        home.outside(
            &paths
                .iter()
                .map(|path| format!("mkdir -p $(dirname ~/{path}); echo own > ~/{path}\n"))
                .collect::<String>(),
        );
        let mut script = String::new();
        for path in &paths {
            let top = top(path);
            script.push_str(&format!(
                "(echo evil > ~/{path}) 2>/dev/null\n(echo evil >> ~/{path}) 2>/dev/null\n\
                 (cp made ~/{path}.tmp && mv ~/{path}.tmp ~/{path}) 2>/dev/null\n\
                 rm -f ~/{path} 2>/dev/null\nmv ~/{top} ~/{top}.old 2>/dev/null\n\
                 (cp -r ~/{top} ~/{top}.new && echo evil > ~/{top}.new && mv -T ~/{top}.new ~/{top}) 2>/dev/null\n\
                 chmod 777 ~/{path} 2>/dev/null\n"
            ));
        }
        home.inside(&["--profile", agent], &format!("echo evil > made\n{script}exit 0")).ok();
        for path in &paths {
            assert_eq!(home.read(path).as_deref(), Some("own\n"), "{agent}: {path}");
        }
        // With the folder open and no profile, the same script does it.
        let state = home.at("").display().to_string();
        home.inside(&["--allow-write", &state], &format!("echo evil > made\n{script}exit 0")).ok();
        for path in &paths {
            assert_ne!(
                home.read(path).as_deref(),
                Some("own\n"),
                "{agent}: {path} is open without the profile"
            );
        }
    }
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn the_state_folder_itself_cannot_be_moved_away_with_what_is_kept_in_it() {
    let home = Home::new();
    home.write(".codex/config.toml", "own\n");
    let tries = "mv ~/.codex ~/.codex-old; mkdir ~/.codex; rm -rf ~/.codex; rmdir ~/.codex/skills; true";
    home.inside(&["--profile", "codex"], tries).ok();
    assert_eq!(home.read(".codex/config.toml").as_deref(), Some("own\n"));
}

/// As people have it who keep such files in a repository.
#[test]
fn a_state_folder_or_settings_that_are_links_are_kept_where_they_lead() {
    let home = Home::new();
    home.write("dotfiles/codex/config.toml", "own\n");
    home.write("dotfiles/rules/default.rules", "own\n");
    home.outside("ln -s dotfiles/codex ~/.codex; ln -s ../rules ~/dotfiles/codex/rules");
    let script = "echo kept > ~/.codex/auth.json; cat ~/.codex/rules/default.rules; (echo evil > ~/.codex/config.toml) 2>/dev/null; \
                  (echo evil > ~/.codex/rules/default.rules) 2>/dev/null; rm -f ~/.codex/rules 2>/dev/null; \
                  (echo evil > ~/dotfiles/codex/hooks.json) 2>/dev/null; rm -f ~/.codex 2>/dev/null; \
                  mv ~/dotfiles/codex ~/dotfiles/c 2>/dev/null; cat ~/.codex/tmp/of-host 2>/dev/null; exit 0";
    home.write("dotfiles/codex/tmp/of-host", "seen");
    // With more than the profile open, too.
    let dotfiles = home.at("dotfiles").display().to_string();
    for flags in [&["--profile", "codex"][..], &["--profile", "codex", "--allow-write", &dotfiles]] {
        // Where the command could have made the link, it leads nowhere.
        let rules = if flags.len() == 2 { "own\n" } else { "" };
        assert_eq!(home.inside(flags, script).ok().stdout, rules, "{flags:?}");
        assert_eq!(home.read(&own("codex", ".codex/auth.json")).as_deref(), Some("kept\n"));
        assert_eq!(home.read(".codex/auth.json"), None);
        assert_eq!(home.read(".codex/config.toml").as_deref(), Some("own\n"), "{flags:?}");
        // What a rule of the user's opens is open, though a link in the state folder leads there.
        if flags.len() == 2 {
            assert_eq!(home.read(".codex/rules/default.rules").as_deref(), Some("own\n"), "{flags:?}");
        }
        assert_eq!(home.read(".codex/hooks.json"), None, "{flags:?}");
    }
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn what_sessions_on_the_host_run_is_neither_seen_nor_reached() {
    for (agent, folder) in OF_SESSIONS {
        let home = Home::new();
        home.write(&format!("{folder}/of-host.sh"), "own\n");
        let script = format!(
            "ls -A ~/{folder}; echo evil > ~/{folder}/of-host.sh && echo inside > ~/{folder}/new && cat ~/{folder}/new; \
             rm -rf ~/{folder} 2>/dev/null; mv ~/{folder} ~/{folder}.old 2>/dev/null; exit 0"
        );
        let ran = home.inside(&["--profile", agent], &script).ok();
        assert_eq!(ran.stdout, "inside\n", "{agent}: {folder}: {}", ran.stderr);
        assert_eq!(home.read(&format!("{folder}/of-host.sh")).as_deref(), Some("own\n"), "{agent}: {folder}");
        assert_eq!(home.read(&format!("{folder}/new")), None, "{agent}: {folder}");
    }
}

#[test]
#[kennel_claim::claim("handed-back/agents-do-not-see-each-other")]
fn an_agent_sees_no_login_of_another_one() {
    let home = Home::new();
    let logins = [
        ("claude", ".claude/.credentials.json"),
        ("claude", ".claude.json"),
        ("codex", ".codex/auth.json"),
        ("gemini", ".gemini/oauth_creds.json"),
        ("opencode", ".local/share/opencode/auth.json"),
        ("aider", ".aider/oauth-keys.env"),
        ("goose", ".config/goose/secrets.yaml"),
        ("amp", ".local/share/amp/secrets.json"),
    ];
    for (_, path) in logins {
        home.write(path, "login");
    }
    home.write(".ssh/id", "login");
    for agent in AGENTS {
        let read: String =
            logins.iter().map(|(_, path)| format!("cat ~/{path} >/dev/null 2>&1 && echo {path}\n")).collect();
        let ran =
            home.inside(&["--profile", agent], &format!("{read}cat ~/.ssh/id && echo key; exit 0")).ok();
        let own: Vec<&str> = logins
            .iter()
            // Those that are renewed again and again are signed in to once more inside: who renews a shared one signs the other out.
            .filter(|(own, _)| *own == agent && !["claude", "codex", "gemini"].contains(own))
            .map(|(_, path)| *path)
            .collect();
        assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), own, "{agent}");
    }
}

#[test]
fn a_network_mode_of_ones_own_goes_with_an_agents_profile() {
    let home = Home::new();
    for flags in [&["--net", "none"][..], &["--net", "host"], &["--allow-domain", "example.com"]] {
        let flags = [&["--profile", "codex"], flags].concat();
        home.inside(&flags, "true").ok();
    }
}

/// What agents on the host would write through, or take programs from: links, databases, caches, in every place.
#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn whatever_a_hostile_run_leaves_in_its_state_the_hosts_is_as_it_was() {
    for agent in AGENTS {
        let home = Home::new();
        let kept: Vec<&str> = KEPT.iter().filter(|(own, _)| *own == agent).map(|(_, path)| *path).collect();
        for path in &kept {
            home.write(path, "the host's\n");
        }
        home.write(".bashrc", "own\n");
        let picture = || {
            home.outside("cd ~ && find . -path ./.local/state/kennel -prune -o \\( -type f -o -type l -o -type p \\) -print | sort; cd ~ && find . -path ./.local/state/kennel -prune -o -type f -exec cat {} +").stdout
        };
        // Some files are made for an agent to start.
        home.inside(&["--profile", agent], "true").ok();
        let before = picture();
        let script: String = kept
            .iter()
            .map(|path| {
                let top = top(path);
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                format!(
                    "(mkdir -p ~/{folder}/new; ln -sf ~/.bashrc ~/{path}; ln -s ~ ~/{folder}/home; mkfifo ~/{folder}/pipe; echo x > ~/{folder}/new/AGENTS.md; \
                     rm -rf ~/{top}; ln -s ~/.bashrc ~/{top}; ln ~/.bashrc ~/{folder}/hard) 2>/dev/null\n"
                )
            })
            .collect();
        for _ in 0..2 {
            home.inside(&["--profile", agent], &format!("{script}exit 0")).ok();
            assert_eq!(picture(), before, "{agent}");
        }
        // With the folder open it does all that.
        home.inside(&["--allow-write", &home.at("").display().to_string()], &format!("{script}exit 0")).ok();
        assert_ne!(picture(), before, "{agent}");
    }
}

/// A place that an earlier run made a link of leads nothing of the next anywhere.
#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn links_in_its_own_state_lead_no_mount_elsewhere() {
    let home = Home::new();
    home.write(".bashrc", "own\n");
    home.inside(
        &["--profile", "codex"],
        "ln -s ~/.bashrc ~/.codex/AGENTS.x; ln -s /etc ~/.codex/vendor; exit 0",
    )
    .ok();
    home.outside(
        "rm -rf ~/.local/state/kennel/agents/codex/tmp; ln -s ~ ~/.local/state/kennel/agents/codex/tmp",
    );
    let ran = home.inside(&["--profile", "codex"], "echo x > ~/.codex/tmp/planted; exit 0");
    assert_ne!(ran.code, 0, "it refuses to start: {}", ran.stderr);
    assert_eq!(home.read("planted"), None);
    assert_eq!(home.read(".bashrc").as_deref(), Some("own\n"));
}
