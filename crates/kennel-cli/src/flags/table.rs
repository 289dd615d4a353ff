//! Every command and every flag, once.

use super::Trust;
use kennel_policy::profiles;
use kennel_policy::registries;
use kennel_policy::settings::keys::{self, Key, Kind, lists};

/// One command of kennel.
#[derive(Debug)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What follows the name.
    pub usage: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What it does, in a paragraph.
    pub doc: &'static str,
    /// The flags it takes beside `--help`.
    pub takes: &'static [Scope],
}

/// Which flags belong together because the same commands take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What says how to run a command.
    Run,
    /// What `plan` shows.
    Plan,
    /// `--json`
    Json,
    /// What is about layers of caches.
    Caches,
    /// `--all`
    All,
    /// `--yes`
    Yes,
    /// What `trust` does.
    Trust,
    /// `--help`
    Help,
    /// `--version`
    Top,
}

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// Its name, without the dashes.
    pub name: &'static str,
    /// Its short name.
    pub short: Option<char>,
    /// What its value is called; `None` if it takes none.
    pub value: Option<&'static str>,
    /// A word that may be attached to a flag without a value: `--flag=word`.
    pub attached: Option<&'static str>,
    /// What it does.
    pub effect: Effect,
    /// Which commands take it.
    pub scope: Scope,
    /// Under which heading it is shown.
    pub section: &'static str,
    /// Whether each use adds to the ones before, instead of replacing them.
    pub repeatable: bool,
    /// Whether it is one of the few that most people need.
    pub common: bool,
    /// What it does, in one line.
    pub help: &'static str,
    /// What else there is to know.
    pub doc: &'static str,
}

/// What a flag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Says a setting, with the flag's value.
    Says(Setting),
    /// Says a setting, with this value.
    SaysWord(Setting, &'static str),
    /// Says this part of a setting, with the flag's value.
    SaysPart(Setting, &'static str),
    /// Keeps a descriptor open.
    KeepFd,
    /// Adds a settings file.
    SettingsFile,
    /// Leaves settings files alone.
    NoSettings,
    /// Names the report's file.
    Report,
    /// Names the descriptor that new rules come by.
    ControlFd,
    /// Tells what was used.
    Stats,
    /// Explains what fails.
    Explain,
    /// Says less.
    Quiet,
    /// Says more.
    Verbose,
    /// Prints the steps of a plan.
    Steps,
    /// Prints JSON.
    Json,
    /// Prints a table.
    Table,
    /// Means all of them.
    All,
    /// Agrees to what is shown.
    Yes,
    /// Says what `trust` does.
    Trusted(Trust),
    /// Prints help.
    Help,
    /// Prints help with every flag.
    HelpAll,
    /// Prints the version.
    Version,
}

/// A setting that a flag says: a row of the table of keys.
#[derive(Clone, Copy)]
pub struct Setting {
    /// Its full name.
    pub name: &'static str,
    /// Its row.
    pub key: &'static Key,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.name == other.name
    }
}

impl Eq for Setting {}

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A name that is not in the table of keys does not compile.
const fn setting(name: &'static str) -> Setting {
    Setting { name, key: keys::named(name) }
}

const fn says(name: &'static str) -> Effect {
    Effect::Says(setting(name))
}

const fn says_part(name: &'static str, part: &'static str) -> Effect {
    Effect::SaysPart(setting(name), part)
}

const fn says_word(name: &'static str, word: &'static str) -> Effect {
    Effect::SaysWord(setting(name), word)
}

/// What a shell can offer for a flag's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Nothing.
    Nothing,
    /// Files.
    Files,
    /// Folders.
    Folders,
    /// Names of variables.
    Variables,
    /// These words.
    Words(Vec<&'static str>),
}

impl Flag {
    /// What a shell can offer for its value.
    pub fn offer(&self) -> Offer {
        match self.effect {
            Effect::Says(setting) => match &setting.key.kind {
                Kind::Choice(choices) => Offer::Words(choices.words()),
                Kind::Profiles(_) => Offer::Words(profiles::NAMES.to_vec()),
                Kind::Registries(_) => Offer::Words(registries::words().collect()),
                Kind::Lists(_) => Offer::Words(lists().to_vec()),
                Kind::Paths(..) | Kind::Mounts(_) | Kind::Files(_) | Kind::File(_) => Offer::Files,
                Kind::Folder(_) => Offer::Folders,
                Kind::Names(_) | Kind::Secrets(_) => Offer::Variables,
                _ => Offer::Nothing,
            },
            Effect::SettingsFile | Effect::Report => Offer::Files,
            _ => Offer::Nothing,
        }
    }
}

impl Command {
    /// The flags that the command takes.
    pub fn flags(&self) -> impl Iterator<Item = &'static Flag> {
        FLAGS.iter().filter(|flag| flag.scope == Scope::Help || self.takes.contains(&flag.scope))
    }
}

/// The headings, in the order of the help.
pub const SECTIONS: [&str; 8] =
    ["Files", "Network", "Secrets", "Limits", "Environment", "Process", "Settings", "Output"];

pub static COMMANDS: &[Command] = &[
    Command {
        name: "run",
        usage: "[FLAGS] [--] COMMAND [ARGS…]",
        help: "Run a command in a sandbox",
        doc: "Runs COMMAND so that it can do only what the settings and flags allow. By default it can read the \
              whole file system, write only to a fresh /tmp, and reach no network. The command starts at the first \
              argument that is not a flag, or after --.",
        takes: &[Scope::Run],
    },
    Command {
        name: "why",
        usage: "[FLAGS] [--] COMMAND [ARGS…]",
        help: "Run a command in a sandbox, and say which files were refused and why",
        doc: "Does the same as kennel run --explain, and also says so when no file was refused. It is slower: kennel looks \
              at every file that COMMAND asks for.",
        takes: &[Scope::Run],
    },
    Command {
        name: "plan",
        usage: "[FLAGS] [--] COMMAND [ARGS…]",
        help: "Show what `run` would do, without doing it",
        doc: "Prints in some ten lines what the command could write, read, reach and use with the same flags of `kennel run`, and \
              which rules say so. With --steps, prints in order the steps that `kennel run` would take, and the rule behind each.",
        takes: &[Scope::Run, Scope::Plan, Scope::Json],
    },
    Command {
        name: "enable",
        usage: "[--yes] [NAME…]",
        help: "Have your shells run a program in its profile whenever you type its name",
        doc: "Writes, for each NAME, a small script of that name to kennel/shims below $XDG_CONFIG_HOME or ~/.config, and a \
              line that puts this folder first in PATH to the start-up file of your shell (bash, zsh, fish). Both are shown \
              first. NAME is a profile that has a program, such as claude or codex, one of your own, or srt or \
              codex-linux-sandbox, whose place kennel takes. An absolute path goes past the script, and so does kennel \
              bypass. Without NAME, lists what is enabled.",
        takes: &[Scope::Yes],
    },
    Command {
        name: "disable",
        usage: "[NAME…]",
        help: "Undo `enable`, for some names or for all",
        doc: "Removes the scripts of these names, or all of them. With the last one goes the line in the start-up files, \
              which are left as they were.",
        takes: &[],
    },
    Command {
        name: "bypass",
        usage: "NAME [ARGS…]",
        help: "Run a program that is enabled without a sandbox",
        doc: "Runs the program that PATH finds behind kennel's scripts, with no sandbox and nothing else of kennel's.",
        takes: &[],
    },
    Command {
        name: "shim",
        usage: "NAME [ARGS…]",
        help: "Run a program in its profile; what the scripts of `enable` call",
        doc: "Does the same as kennel run --profile NAME -- NAME, or as kennel srt. Inside a sandbox of kennel's it runs the \
              program itself.",
        takes: &[],
    },
    Command {
        name: "trust",
        usage: "[--yes|--remove|--list] [PATH]",
        help: "Accept a project's kennel.toml, as it is now",
        doc: "Shows the settings files that are found for a command that starts here (or in the folder PATH, or the file PATH), \
              says which of their settings would otherwise not be applied, and asks. From then on such a file counts as if \
              --settings named it, until something in it changes. What is trusted is noted in kennel/trusted below \
              $XDG_CONFIG_HOME or ~/.config, which no sandbox can write.",
        takes: &[Scope::Trust, Scope::Yes],
    },
    Command {
        name: "answers",
        usage: "[--json] [remove [HOST[:PORT]…] [--all]]",
        help: "List what you answered for good when asked, or remove it",
        doc: "Lists the answers `here` and `always` to questions of --ask, each with the workspace that it is for: the repository \
              around the folder that the command started in, or that folder. `remove` removes those about HOST. They are noted in kennel/answers below \
              $XDG_CONFIG_HOME or ~/.config, which no sandbox can write.",
        takes: &[Scope::Json, Scope::All],
    },
    Command {
        name: "srt",
        usage: "[-d] [-s FILE] [-c TEXT] [--control-fd N] [--] COMMAND [ARGUMENT]…",
        help: "Act like srt: accept its command line and its settings",
        doc: "Accepts the command line and the settings of Anthropic's sandbox runtime. kennel also does this when \
              it is called by the name srt (a link is enough). docs/compat.md lists the differences.",
        takes: &[],
    },
    Command {
        name: "codex-linux-sandbox",
        usage: "--sandbox-policy-cwd DIR POLICY [--] COMMAND [ARGUMENT]…",
        help: "Act like Codex's sandbox helper: accept its command line and policies",
        doc: "Accepts the command line of every release line of codex-linux-sandbox. kennel also does this when it \
              is called by that name (a link is enough). docs/compat.md lists the differences.",
        takes: &[],
    },
    Command {
        name: "doctor",
        usage: "[--json]",
        help: "Check what this host can enforce, and how to fix the rest",
        doc: "Checks for everything that a sandbox needs from the kernel and the system. Fails if something is \
              missing without which `kennel run` would refuse to start.",
        takes: &[Scope::Json],
    },
    Command {
        name: "profiles",
        usage: "[--json] [NAME]",
        help: "List the profiles, or print one",
        doc: "Lists the profiles that --profile accepts, and where each one comes from: built in, or a file of your own \
              in kennel/profiles below $XDG_CONFIG_HOME or ~/.config. With NAME, prints that profile as TOML, to be \
              copied and changed.",
        takes: &[Scope::Json],
    },
    Command {
        name: "registries",
        usage: "[--json]",
        help: "List the registries and their hosts",
        doc: "Lists the registries that --allow-registry accepts: who downloads from each, its hosts, which of them take uploads \
              too, and those that your own settings name instead.",
        takes: &[Scope::Json],
    },
    Command {
        name: "caches",
        usage: "[--json] [--table] [clear [PROJECT] [--all]]",
        help: "List what sandboxes added to package caches, or remove it",
        doc: "Lists the layers that sandboxes with --caches keep for each project, by size. `clear` removes those of the project \
              around PROJECT, a path, or around the working directory. Layers that no run used for 30 days go away by \
              themselves. A layer that a run holds is left.",
        takes: &[Scope::Json, Scope::Caches, Scope::All],
    },
    Command {
        name: "secrets",
        usage: "[--json]",
        help: "List what variables that look like secrets look like, and which of yours do",
        doc: "Lists the names and the forms of values by which kennel takes a variable for a secret, with those that your own \
              settings add, and the names of your variables that it would keep outside.",
        takes: &[Scope::Json],
    },
    Command {
        name: "schema",
        usage: "",
        help: "Print the JSON Schema of the settings",
        doc: "Prints the JSON Schema (draft 2020-12) of kennel's settings, for editors and validators.",
        takes: &[],
    },
    Command {
        name: "completions",
        usage: "bash|zsh|fish",
        help: "Print shell completions",
        doc: "Prints a script that makes the shell complete kennel's commands, flags and their values.",
        takes: &[],
    },
    Command {
        name: "man",
        usage: "",
        help: "Print the manual page",
        doc: "Prints the manual page as roff: kennel man | man -l -",
        takes: &[],
    },
    Command {
        name: "help",
        usage: "[COMMAND]",
        help: "Show help for kennel or for one command",
        doc: "Shows the same text as --help.",
        takes: &[],
    },
    Command { name: "version", usage: "", help: "Print the version", doc: "Prints the version.", takes: &[] },
];

const RUN: Flag = Flag {
    name: "",
    short: None,
    value: None,
    attached: None,
    effect: Effect::Help,
    scope: Scope::Run,
    section: "",
    repeatable: false,
    common: false,
    help: "",
    doc: "",
};

pub static FLAGS: &[Flag] = &[
    Flag {
        name: "allow-write",
        value: Some("PATH"),
        effect: says("files.allow_write"),
        section: "Files",
        repeatable: true,
        common: true,
        help: "Let the command write PATH and everything below it",
        doc: "PATH is a path or a glob (* ? [a-z] within a name, ** for any number of folders); a leading ~ is the \
              home folder. A path that does not exist is an error.",
        ..RUN
    },
    Flag {
        name: "deny-write",
        value: Some("PATH"),
        effect: says("files.deny_write"),
        section: "Files",
        repeatable: true,
        common: true,
        help: "Keep PATH read-only inside a writable folder",
        doc: "The most specific rule for a path wins; at a tie, the deny rule wins.",
        ..RUN
    },
    Flag {
        name: "git",
        value: Some("LEVEL"),
        effect: says("files.git"),
        section: "Files",
        help: "Protect the files that git on the host would run: metadata-read-only, \
               hooks-and-config-read-only, hooks-read-only or off",
        doc: "With hooks-and-config-read-only, hooks, configuration, attributes and the files they name are \
              read-only, and commits work. hooks-read-only leaves the configuration writable. With \
              metadata-read-only nothing in .git can be written or created. This covers every repository in a \
              writable folder, including submodules and worktrees. A path that --allow-write names itself stays \
              writable.",
        ..RUN
    },
    Flag {
        name: "on-replace",
        value: Some("ACTION"),
        effect: says("files.on_replace"),
        section: "Files",
        help: "Choose what happens when the host replaces a denied path during the run: mend (protect the new file) \
               or end",
        doc: "A mount protects a file, but a rule is about a name. When a program outside replaces the file by \
              rename, as editors and git do, the kernel removes the mount. With mend, kennel protects the new file \
              within about a millisecond and reports that it was exposed; with end, it also kills the sandbox and \
              exits with 123.",
        ..RUN
    },
    Flag {
        name: "protect-dotfiles",
        effect: says_word("files.protect_dotfiles", "true"),
        section: "Files",
        help: "Keep names that shells, editors and agents obey read-only in writable folders",
        doc: "Programs outside run the contents of such files as soon as a folder is opened or a shell starts. The \
              agent profile sets this.",
        ..RUN
    },
    Flag {
        name: "allow-dotfiles",
        effect: says_word("files.protect_dotfiles", "false"),
        section: "Files",
        help: "Let the command write such files even if a profile protects them",
        ..RUN
    },
    Flag {
        name: "refuse-home",
        effect: says_word("files.refuse_home", "true"),
        section: "Files",
        help: "Refuse to start if a home folder, or a folder above one, is writable",
        doc: "The agent profile sets this.",
        ..RUN
    },
    Flag {
        name: "allow-home",
        effect: says_word("files.refuse_home", "false"),
        section: "Files",
        help: "Start even if a home folder is writable",
        ..RUN
    },
    Flag {
        name: "precedence",
        value: Some("RULE"),
        effect: says("files.precedence"),
        section: "Files",
        help: "Choose which rule for a path wins: specific or deny-write",
        doc: "With specific, the most specific rule wins. With deny-write, a --deny-write applies to everything \
              below it, even where a more specific rule allows writing, and a path that both --deny-read and \
              --allow-read name can be read.",
        ..RUN
    },
    Flag {
        name: "deny-read",
        value: Some("PATH"),
        effect: says("files.deny_read"),
        section: "Files",
        repeatable: true,
        common: true,
        help: "Hide PATH and everything below it",
        doc: "Rules about writing do not override this; only a more specific --allow-read does.",
        ..RUN
    },
    Flag {
        name: "allow-read",
        value: Some("PATH"),
        effect: says("files.allow_read"),
        section: "Files",
        repeatable: true,
        common: true,
        help: "Let the command read PATH inside a hidden folder",
        doc: "With --reads listed, use this flag to list the readable paths; a path that does not exist is then an \
              error. Otherwise it is skipped.",
        ..RUN
    },
    Flag {
        name: "reads",
        value: Some("open|listed"),
        effect: says("files.reads"),
        section: "Files",
        help: "Reads not covered by a rule: allow all, or only listed paths",
        doc: "With listed, only the paths that --allow-read, --allow-write and --mount name exist inside, plus a \
              minimal system set (/usr, /bin, /lib*, parts of /etc).",
        ..RUN
    },
    Flag {
        name: "no-system",
        effect: says_word("files.system", "false"),
        section: "Files",
        help: "With --reads listed, leave out the minimal system set",
        ..RUN
    },
    Flag {
        name: "mount",
        value: Some("SRC:DST[:rw]"),
        effect: says("files.mounts"),
        section: "Files",
        repeatable: true,
        help: "Show the host's SRC at DST inside, read-only unless :rw is given",
        doc: "To mount a path that contains a colon, use a settings file.",
        ..RUN
    },
    Flag {
        name: "tmpfs",
        value: Some("DST[:SIZE]"),
        effect: says("files.tmpfs"),
        section: "Files",
        repeatable: true,
        help: "Put a fresh, writable, in-memory folder at DST",
        ..RUN
    },
    Flag {
        name: "rootfs",
        value: Some("DIR"),
        effect: says("files.rootfs"),
        section: "Files",
        help: "Use DIR as the root inside, and show only listed paths of the host",
        doc: "Writes go to a layer in memory, which is thrown away at the end. Paths in allow rules are the host's and \
              show at the same path; deny rules are about paths as the command sees them.",
        ..RUN
    },
    Flag {
        name: "rootfs-write",
        value: Some("layer|none"),
        effect: says("files.rootfs_write"),
        section: "Files",
        help: "With --rootfs: write to a temporary layer, or not at all",
        ..RUN
    },
    Flag {
        name: "host-tmp",
        effect: says_word("files.tmp", "host"),
        section: "Files",
        help: "Use the host's /tmp, under the usual file rules, not a fresh one",
        ..RUN
    },
    Flag {
        name: "caches",
        effect: says_word("files.caches", "true"),
        section: "Files",
        help: "Give package managers and compilers writable caches, kept for each project",
        doc: "The host's cache shows below and is never written; what the command adds goes to a layer in \
              ~/.local/state/kennel/caches that only sandboxes of the same project see. Profile build and the agents' set this; \
              `kennel caches` lists the layers, `kennel caches --table` the tools.",
        ..RUN
    },
    Flag {
        name: "no-caches",
        effect: says_word("files.caches", "false"),
        section: "Files",
        help: "Leave the caches of package managers and compilers as the file rules say",
        ..RUN
    },
    Flag {
        name: "home",
        value: Some("private|host"),
        effect: says("files.home"),
        section: "Files",
        help: "Use a fresh home that shows what toolchains need, or the host's",
        doc: "A private home is in memory and goes away with the sandbox. What --allow-read and --allow-write name in the host's \
              shows in it, and what docs/profiles.md lists; `kennel plan` tells why each of these is there. Other users' homes \
              are closed.",
        ..RUN
    },
    Flag {
        name: "host-run",
        effect: says_word("files.host_run", "true"),
        section: "Files",
        help: "Show the host's /run, where most of its daemons listen",
        ..RUN
    },
    Flag {
        name: "device",
        value: Some("PATH"),
        effect: says("files.devices"),
        section: "Files",
        repeatable: true,
        help: "Add a device from the host's /dev, such as /dev/kvm",
        ..RUN
    },
    Flag {
        name: "gpu",
        value: Some("all|NUMBER|MAKER[:NUMBER]"),
        effect: says("files.gpus"),
        section: "Files",
        repeatable: true,
        help: "Let the command use graphics cards, of NVIDIA, AMD or Intel",
        doc: "The devices of these cards, their drivers' libraries where reads are listed or the root is another, and nothing of other \
              cards. NUMBER is as nvidia-smi counts: by place on the bus. MAKER is nvidia, amd or intel. Several are separated by \
              commas.",
        ..RUN
    },
    Flag {
        name: "net",
        value: Some("none|allow-list|public|host"),
        effect: says("network.mode"),
        section: "Network",
        help: "Choose no network, only allowed hosts, the internet, or the host's network",
        doc: "The default is none, or allow-list if --allow-domain or --allow-registry is given. With public every \
              public address can be reached by any name, and never this host, its networks, private addresses or a cloud's \
              metadata; --allow-domain and --deny-domain are exceptions.",
        ..RUN
    },
    Flag {
        name: "allow-domain",
        value: Some("HOST"),
        effect: says("network.allow"),
        section: "Network",
        repeatable: true,
        common: true,
        help: "Let the command reach HOST",
        doc: "HOST is a name, *.suffix (which does not include the suffix itself), an address or a network such as \
              10.0.0.0/8; add :port to allow only that port. On a connection to a name, the gate carries TLS and \
              HTTP for that name, and a few other protocols on their own ports. tcp://HOST:PORT carries any bytes; \
              postgres://HOST:PORT and similar carry that protocol on another port. 'GET docs.rs/*' allows only such \
              requests: methods (GET,HEAD, or * for all), a blank, the host, and a path in which * is one name, at the \
              end any number of them; kennel then reads the requests (see --terminate).",
        ..RUN
    },
    Flag {
        name: "allow-registry",
        value: Some("NAME[,NAME…]"),
        effect: says("network.allow_registries"),
        section: "Network",
        repeatable: true,
        help: "Let the command download from a registry, such as npm,pypi",
        doc: "Allows the hosts that downloads from it need, and no host that only takes uploads, with those that your own \
              settings of its tools name instead (registry= in ~/.npmrc). `packages` means all package registries; \
              `kennel registries` lists them and their hosts.",
        ..RUN
    },
    Flag {
        name: "deny-domain",
        value: Some("HOST"),
        effect: says("network.deny"),
        section: "Network",
        repeatable: true,
        help: "Refuse HOST even if it is allowed; * means every host",
        ..RUN
    },
    Flag {
        name: "ask",
        effect: says_word("network.ask", "true"),
        section: "Network",
        common: true,
        help: "Ask on the terminal about hosts that no rule covers",
        doc: "yes holds for this run, once for one connection, here for all runs in this workspace, always for all runs; \
              `kennel answers` lists the last two. A host is refused if nobody answers within a minute, or if there is no \
              terminal. Implies --net allow-list.",
        ..RUN
    },
    Flag {
        name: "ask-timeout",
        value: Some("TIME"),
        effect: says("network.ask_timeout"),
        section: "Network",
        help: "Refuse the host if --ask gets no answer within TIME",
        ..RUN
    },
    Flag {
        name: "allow-sni-mismatch",
        effect: says_word("network.allow_sni_mismatch", "true"),
        section: "Network",
        help: "Let TLS and HTTP name a different host than the one connected to",
        doc: "Many hosts share one address, and a server goes by the name it is given: an allowed host may then lead \
              to others (domain fronting).",
        ..RUN
    },
    Flag {
        name: "allow-ech",
        effect: says_word("network.allow_ech", "true"),
        section: "Network",
        help: "Let TLS clients encrypt the server's name, as browsers do",
        doc: "With an encrypted ClientHello (ECH) kennel cannot compare the name with the host connected to. \
              Chromium and Firefox always send one, even if the server does not support it.",
        ..RUN
    },
    Flag {
        name: "publish",
        value: Some("[HOST:]INSIDE"),
        effect: says("network.publish"),
        section: "Network",
        repeatable: true,
        common: true,
        help: "Publish the sandbox's port INSIDE as port HOST on the host's loopback",
        doc: "Every user of the host can connect to it at 127.0.0.1 and ::1; other machines cannot. HOST is the same \
              as INSIDE by default; 0 means any free port, which kennel then prints.",
        ..RUN
    },
    Flag {
        name: "parent-proxy",
        value: Some("URL"),
        effect: says("network.parent_proxy"),
        section: "Network",
        help: "Connect through this HTTP proxy, instead of HTTP_PROXY and HTTPS_PROXY",
        doc: "Use none to ignore those variables. NO_PROXY, or network.no_proxy, names the hosts that are reached \
              without the proxy. Put a password in a settings file or in the variables: other users can see \
              arguments.",
        ..RUN
    },
    Flag {
        name: "no-proxy",
        value: Some("HOSTS"),
        effect: says("network.no_proxy"),
        section: "Network",
        help: "Reach HOSTS without that proxy, instead of the hosts in NO_PROXY",
        doc: "A comma-separated list of names (each includes the names below it), addresses and networks, each with \
              or without :port.",
        ..RUN
    },
    Flag {
        name: "http-proxy-port",
        value: Some("PORT"),
        effect: says("network.http_proxy_port"),
        section: "Network",
        help: "Let the HTTP proxy at this port of the host's loopback decide",
        doc: "It takes kennel's place for programs that use the proxy variables; direct connections still follow \
              kennel's rules.",
        ..RUN
    },
    Flag {
        name: "socks-proxy-port",
        value: Some("PORT"),
        effect: says("network.socks_proxy_port"),
        section: "Network",
        help: "Do the same with a SOCKS proxy",
        ..RUN
    },
    Flag {
        name: "egress",
        value: Some("[HOST=]SIZE"),
        effect: says_part("network.budget", "egress"),
        section: "Network",
        repeatable: true,
        help: "Let at most SIZE bytes leave, in total or to HOST",
        doc: "Counted are the bytes that kennel sends for the sandbox, with TLS and look-ups. At the limit connections end, and \
              new ones are refused. All that a HOST such as *.example.com matches shares its limit; the total counts as \
              well. What kennel cannot count, such as --net host, is an error beside a limit. --report has the counts.",
        ..RUN
    },
    Flag {
        name: "ingress",
        value: Some("[HOST=]SIZE"),
        effect: says_part("network.budget", "ingress"),
        section: "Network",
        repeatable: true,
        help: "Let at most SIZE bytes come in, in total or from HOST",
        ..RUN
    },
    Flag {
        name: "egress-rate",
        value: Some("[HOST=]SIZE/s"),
        effect: says_part("network.budget", "egress_rate"),
        section: "Network",
        repeatable: true,
        help: "Let at most SIZE bytes leave in a second; the rest waits",
        ..RUN
    },
    Flag {
        name: "ingress-rate",
        value: Some("[HOST=]SIZE/s"),
        effect: says_part("network.budget", "ingress_rate"),
        section: "Network",
        repeatable: true,
        help: "Let at most SIZE bytes come in in a second; the rest waits",
        ..RUN
    },
    Flag {
        name: "control-fd",
        value: Some("N"),
        effect: Effect::ControlFd,
        section: "Network",
        help: "Read new lists of hosts from descriptor N while the command runs",
        doc: "Each line is a complete JSON settings object; its network.allow and network.deny replace the old lists \
              from the next connection on. An invalid line is reported and changes nothing. The command does not \
              inherit the descriptor. Requires an allow list: use --net allow-list if there is nothing to allow yet.",
        ..RUN
    },
    Flag {
        name: "unix-sockets",
        value: Some("none|listed|all"),
        effect: says("network.unix_sockets"),
        section: "Network",
        help: "Choose whether the command can create unix sockets",
        doc: "The host's daemons (Docker, D-Bus, ssh-agent) listen on unix sockets, and a read-only mount does not \
              stop a program from connecting to them. The default is none, or listed if --allow-unix-socket is \
              given.",
        ..RUN
    },
    Flag {
        name: "allow-unix-socket",
        value: Some("PATH"),
        effect: says("network.allow_unix_sockets"),
        section: "Network",
        repeatable: true,
        help: "Let the command connect to the host's unix socket PATH",
        ..RUN
    },
    Flag {
        name: "terminate",
        value: Some("HOST"),
        effect: says("network.terminate"),
        section: "Network",
        repeatable: true,
        help: "End TLS connections to HOST at the gate, which makes its own to the server",
        doc: "The gate can then read them. The hosts of secrets and of rules with a method are among them without being \
              named; * means every allowed host. Clients inside trust a certificate that exists only in this sandbox, by \
              variables such as SSL_CERT_FILE.",
        ..RUN
    },
    Flag {
        name: "no-terminate",
        value: Some("HOST"),
        effect: says("network.no_terminate"),
        section: "Network",
        repeatable: true,
        help: "Never end TLS connections to HOST at the gate",
        doc: "For clients that pin certificates or use their own.",
        ..RUN
    },
    Flag {
        name: "extra-ca",
        value: Some("FILE"),
        effect: says("network.extra_ca"),
        section: "Network",
        repeatable: true,
        help: "Trust the certificates in FILE for servers, where TLS ends at the gate",
        ..RUN
    },
    Flag {
        name: "system-bundles",
        effect: says_word("network.system_bundles", "true"),
        section: "Network",
        help: "Show the sandbox's certificate in the system's bundles inside too",
        doc: "For programs that read no variable, such as /etc/ssl/certs/ca-certificates.crt for libcurl and wget.",
        ..RUN
    },
    Flag {
        name: "secret",
        value: Some("NAME[=FROM][@HOST,…]"),
        effect: says("secrets"),
        section: "Secrets",
        repeatable: true,
        common: true,
        help: "Let the command use a secret that it does not hold",
        doc: "The variable NAME inside holds a stand-in, and the gate puts the real value into requests to HOST. FROM says \
              where the real value comes from: env:NAME (the default), file:PATH, fd:N, command:PROGRAM or \
              keyring:SERVICE/ACCOUNT. kennel knows the hosts of GITHUB_TOKEN, OPENAI_API_KEY and similar names. The \
              hosts can be reached. Implies --net allow-list.",
        ..RUN
    },
    Flag {
        name: "gateway",
        value: Some("NAME,…"),
        effect: says("gateway.NAME"),
        section: "Secrets",
        repeatable: true,
        help: "Lead clients of models to a gateway that puts the real key in, such as anthropic,openai",
        doc: "Variables such as ANTHROPIC_BASE_URL name an address that exists only inside, and ANTHROPIC_API_KEY holds a \
              token that is worth nothing elsewhere. The real key comes from your own variable of that name. Known: \
              anthropic, openai, gemini, ollama, openrouter, groq, mistral, deepseek, xai; others in a settings file. \
              No other network is needed: without --allow-domain nothing else can be reached.",
        ..RUN
    },
    Flag {
        name: "gateway-budget",
        value: Some("LIMIT=N,…"),
        effect: says("gateway.budget"),
        section: "Secrets",
        help: "Limit what the gateway may use: requests, tokens, input_tokens, output_tokens, bytes or cost",
        doc: "Such as requests=100,tokens=1000000. Then requests fail with the provider's own error for a limit, which \
              clients do not retry.",
        ..RUN
    },
    Flag {
        name: "gateway-price",
        value: Some("MODEL=IN/OUT"),
        effect: says("gateway.prices"),
        section: "Secrets",
        repeatable: true,
        help: "Set what a million tokens of MODEL cost, in and out, such as 'claude-*=3/15'",
        doc: "In whatever unit; a third and a fourth number are for tokens read from and written to the provider's cache.",
        ..RUN
    },
    Flag {
        name: "gateway-log",
        value: Some("FILE"),
        effect: says("gateway.log"),
        section: "Secrets",
        help: "Log requests to models to FILE, one line of JSON each, without their contents",
        ..RUN
    },
    Flag {
        name: "gateway-log-contents",
        effect: says_word("gateway.log_contents", "true"),
        section: "Secrets",
        help: "Log their contents too",
        ..RUN
    },
    Flag {
        name: "memory",
        value: Some("SIZE"),
        effect: says("limits.memory"),
        section: "Limits",
        common: true,
        help: "Limit the memory of everything inside together, such as 512M",
        doc: "A SIZE is in bytes, or has a suffix K, M, G or T (powers of 1024). Use unlimited to remove a limit \
              that a profile or a settings file sets.",
        ..RUN
    },
    Flag {
        name: "swap",
        value: Some("SIZE"),
        effect: says("limits.swap"),
        section: "Limits",
        help: "Allow this much swap on top of --memory; none by default",
        ..RUN
    },
    Flag {
        name: "cpus",
        value: Some("N"),
        effect: says("limits.cpus"),
        section: "Limits",
        help: "Limit CPU time to that of N CPUs; 1.5 is one and a half",
        ..RUN
    },
    Flag {
        name: "timeout",
        value: Some("TIME"),
        effect: says("limits.timeout"),
        section: "Limits",
        common: true,
        help: "Kill everything inside after TIME, such as 30s or 1m30s",
        doc: "A TIME is in seconds, or has a suffix ms, s, m, h or d. kennel then exits with 124.",
        ..RUN
    },
    Flag {
        name: "cpu-time",
        value: Some("TIME"),
        effect: says("limits.cpu_time"),
        section: "Limits",
        help: "Limit the CPU time of each process",
        ..RUN
    },
    Flag {
        name: "pids",
        value: Some("N"),
        effect: says("limits.pids"),
        section: "Limits",
        help: "Limit the number of processes and threads at once",
        ..RUN
    },
    Flag {
        name: "open-files",
        value: Some("N"),
        effect: says("limits.open_files"),
        section: "Limits",
        help: "Limit the open descriptors of each process",
        ..RUN
    },
    Flag {
        name: "file-size",
        value: Some("SIZE"),
        effect: says("limits.file_size"),
        section: "Limits",
        help: "Limit the size of each file that is written",
        ..RUN
    },
    Flag {
        name: "max-output",
        value: Some("SIZE"),
        effect: says("limits.output"),
        section: "Limits",
        help: "Limit the captured output of each stream",
        ..RUN
    },
    Flag {
        name: "tmp-size",
        value: Some("SIZE"),
        effect: says("limits.tmp_size"),
        section: "Limits",
        help: "Limit the size of the fresh /tmp and /dev/shm together",
        ..RUN
    },
    Flag {
        name: "env",
        value: Some("NAME=VALUE"),
        effect: says("environment.set"),
        section: "Environment",
        repeatable: true,
        help: "Set an environment variable",
        doc: "Everyone on the host can see arguments; --pass-env does not show the value.",
        ..RUN
    },
    Flag {
        name: "pass-env",
        value: Some("NAME"),
        effect: says("environment.pass"),
        section: "Environment",
        repeatable: true,
        common: true,
        help: "Pass a variable on even with --clear-env, or if it looks like a secret",
        ..RUN
    },
    Flag {
        name: "unset-env",
        value: Some("NAME"),
        effect: says("environment.unset"),
        section: "Environment",
        repeatable: true,
        help: "Never pass a variable on",
        ..RUN
    },
    Flag {
        name: "clear-env",
        effect: says_word("environment.clear", "true"),
        section: "Environment",
        help: "Pass on only PATH, HOME, USER, LANG, TERM and the like",
        ..RUN
    },
    Flag {
        name: "env-secrets",
        value: Some("withhold|pass"),
        effect: says("environment.secrets"),
        section: "Environment",
        help: "Keep variables that look like secrets outside, or pass them on",
        doc: "With an allow list of hosts and in profile agent they stay outside by default, but for those that --pass-env \
              names. kennel secrets lists what they look like.",
        ..RUN
    },
    Flag {
        name: "secret-name",
        value: Some("NAME"),
        effect: says("environment.secret_names"),
        section: "Environment",
        repeatable: true,
        help: "Take a variable for a secret; * stands for anything",
        ..RUN
    },
    Flag {
        name: "workdir",
        short: Some('C'),
        value: Some("DIR"),
        effect: says("process.workdir"),
        section: "Process",
        help: "Start the command in DIR",
        doc: "Relative paths in other flags are relative to the directory kennel was called in.",
        ..RUN
    },
    Flag {
        name: "user",
        value: Some("self|root"),
        effect: says("process.user"),
        section: "Process",
        help: "Run the command inside as the caller or as root",
        doc: "root is user 0 of the sandbox's own user namespace: it is the caller outside, and has no capabilities.",
        ..RUN
    },
    Flag {
        name: "users",
        value: Some("NAME,…"),
        effect: says("process.users"),
        section: "Process",
        help: "Create several users inside, such as root,builder",
        doc: "Each is NAME, NAME:UID or NAME:UID:GID; root is 0, the others count from 1000. The first that is not root is the \
              caller outside, the others are subordinate ids (/etc/subuid, /etc/subgid). The command starts as the first.",
        ..RUN
    },
    Flag {
        name: "run-as",
        value: Some("NAME"),
        effect: says("process.run_as"),
        section: "Process",
        help: "Start the command as this one of --users",
        ..RUN
    },
    Flag {
        name: "hostname",
        value: Some("NAME"),
        effect: says("process.hostname"),
        section: "Process",
        help: "Set the host name inside",
        ..RUN
    },
    Flag {
        name: "seccomp",
        value: Some("PROFILE"),
        effect: says("process.seccomp"),
        section: "Process",
        help: "Restrict system calls: strict, default, permissive or none",
        ..RUN
    },
    Flag {
        name: "nested",
        effect: says_word("process.nested", "true"),
        section: "Process",
        help: "Let the command create sandboxes of its own: kennel, bwrap, a browser's",
        doc: "The command can create user, mount and other namespaces and mount in them. The sandbox's rules hold there: the \
              kernel locks its mounts, and the guard and the network gate work as before. Landlock, which would forbid all \
              mounting, does not protect files then, and more of the kernel can be reached. Not as root.",
        ..RUN
    },
    Flag {
        name: "keep-fd",
        value: Some("N"),
        effect: Effect::KeepFd,
        section: "Process",
        repeatable: true,
        help: "Keep descriptor N open; all others above 2 are closed",
        ..RUN
    },
    Flag {
        name: "profile",
        value: Some("NAME"),
        effect: says("profile"),
        section: "Settings",
        common: true,
        repeatable: true,
        help: "Start from a profile: default, judge, agent, build, data, browser, claude, codex, gemini, opencode, \
               aider, goose, amp, or one of your own",
        doc: "kennel profiles lists them. A profile of your own is a file kennel/profiles/NAME.toml below \
              $XDG_CONFIG_HOME or ~/.config; it comes before a built-in one of the same name. Several \
              add up; where they contradict each other, kennel says so and does not start.",
        ..RUN
    },
    Flag {
        name: "only",
        value: Some("LIST"),
        effect: says("only"),
        section: "Settings",
        repeatable: true,
        help: "Start a list such as files.allow_write anew: only what flags say in it holds",
        doc: "What profiles and settings files say in this list does not count. LIST is its name in a settings file; \
              several are separated by commas. Other lists and choices stay as they are: --profile agent --only \
              files.allow_write --allow-write src lets an agent write src and nothing else of the project.",
        ..RUN
    },
    Flag {
        name: "settings",
        short: Some('s'),
        value: Some("FILE"),
        effect: Effect::SettingsFile,
        section: "Settings",
        repeatable: true,
        help: "Read settings from FILE, in TOML or JSON",
        doc: "Later files override earlier ones, and flags override files. kennel also reads a kennel.toml or \
              kennel.json in the directory the command starts in and above it, up to the repository's root, but these can \
              only tighten, unless kennel trust has accepted them or they are named here.",
        ..RUN
    },
    Flag {
        name: "no-settings",
        effect: Effect::NoSettings,
        section: "Settings",
        help: "Ignore your own settings file and profiles, and files that are found",
        ..RUN
    },
    Flag {
        name: "best-effort",
        effect: says_word("best_effort", "true"),
        section: "Settings",
        help: "Run without protections this host cannot enforce, and list them",
        ..RUN
    },
    Flag {
        name: "report",
        value: Some("FILE"),
        effect: Effect::Report,
        section: "Output",
        help: "Write the outcome to FILE as JSON",
        ..RUN
    },
    Flag {
        name: "stats",
        attached: Some("live"),
        effect: Effect::Stats,
        section: "Output",
        help: "Print resource usage to stderr at exit; =live also updates it while running",
        doc: "It shows wall time, CPU time, peak memory, the most processes at once, and how many processes were \
              killed because memory ran out. Without a limit, memory and processes are counted if that requires no \
              more than a cgroup of the sandbox's own. With =live, and if stderr is a terminal, its last row shows \
              the figures while the command runs.",
        ..RUN
    },
    Flag {
        name: "explain",
        effect: Effect::Explain,
        section: "Output",
        common: true,
        help: "Say at exit which files the command could not use, why, and what would allow it",
        doc: "kennel looks at every call that uses a path, so the command is slower. Without it, kennel tells which files could \
              not be written, where a rule has it look at these calls anyway.",
        ..RUN
    },
    Flag {
        name: "quiet",
        short: Some('q'),
        effect: Effect::Quiet,
        section: "Output",
        help: "Print only errors",
        ..RUN
    },
    Flag {
        name: "verbose",
        short: Some('v'),
        effect: Effect::Verbose,
        section: "Output",
        help: "Print each set-up step and the rule behind it",
        ..RUN
    },
    Flag {
        name: "steps",
        effect: Effect::Steps,
        scope: Scope::Plan,
        section: "Output",
        help: "Show each step, with its rule",
        ..RUN
    },
    Flag {
        name: "json",
        effect: Effect::Json,
        scope: Scope::Json,
        section: "Output",
        help: "Print JSON",
        ..RUN
    },
    Flag {
        name: "table",
        effect: Effect::Table,
        scope: Scope::Caches,
        section: "Output",
        help: "Print which tools' caches have layers, as TOML",
        ..RUN
    },
    Flag {
        name: "all",
        effect: Effect::All,
        scope: Scope::All,
        section: "Output",
        help: "With clear or remove: remove all of them",
        ..RUN
    },
    Flag {
        name: "list",
        effect: Effect::Trusted(Trust::List),
        scope: Scope::Trust,
        section: "Output",
        help: "List the settings files that you trust, and whether they have changed since",
        ..RUN
    },
    Flag {
        name: "remove",
        effect: Effect::Trusted(Trust::Remove),
        scope: Scope::Trust,
        section: "Output",
        help: "Trust these settings files no longer",
        ..RUN
    },
    Flag {
        name: "yes",
        short: Some('y'),
        effect: Effect::Yes,
        scope: Scope::Yes,
        section: "Output",
        help: "Agree to what is shown, without a question",
        ..RUN
    },
    Flag {
        name: "help",
        short: Some('h'),
        effect: Effect::Help,
        scope: Scope::Help,
        section: "Output",
        help: "Show this help",
        ..RUN
    },
    Flag { name: "help-all", effect: Effect::HelpAll, section: "Output", help: "Show every flag", ..RUN },
    Flag {
        name: "version",
        short: Some('V'),
        effect: Effect::Version,
        scope: Scope::Top,
        section: "Output",
        help: "Print the version",
        ..RUN
    },
];
