//! Profile `agent` and the agents' own show a home in which there is only what toolchains need: nothing with a key, a token or a
//! memory in it, whatever it is called.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use kennel_policy::caches::caches;
use kennel_policy::home::{HomeAccess, shown};
use kennel_tests::pty::{Pty, exit_code};
use kennel_tests::{Ran, Scratch, am_root, program, ran, skipped};

use crate::profiles::Home;

const CANARY: &str = "canary-b1f4";

/// Places of keys and memories, well known and not: none is on a list of kennel's, but for a few.
const SECRET: &[&str] = &[
    // Browsers and mail.
    "snap/firefox/common/.mozilla/firefox/x.default/logins.json",
    "snap/chromium/common/chromium/Default/Cookies",
    ".var/app/org.mozilla.firefox/.mozilla/firefox/x.default/key4.db",
    ".var/app/com.google.Chrome/config/google-chrome/Default/Login Data",
    ".mozilla/firefox/x.default/logins.json",
    ".config/google-chrome/Default/Cookies",
    ".config/microsoft-edge/Default/Cookies",
    ".config/vivaldi/Default/Cookies",
    ".config/opera/Cookies",
    ".librewolf/x/key4.db",
    ".thunderbird/x.default/key4.db",
    ".config/evolution/sources/x.source",
    ".local/share/evolution/mail/x",
    ".mutt/account",
    ".mbsyncrc",
    ".msmtprc",
    ".mail/inbox/cur/1",
    "Maildir/new/1",
    // Editors.
    ".config/Code/User/globalStorage/state.vscdb",
    ".config/Code/User/settings.json",
    ".config/Cursor/User/globalStorage/state.vscdb",
    ".config/VSCodium/User/globalStorage/state.vscdb",
    ".vscode-server/data/Machine/settings.json",
    ".config/JetBrains/IdeaIC2026.1/options/security.xml",
    ".config/zed/settings.json",
    ".config/sublime-text/Local/License.sublime_license",
    ".local/share/nvim/shada/main.shada",
    ".viminfo",
    ".emacs.d/auth-source",
    ".authinfo.gpg",
    // Passwords and keys.
    ".ssh/id_ed25519",
    ".gnupg/private-keys-v1.d/x.key",
    ".password-store/x.gpg",
    ".config/op/config",
    ".config/1Password/settings/settings.json",
    ".config/Bitwarden CLI/data.json",
    ".config/keepassxc/keepassxc.ini",
    "Passwords.kdbx",
    ".config/age/keys.txt",
    ".config/sops/age/keys.txt",
    ".age/key.txt",
    ".local/share/keyrings/login.keyring",
    ".local/share/kwalletd/kdewallet.kwl",
    ".pki/nssdb/key4.db",
    ".step/secrets/root_ca_key",
    ".config/mkcert/rootCA-key.pem",
    ".local/share/mkcert/rootCA-key.pem",
    ".minisign/minisign.key",
    ".config/solana/id.json",
    ".foundry/keystores/x",
    ".ethereum/keystore/x",
    ".bitcoin/wallet.dat",
    ".electrum/wallets/default_wallet",
    // Clouds.
    ".aws/credentials",
    ".aws/sso/cache/x.json",
    ".azure/msal_token_cache.json",
    ".config/gcloud/credentials.db",
    ".oci/oci_api_key.pem",
    ".aliyun/config.json",
    ".bluemix/config.json",
    ".config/doctl/config.yaml",
    ".config/hcloud/cli.toml",
    ".config/scw/config.yaml",
    ".config/linode-cli",
    ".config/flyctl/config.yml",
    ".fly/config.yml",
    ".config/heroku/x",
    ".config/vercel/auth.json",
    ".local/share/com.vercel.cli/auth.json",
    ".config/netlify/config.json",
    ".config/stripe/config.toml",
    ".wrangler/config/default.toml",
    ".config/.wrangler/config/default.toml",
    ".railway/config.json",
    ".supabase/access-token",
    ".config/rclone/rclone.conf",
    ".rclone.conf",
    ".s3cfg",
    ".boto",
    ".dropbox/info.json",
    ".config/Nextcloud/nextcloud.cfg",
    ".kube/config",
    ".config/helm/registry/config.json",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".pulumi/credentials.json",
    ".vault-token",
    ".ansible/vault",
    ".chef/x.pem",
    ".databrickscfg",
    ".snowsql/config",
    ".config/snowflake/config.toml",
    // Forges, registries and package managers.
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh/hosts.yml",
    ".config/glab-cli/config.yml",
    ".config/tea/config.yml",
    ".config/hub",
    ".config/github-copilot/hosts.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".config/pnpm/rc",
    ".bunfig.toml",
    ".nvm/versions/node/v22.0.0/etc/npmrc",
    ".npm-global/etc/npmrc",
    ".pypirc",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".config/uv/uv.toml",
    ".local/share/uv/credentials/credentials.toml",
    ".condarc",
    ".continuum/anaconda-client/tokens/x",
    ".config/composer/auth.json",
    ".composer/auth.json",
    ".gem/credentials",
    ".bundle/config",
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".cargo/config.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".gradle/init.d/x.gradle",
    ".ivy2/.credentials",
    ".sbt/credentials",
    ".nuget/NuGet/NuGet.Config",
    ".dotnet/corefx/cryptography/x509stores/my/x.pfx",
    ".microsoft/usersecrets/x/secrets.json",
    ".hex/hex.config",
    ".config/dart/pub-credentials.json",
    ".pub-cache/credentials.json",
    ".cabal/config",
    ".julia/servers/x/auth.toml",
    ".docker/config.json",
    ".config/containers/auth.json",
    ".android/debug.keystore",
    // Models and data.
    ".cache/huggingface/token",
    ".huggingface/token",
    ".kaggle/kaggle.json",
    ".config/wandb/settings",
    ".config/openai/auth",
    ".config/anthropic/credentials",
    ".replicate/config",
    ".jupyter/jupyter_server_config.json",
    ".local/share/jupyter/runtime/x.json",
    ".ipython/profile_default/history.sqlite",
    ".my.cnf",
    ".mylogin.cnf",
    ".pgpass",
    ".pg_service.conf",
    ".mongorc.js",
    ".dbshell",
    ".config/dbeaver/credentials-config.json",
    ".local/share/DBeaverData/workspace6/General/.dbeaver/credentials-config.json",
    // Histories and start-up files.
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".config/fish/config.fish",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
    ".python_history",
    ".node_repl_history",
    ".irb_history",
    ".lesshst",
    ".wget-hsts",
    ".local/share/recently-used.xbel",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".envrc",
    ".env",
    ".config/environment.d/x.conf",
    // Chats.
    ".config/Slack/Cookies",
    ".config/discord/Local Storage/x",
    ".config/Signal/config.json",
    ".local/share/TelegramDesktop/tdata/key_datas",
    ".config/Element/x",
    ".weechat/sec.conf",
    ".irssi/config",
    // Of no program that anybody knows.
    ".foo-secret",
    ".config/unknown/token",
    ".local/share/unknown/token",
    ".local/state/unknown/token",
    ".cache/unknown/token",
    ".cargo/unknown",
    ".local/unknown/token",
    "Documents/contract.txt",
    "Downloads/keys.zip",
    "Desktop/notes",
    "src/other-project/.env",
    "home.bak/.ssh/id_rsa",
    "tools/tool",
];

/// Profiles with a private home.
const PROFILES: [&str; 4] = ["agent", "build", "claude", "aider"];

fn with_secrets() -> Home {
    let home = Home::new();
    for path in SECRET {
        home.write(path, CANARY);
    }
    home
}

fn executable(home: &Home, name: &str, contents: &str) -> PathBuf {
    let path = home.write(name, contents);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What a script reads of the canaries, by every way that it can think of.
fn leaks(home: &Home, flags: &[&str]) -> Ran {
    let mut script = String::from("cd /\n");
    for path in SECRET {
        let plain = path.replace(' ', "\\ ");
        script.push_str(&format!(
            "cat ~/{plain} /proc/self/root$HOME/{plain} $HOME/../home/{plain} \"$(readlink -f ~)\"/{plain} 2>/dev/null\n"
        ));
    }
    // Other tests have homes beside this one.
    let own = home.scratch.path().file_name().unwrap().to_str().unwrap();
    script.push_str(&format!(
        "grep -rs canary ~/. ~/.. 2>/dev/null\nfind / -xdev -name '*secret*' -path '*{own}*' 2>/dev/null\nexit 0"
    ));
    home.inside(flags, &script).ok()
}

#[test]
#[kennel_claim::claim("files/home-shows-the-table")]
fn of_the_places_of_keys_and_memories_none_can_be_read() {
    let home = with_secrets();
    // As long as the home is the host's, most of them can.
    let open = leaks(&home, &["--profile", "agent", "--home", "host"]).stdout;
    assert!(open.matches(CANARY).count() > 200, "{open}");
    for profile in PROFILES {
        let found = leaks(&home, &["--profile", profile]).stdout;
        assert!(!found.contains(CANARY) && !found.contains("foo-secret"), "{profile}: {found}");
    }
    // The second line holds in what a rule opens.
    let wide = home.inside(
        &["--profile", "agent", "--allow-read", "~/.config", "--allow-read", "~/.cargo"],
        "cat ~/.config/unknown/token ~/.cargo/unknown; cat ~/.config/gh/hosts.yml ~/.cargo/credentials.toml; exit 0",
    );
    assert_eq!(wide.ok().stdout, CANARY.repeat(2));
}

#[test]
#[kennel_claim::claim("files/home-shows-the-table")]
fn a_home_shows_what_is_listed_and_nothing_else_and_is_left_as_it_was() {
    let home = with_secrets();
    home.write(".cargo/bin/tool", "#!/bin/sh\n");
    home.write(".local/bin/tool", "#!/bin/sh\n");
    home.write("project/file", "x");
    let before = home.scratch.listing();
    // Caches are the suite's of that name.
    let agent = ["--profile", "agent", "--no-caches"];
    let shown =
        home.inside(&agent, "ls -A ~; ls -A ~/.cargo ~/.local ~/.config 2>&1; ls ~/project").ok().stdout;
    let mut names: Vec<&str> = shown.split_whitespace().collect();
    names.retain(|name| !name.contains('/'));
    for name in [".cargo", ".local", ".nvm", "project", "bin", "file"] {
        assert!(names.contains(&name), "{shown}");
    }
    assert!(
        !shown.contains("Documents") && !shown.contains("credentials") && !shown.contains("share"),
        "{shown}"
    );
    // It can be written, and is gone at the end; what is the host's cannot.
    let script = "set -e\nmkdir -p ~/.cache/x ~/.npm/_cacache ~/Documents\necho new > ~/.cache/x/y\necho x > ~/.bashrc\n\
                  echo x > ~/Documents/contract.txt\nmv ~/.cache/x ~/moved\ncat ~/moved/y\n\
                  ! echo x > ~/.cargo/bin/tool\n! touch ~/.local/bin/new\n! rm ~/.cargo/bin/tool\n! mv ~/.cargo/bin ~/b\necho x > file";
    assert_eq!(home.inside(&agent, script).ok().stdout, "new\n");
    assert_eq!(home.scratch.listing(), before);
    assert_eq!(home.read("project/file").as_deref(), Some("x\n"));
    assert_eq!(home.inside(&agent, "cat ~/moved/y ~/.bashrc 2>/dev/null; exit 0").ok().stdout, "");
    assert_eq!(home.read("Documents/contract.txt").as_deref(), Some(CANARY));
}

#[test]
#[kennel_claim::claim("files/home-shows-the-table")]
fn every_entry_of_the_table_shows_and_cannot_be_written() {
    let home = Home::new();
    let entries = || shown().iter().filter(|entry| entry.access == HomeAccess::Read);
    let below: Vec<&str> = entries().filter_map(|entry| entry.below_home()).collect();
    // Files have a dot in front of their only name, or are named so.
    let is_file = |path: &str| {
        (path.starts_with('.')
            && !path.contains('/')
            && entries().any(|entry| {
                entry.below_home() == Some(path)
                    && (entry.why.starts_with("which")
                        || entry.why == "style"
                        || entry.why.starts_with("names")
                        || entry.why.starts_with("kinds")
                        || entry.why.starts_with("keys")
                        || entry.why == "colours")
            }))
            || path == ".cargo/env"
            || path == ".dotnet/dotnet"
            || path.starts_with(".config/git/")
    };
    for path in &below {
        let file = if is_file(path) { (*path).to_owned() } else { format!("{path}/deep/file") };
        home.write(&file, path);
    }
    let mut script = String::new();
    for path in &below {
        let file = if is_file(path) { (*path).to_owned() } else { format!("{path}/deep/file") };
        script.push_str(&format!(
            "[ \"$(cat ~/{file})\" = '{path}' ] || echo 'not shown: {path}'\n( : >> ~/{file} ) 2>/dev/null && echo 'writable: {path}'\n"
        ));
    }
    script.push_str("exit 0");
    assert_eq!(home.inside(&["--profile", "agent", "--no-caches"], &script).ok().stdout, "");
    // What a profile denies wins over the table: another agent's folder as a whole.
    let goose = home.inside(&["--profile", "goose", "--no-caches"], &script);
    assert_eq!(goose.ok().stdout, "not shown: .claude/local\n");
    // With layers, caches among them show as well, and only these can be written.
    let told = home.inside(&["--profile", "agent"], &script).ok().stdout;
    let with_layer = |line: &str| {
        let path = line.strip_prefix("writable: ").map(|path| Path::new("~").join(path));
        path.is_some_and(|path| caches().iter().any(|cache| path.starts_with(cache.path)))
    };
    assert!(told.lines().count() > 10 && told.lines().all(with_layer), "{told}");
    // And each says why.
    let plan = ran(&mut home.kennel(["plan", "--steps", "--profile", "agent", "--no-caches", "--", "true"]))
        .ok()
        .stdout;
    for entry in entries().filter(|entry| entry.below_home().is_some()) {
        let step =
            plan.lines().find(|line| line.contains(&format!("/home/{} ", entry.below_home().unwrap())));
        assert!(step.is_some_and(|line| line.ends_with(&entry.reason())), "{}: {step:?}", entry.path);
    }
    assert!(plan.contains("the home is private (files.home)"), "{plan}");
}

#[test]
#[kennel_claim::claim("files/home-shows-the-table")]
fn what_a_rule_allows_in_the_home_shows() {
    let home = with_secrets();
    let agent =
        |flags: &[&str], script: &str| home.inside(&[&["--profile", "agent"][..], flags].concat(), script);
    for (flag, path) in [
        ("--allow-read", "Documents"),
        ("--allow-read", "tools"),
        // Some of these the profile hides itself, at the very same path.
        ("--allow-read", ".npmrc"),
        ("--allow-read", ".config/gh"),
        ("--allow-read", ".aws/credentials"),
        ("--allow-read", ".local"),
        ("--allow-write", ".config/unknown"),
        ("--allow-write", "Downloads"),
    ] {
        let secrets: Vec<&&str> =
            SECRET.iter().filter(|secret| Path::new(secret).starts_with(path)).collect();
        let typed = format!("~/{path}");
        let found = agent(&[flag, &typed], &format!("cat ~/{}; exit 0", secrets[0])).ok();
        assert_eq!(found.stdout, CANARY, "{typed}");
        let writes = agent(&[flag, &typed], &format!("echo more >> ~/{}", secrets[0])).code == 0;
        assert_eq!(writes, flag == "--allow-write", "{typed}");
    }
    // A settings file and a profile of the user's own do the same; a deny in the same source holds.
    home.write("own.toml", "profile = \"agent\"\n[files]\nallow_read = [\"~/.npmrc\", \"~/tools\"]\ndeny_read = [\"~/tools/tool\"]\n");
    let settings = home.at("own.toml").display().to_string();
    let found = home
        .inside(&["--settings", &settings], "cat ~/.npmrc; test -e ~/tools/tool && cat ~/tools/tool; exit 0");
    assert_eq!(found.ok().stdout, CANARY);
    let tie = agent(&["--allow-read", "~/tools", "--deny-read", "~/tools"], "cat ~/tools/tool; exit 0");
    assert_eq!(tie.ok().stdout, "");
    // What a stronger source denies stays denied, also around entries of the table.
    home.write(".local/bin/mine", "mine");
    assert_eq!(agent(&[], "cat ~/.local/bin/mine").ok().stdout, "mine");
    for deny in ["~/.local", "~/.local/bin", "~", "~/.local/bin/mine"] {
        assert_eq!(agent(&["--deny-read", deny], "cat ~/.local/bin/mine; exit 0").ok().stdout, "", "{deny}");
    }
    // The home as it is.
    assert_eq!(agent(&["--home", "host"], "cat ~/Documents/contract.txt").ok().stdout, CANARY);
    // Whoever comes with the project may close it, and not open it.
    home.write("project/kennel.toml", "[files]\nhome = \"host\"\nallow_read = [\"~/Documents\"]\n");
    assert_eq!(agent(&[], "cat ~/Documents/contract.txt; exit 0").ok().stdout, "");
    home.write("project/kennel.toml", "[files]\nhome = \"private\"\n");
    assert_eq!(home.inside(&[], "cat ~/Documents/contract.txt; exit 0").ok().stdout, "");
}

#[test]
#[kennel_claim::claim("files/home-links-lead-inside")]
fn links_in_a_home_lead_to_what_shows() {
    let home = with_secrets();
    executable(&home, "dotfiles/bin/tool", "#!/bin/sh\necho tool runs\n");
    home.write("dotfiles/inputrc", "dotfiles");
    home.write("dotfiles/private", CANARY);
    executable(&home, "elsewhere/closed", "#!/bin/sh\necho closed runs\n");
    std::fs::create_dir_all(home.at(".local/pipx/venvs/x/bin")).unwrap();
    executable(&home, ".local/pipx/venvs/x/bin/pipped", "#!/bin/sh\necho pipped runs\n");
    let link = |from: &str, to: &str| {
        std::fs::create_dir_all(home.at(from).parent().unwrap()).unwrap();
        symlink(home.at(to), home.at(from)).unwrap();
    };
    // A folder and a file of the table are links to elsewhere in the home; a name in a folder of the table is one.
    link(".cargo/bin", "dotfiles/bin");
    link(".inputrc", "dotfiles/inputrc");
    link(".local/bin/pipped", ".local/pipx/venvs/x/bin/pipped");
    link(".local/bin/closed", "elsewhere/closed");
    // To the home itself, to what is denied, and to a file where a folder should be.
    link(".volta/bin", "");
    link(".deno/bin", ".ssh");
    link(".bun/bin", "../home/./");
    link("go/bin", "..");
    let script = "~/.cargo/bin/tool; cat ~/.inputrc; echo; ~/.local/bin/pipped; cat ~/dotfiles/private ~/.volta/bin/.foo-secret \
                  ~/.deno/bin/id_ed25519 ~/.bun/bin/.foo-secret ~/go/bin/home/.foo-secret ~/.local/bin/closed 2>/dev/null; ls ~/dotfiles";
    let found = home.inside(&["--profile", "agent"], script).ok();
    assert_eq!(found.stdout, "tool runs\ndotfiles\npipped runs\nbin\ninputrc\n");
    // Links that a run makes in the workspace lead nowhere, in this run and in the next.
    let planted = "ln -sfn ~ h; ln -sfn ~/.ssh s; ln -sfn ~/.foo-secret f; ln -sfn ../.foo-secret r; ln -sfn /proc/self/root$HOME p; \
                   cat h/.foo-secret s/* f r p/.foo-secret 2>/dev/null; exit 0";
    for _ in 0..2 {
        assert_eq!(home.inside(&["--profile", "agent"], planted).ok().stdout, "");
    }
    // One that a rule names is refused as ever.
    let named = home.inside(&["--profile", "agent", "--allow-read", "f"], "cat f");
    assert_eq!((named.code, named.stdout.as_str()), (125, ""), "{}", named.stderr);
}

#[test]
#[kennel_claim::claim("files/home-links-lead-inside")]
fn a_run_that_may_write_above_a_listed_folder_cannot_have_the_next_one_follow_its_link() {
    let home = with_secrets();
    std::fs::create_dir_all(home.at(".cargo/bin")).unwrap();
    let flags = ["--profile", "agent", "--allow-write", "~/.cargo"];
    home.inside(&flags, "rmdir ~/.cargo/bin && ln -s ~/.config ~/.cargo/bin").ok();
    assert!(home.at(".cargo/bin").is_symlink());
    let found = home.inside(&flags, "cat ~/.cargo/bin/unknown/token; exit 0").ok();
    assert_eq!(found.stdout, "", "{}", found.stderr);
}

#[test]
#[kennel_claim::claim("files/agent-state-is-not-led-astray")]
fn state_folders_of_agents_cannot_be_led_astray_by_moving_the_folders_around_them() {
    let home = Home::new();
    for folder in [".local/share/goose", ".local/state/goose", ".config/goose"] {
        std::fs::create_dir_all(home.at(folder)).unwrap();
    }
    // The folders around them are private: they can be moved, and the rules go with what is the host's.
    let script = "mv ~/.local ~/elsewhere\nmkdir -p ~/elsewhere/share/goose/recipes ~/.local/share/goose/recipes\n\
                  echo evil > ~/elsewhere/share/goose/recipes/x.yaml\necho evil > ~/elsewhere/share/goose/schedule.json\n\
                  echo evil > ~/.local/share/goose/recipes/y.yaml\nmv ~/.config ~/c\necho evil > ~/c/goose/config.yaml\n\
                  mkdir -p ~/new/recipes && echo evil > ~/new/recipes/z && mv ~/new/recipes ~/elsewhere/share/goose/recipes\nexit 0";
    home.inside(&["--profile", "goose"], script).ok();
    let found = home.outside("find ~ -type f ! -path '*/kennel/caches/*'");
    assert_eq!(found.stdout, "");
    assert!(
        !home.at(".local/share/goose/recipes").exists() && !home.at(".config/goose/config.yaml").exists()
    );
}

#[test]
#[kennel_claim::claim("files/home-git-configuration")]
fn gits_configuration_shows_without_credentials() {
    if program("git").is_none() {
        return skipped("git is not installed");
    }
    let home = Home::new();
    home.write(
        ".gitconfig",
        "# canary-b1f4\n[user]\n\tname = Ada\n[http \"https://git.test\"]\n\textraHeader = Authorization: canary-b1f4\n\
         [url \"https://canary-b1f4@git.test/\"]\n\tinsteadOf = https://git.test/\n[credential]\n\thelper = \"!echo canary-b1f4\"\n\
         [github]\n\ttoken = canary-b1f4\n[include]\n\tpath = dotfiles/git.inc\n[includeIf \"gitdir:~/project/\"]\n\tpath = ~/.work.inc\n\
         [init]\n\tdefaultBranch = trunk\n[core]\n\texcludesFile = ~/.gitignore_global\n[include]\n\tpath = ~/.ssh/id\n",
    );
    home.write(
        "dotfiles/git.inc",
        "[pull]\n\trebase = true\n[sendemail]\n\tsmtpPass = canary-b1f4\n[include]\n\tpath = ../dotfiles/../.more.inc\n",
    );
    home.write(".work.inc", "[user]\n\temail = ada@work.test\n\tpassword = canary-b1f4\n");
    home.write(
        ".config/git/config",
        "[push]\n\tdefault = simple\n[remote \"x\"]\n\turl = https://canary-b1f4@git.test\n",
    );
    home.write(".config/git/credentials", "https://canary-b1f4@git.test");
    home.write(".more.inc", "[fetch]\n\tprune\n");
    home.write(".ssh/id", "[user]\n\tsigningkey = canary-b1f4\ncanary-b1f4\n");
    home.write(".gitignore_global", "*.tmp\n");
    let script = "git init -q . && echo x > a && echo y > b.tmp && git add . && git commit -qm one && git log --format='%an %ae' && \
                  git ls-files && git branch --show-current && git config pull.rebase && git config push.default && git config --type=bool fetch.prune && \
                  cat ~/.gitconfig ~/dotfiles/git.inc ~/.work.inc ~/.config/git/* ~/.ssh/id 2>/dev/null | grep canary; git config --list | grep canary; exit 0";
    let found = home.inside(&["--profile", "agent", "--git", "off"], script).ok();
    assert_eq!(found.stdout, "Ada ada@work.test\na\ntrunk\ntrue\nsimple\ntrue\n", "{}", found.stderr);
    // What a command sets for itself is gone at the end.
    home.inside(
        &["--profile", "agent"],
        "git config --global user.name Eve && git config user.name | grep -q Eve",
    )
    .ok();
    assert!(home.read(".gitconfig").unwrap().contains("name = Ada"));
    // As a whole, where somebody says so; not at all, where somebody says that.
    let whole =
        home.inside(&["--profile", "agent", "--allow-read", "~/.gitconfig"], "grep -c canary ~/.gitconfig");
    assert_eq!(whole.ok().stdout, "5\n");
    let none =
        home.inside(&["--profile", "agent", "--deny-read", "~/.gitconfig"], "cat ~/.gitconfig; exit 0");
    assert_eq!(none.ok().stdout, "");
    // A link among somebody's other dotfiles, and something that is no file.
    std::fs::rename(home.at(".gitconfig"), home.at("dotfiles/gitconfig")).unwrap();
    symlink(home.at("dotfiles/gitconfig"), home.at(".gitconfig")).unwrap();
    assert_eq!(home.inside(&["--profile", "agent"], "git config user.name").ok().stdout, "Ada\n");
    // Files that include each other in a circle, which git itself refuses, and more of them than anybody has.
    home.write("dotfiles/gitconfig", "[include]\n\tpath = a0\n[include]\n\tpath = ././.gitconfig\n");
    for number in 0..40 {
        home.write(
            &format!("a{number}"),
            &format!("[include]\n\tpath = a{}\n[user]\n\tname = n{number}\n", number + 1),
        );
    }
    let copied = home.inside(&["--profile", "agent"], "ls -d ~/a* | wc -l").ok().stdout;
    assert!((10..16).contains(&copied.trim().parse::<u32>().unwrap()), "{copied}");
    std::fs::remove_file(home.at(".gitconfig")).unwrap();
    home.outside("mkfifo ~/.gitconfig");
    home.inside(&["--profile", "agent"], "test ! -s ~/.gitconfig").ok();
}

#[test]
fn toolchains_run_from_a_home() {
    let home = Home::new();
    executable(&home, "bin/mine", "#!/bin/sh\necho mine\n");
    // Where nvm puts node, a program of npm's, and nvm's link to the current one.
    let nvm = ".nvm/versions/node/v22.1.0";
    executable(&home, &format!("{nvm}/lib/node_modules/cli/index.sh"), "#!/bin/sh\necho cli\n");
    std::fs::create_dir_all(home.at(&format!("{nvm}/bin"))).unwrap();
    symlink("../lib/node_modules/cli/index.sh", home.at(&format!("{nvm}/bin/cli"))).unwrap();
    symlink("versions/node/v22.1.0", home.at(".nvm/current")).unwrap();
    executable(&home, ".npm-global/lib/node_modules/agent/cli.sh", "#!/bin/sh\necho agent\n");
    std::fs::create_dir_all(home.at(".npm-global/bin")).unwrap();
    symlink("../lib/node_modules/agent/cli.sh", home.at(".npm-global/bin/agent")).unwrap();
    // A tool of pipx's: a link to a script whose interpreter is the environment's own.
    executable(&home, ".local/share/pipx/venvs/t/bin/python", "#!/bin/sh\nexec sh \"$@\"\n");
    let interpreter = home.at(".local/share/pipx/venvs/t/bin/python");
    executable(
        &home,
        ".local/share/pipx/venvs/t/bin/tool",
        &format!("#!/usr/bin/env -S {}\necho tool\n", interpreter.display()),
    );
    std::fs::create_dir_all(home.at(".local/bin")).unwrap();
    symlink(home.at(".local/share/pipx/venvs/t/bin/tool"), home.at(".local/bin/tool")).unwrap();
    // And Claude Code, as it installs itself.
    executable(&home, ".local/share/claude/versions/2.1.0", "#!/bin/sh\necho claude\n");
    symlink(home.at(".local/share/claude/versions/2.1.0"), home.at(".local/bin/claude")).unwrap();
    let folders = ["bin", ".nvm/current/bin", ".npm-global/bin", ".local/bin"]
        .map(|folder| home.at(folder).display().to_string());
    let path = format!("{}:/usr/bin:/bin", folders.join(":"));
    for (command, profile) in [
        ("mine", "agent"),
        ("cli", "agent"),
        ("agent", "agent"),
        ("tool", "agent"),
        ("tool", "build"),
        ("claude", "claude"),
    ] {
        let mut run = home.kennel(["run", "--profile", profile, "--", command]);
        assert_eq!(ran(run.env("PATH", &path)).ok().stdout.trim(), command, "{profile}");
    }
}

#[test]
fn a_real_toolchain_builds_in_a_private_home() {
    let (Some(cargo), Some(rustc)) = (program("cargo"), program("rustc")) else {
        return skipped("there is no cargo");
    };
    let home = Home::new();
    let real = |program: &Path, flag: &[&str]| {
        let told = Command::new(program).args(flag).output().ok()?;
        told.status.success().then(|| String::from_utf8_lossy(&told.stdout).trim().to_owned())
    };
    let Some(sysroot) = real(&rustc, &["--print", "sysroot"]).map(PathBuf::from) else {
        return skipped("rustc does not run as this user");
    };
    let _ = cargo;
    // The toolchain as rustup lays it out, by hard links where that can be.
    let at = home.at(".rustup/toolchains/x");
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    let copied = Command::new("cp").args(["-rl"]).arg(&sysroot).arg(&at).output().unwrap().status.success();
    if !copied {
        let _ = std::fs::remove_dir_all(&at);
        return skipped("the toolchain cannot be linked into a home of this test's");
    }
    std::fs::create_dir_all(home.at(".cargo")).unwrap();
    symlink(at.join("bin"), home.at(".cargo/bin")).unwrap();
    home.write(".cargo/credentials.toml", CANARY);
    home.write("project/Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    home.write("project/src/main.rs", "fn main() { println!(\"built inside\"); }\n");
    let mut run = home.kennel([
        "run",
        "--profile",
        "build",
        "--",
        "sh",
        "-c",
        "cargo run -q --offline && ! cat ~/.cargo/credentials.toml",
    ]);
    let path = format!("{}:/usr/bin:/bin", home.at(".cargo/bin").display());
    let found = ran(run.env("PATH", path).env_remove("CARGO_HOME").env_remove("RUSTUP_HOME")).ok();
    assert_eq!(found.stdout, "built inside\n");
}

#[test]
#[kennel_claim::claim("files/home-shows-the-table")]
fn homes_of_odd_kinds_are_closed_or_named() {
    let scratch = Scratch::new();
    scratch.write("real/.foo-secret", CANARY);
    scratch.write("real/.local/bin/x", "shown");
    scratch.write("real/project/file", "");
    symlink(scratch.join("real"), scratch.join("link")).unwrap();
    let inside = |home: Option<&Path>, cwd: &Path, flags: &[&str], script: &str| {
        let mut command = kennel_tests::kennel(["run", "--profile", "agent"]);
        command.args(flags).args(["--", "sh", "-c", script]).env_remove("XDG_CONFIG_HOME").current_dir(cwd);
        match home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        ran(&mut command)
    };
    let (real, link, project) = (scratch.join("real"), scratch.join("link"), scratch.join("real/project"));
    let script = "cat ~/.local/bin/x; cat ~/.foo-secret ../.foo-secret ../../link/.foo-secret ../../real/.foo-secret; exit 0";
    // By a link.
    for home in [&real, &link] {
        assert_eq!(inside(Some(home), &project, &[], script).ok().stdout, "shown", "{}", home.display());
    }
    // None, or one that is not there, or the system's: nothing is closed that anything needs.
    for home in [
        None,
        Some(Path::new("/")),
        Some(Path::new("/nonexistent")),
        Some(Path::new("/usr")),
        Some(Path::new("relative")),
        Some(Path::new("/tmp")),
    ] {
        assert_eq!(
            inside(home, &project, &[], "ls /usr/bin/env; touch made && rm made").ok().stdout,
            "/usr/bin/env\n",
            "{home:?}"
        );
    }
    // One in which the command starts is refused, and where somebody insists it is the workspace.
    let refused = inside(Some(&real), &real, &[], "true");
    assert!(refused.code == 125 && refused.stderr.contains("is a home folder"), "{}", refused.stderr);
    let refused = inside(Some(&real), scratch.path(), &[], "true");
    assert!(refused.code == 125 && refused.stderr.contains("is a home folder"), "{}", refused.stderr);
    assert_eq!(inside(Some(&real), &real, &["--allow-home"], "cat .foo-secret").ok().stdout, CANARY);
    // A folder above it as the workspace leaves it closed.
    let around = inside(
        Some(&real),
        scratch.path(),
        &["--allow-home"],
        "cat real/.foo-secret; ls real/.local/bin; exit 0",
    );
    assert_eq!(around.ok().stdout, "x\n");
    // To start in a private home opens nothing of it.
    let started = {
        let mut command = kennel_tests::kennel([
            "run",
            "--home",
            "private",
            "--",
            "sh",
            "-c",
            "cat .foo-secret; pwd; ls -A; exit 0",
        ]);
        ran(command.env("HOME", &real).current_dir(&real)).ok()
    };
    assert_eq!(started.stdout, format!("{}\n.local\n", real.display()));
}

#[test]
#[kennel_claim::claim("files/home-shows-the-table")]
fn parts_of_a_home_elsewhere_are_closed_too() {
    let home = Home::new();
    home.scratch.write("config/app/token", CANARY);
    home.scratch.write("data/app/token", CANARY);
    home.write("project/cache/token", "mine");
    let run = |script: &str| {
        let mut command = home.kennel(["run", "--profile", "agent", "--", "sh", "-c", script]);
        command
            .env("XDG_CONFIG_HOME", home.scratch.join("config"))
            .env("XDG_DATA_HOME", home.scratch.join("data"));
        ran(command.env("XDG_CACHE_HOME", home.at("project/cache"))).ok()
    };
    let script = "cat $XDG_CONFIG_HOME/app/token $XDG_DATA_HOME/app/token; cat $XDG_CACHE_HOME/token; \
                  echo x > $XDG_CACHE_HOME/token; mkdir $XDG_DATA_HOME/new; exit 0";
    assert_eq!(run(script).stdout, "mine");
    // What is in the workspace stays the workspace's.
    assert_eq!(home.read("project/cache/token").as_deref(), Some("x\n"));
    assert!(!home.scratch.join("data/new").exists());
}

#[test]
#[kennel_claim::claim("files/other-homes-are-closed")]
fn other_users_homes_mail_and_jobs_are_closed() {
    let home = Home::new();
    let script = "ls -A /home 2>/dev/null; ls -A /root 2>/dev/null; for place in /var/mail /var/spool /var/spool/cron /var/crash \
                  /var/lib/systemd/coredump /run/user /tmp; do ls -A $place 2>/dev/null; done; \
                  ls -d ~root/. ~daemon/. >/dev/null; (echo x > /home/x || echo x > /var/spool/x) 2>/dev/null && echo written; exit 0";
    assert_eq!(home.inside(&["--profile", "agent"], script).ok().stdout, "");
    if !am_root() {
        return;
    }
    // A home of somebody in the user database that is not where homes are.
    let scratch = Scratch::new();
    scratch.write("others/bob/.ssh/id", CANARY);
    scratch.write("me/project/x", "");
    let passwd = format!(
        "root:x:0:0::/root:/bin/sh\nbob:x:4321:4321::{}:/bin/sh\n",
        scratch.join("others/bob").display()
    );
    let passwd = scratch.write("passwd", &passwd);
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", "mount --bind \"$1\" /etc/passwd && shift && exec \"$@\"", "sh"])
        .arg(&passwd);
    command.arg(kennel_tests::kennel_bin()).args([
        "run",
        "--no-settings",
        "--profile",
        "agent",
        "--",
        "sh",
        "-c",
    ]);
    command.arg(format!("cat {}/others/bob/.ssh/id; exit 0", scratch.path().display()));
    let found = ran(command.env("HOME", scratch.join("me")).current_dir(scratch.join("me/project")));
    assert_eq!((found.code, found.stdout.as_str()), (0, ""), "{}", found.stderr);
}

#[test]
fn a_home_that_is_mounted_a_second_time_is_closed_there_too() {
    if !am_root() {
        return skipped("mounts for this test are made by root only");
    }
    let home = with_secrets();
    for folder in ["whole", "part", "above", "home/project/data"] {
        home.scratch.dir(folder);
    }
    let at = |name: &str| home.scratch.join(name).display().to_string();
    let mounts = format!(
        "mount --bind {0} {1} && mount --bind {0}/.config {2} && mount --bind {3} {4} && mount --bind {0}/Documents {5}",
        at("home"),
        at("whole"),
        at("part"),
        home.scratch.path().display(),
        at("above"),
        at("home/project/data")
    );
    let run = |flags: &str, script: &str| {
        let mut command = Command::new("unshare");
        let kennel = kennel_tests::kennel_bin();
        let line = format!("{mounts} && exec {} run --no-settings {flags} -- sh -c \"$1\"", kennel.display());
        command
            .args(["-m", "sh", "-c", &line, "sh", script])
            .env("HOME", home.at(""))
            .env_remove("XDG_CONFIG_HOME");
        ran(command.current_dir(home.at("project")))
    };
    let script = format!(
        "for place in {} {} {}; do cat $place/.foo-secret $place/unknown/token $place/home/.foo-secret 2>/dev/null; done; \
         cat {}/.foo-secret 2>/dev/null; cat data/contract.txt",
        at("whole"),
        at("part"),
        at("above"),
        at("above/whole")
    );
    assert_eq!(run("--profile build --home host", &script).ok().stdout.matches(CANARY).count(), 4);
    // What is mounted in the workspace is the workspace's.
    assert_eq!(run("--profile agent", &script).ok().stdout, CANARY);
    let opened = run(
        &format!("--profile agent --allow-read {}", at("part")),
        &format!("cat {}/unknown/token", at("part")),
    );
    assert_eq!(opened.ok().stdout, CANARY);
}

#[test]
fn a_command_in_a_closed_part_of_the_home_is_told_with_the_flag_that_opens_it() {
    let home = Home::new();
    let tool = executable(&home, "tools/deep/tool", "#!/bin/sh\necho tool\n");
    let interpreter = executable(&home, "venv/bin/python", "#!/bin/sh\necho \"$2\"\n");
    executable(&home, "project/script", &format!("#!{}\n", interpreter.display()));
    std::fs::create_dir_all(home.at(".local/bin")).unwrap();
    symlink(&tool, home.at(".local/bin/linked")).unwrap();
    let path =
        format!("{}:{}:/usr/bin:/bin", home.at("tools/deep").display(), home.at(".local/bin").display());
    let run = |flags: &[&str], command: &str| {
        let mut run = home.kennel(["run", "--profile", "agent"]);
        ran(run.args(flags).args(["--", command]).env("PATH", &path))
    };
    let tool = tool.display().to_string();
    for (command, what, folder) in [
        (tool.as_str(), "~/tools/deep/tool", "~/tools/deep"),
        ("tool", "~/tools/deep/tool", "~/tools/deep"),
        ("../tools/deep/tool", "~/tools/deep/tool", "~/tools/deep"),
        ("linked", "~/tools/deep/tool", "~/tools/deep"),
        ("./script", "~/venv/bin/python", "~/venv/bin"),
    ] {
        let told = run(&[], command);
        let code = if command == "./script" { 126 } else { 127 };
        assert_eq!(told.code, code, "{command}: {}", told.stderr);
        let help = format!(
            "{what} is in your home, which is private in this sandbox\nhelp: --allow-read {folder} shows it\n"
        );
        assert!(told.stderr.ends_with(&help), "{command}: {}", told.stderr);
        run(&["--allow-read", folder], command).ok();
    }
    // What is not there at all, or shows, is none of this.
    for command in ["no-such-program", "/no/such/program"] {
        let told = run(&[], command);
        assert!(told.code == 127 && !told.stderr.contains("private"), "{}", told.stderr);
    }
    let told = run(&["--home", "host"], "no-such-program");
    assert!(!told.stderr.contains("private"), "{}", told.stderr);
}

#[test]
fn a_command_that_fails_at_once_is_told_on_a_terminal_that_the_home_is_private() {
    let home = Home::new();
    let on_terminal = |flags: &[&str], script: &str| {
        let terminal = Pty::new(&[]);
        let mut command = home.kennel(["run"]);
        command.args(flags).args(["--", "sh", "-c", script]);
        let mut child = terminal.spawn(&mut command, [true; 3]);
        let mark = format!("[{}]", exit_code(&mut child));
        rustix::io::write(terminal.program(), mark.as_bytes()).unwrap();
        terminal.wait_for(&mark).replace("\r\n", "\n")
    };
    let line = "kennel: note: the home is private in this sandbox: `kennel plan --steps` lists what shows of it, --allow-read ~/… shows more";
    assert!(on_terminal(&["--profile", "agent"], "exit 1").contains(line));
    for (flags, script) in [
        (&["--profile", "agent"][..], "exit 0"),
        (&["--profile", "agent", "--quiet"], "exit 1"),
        (&["--profile", "agent", "--home", "host"], "exit 1"),
        (&[], "exit 1"),
        (&["--profile", "judge"], "exit 1"),
    ] {
        assert!(!on_terminal(flags, script).contains(line), "{flags:?} {script}");
    }
    assert_eq!(home.inside(&["--profile", "agent"], "exit 1").expect_code(1).stderr, "");
}
