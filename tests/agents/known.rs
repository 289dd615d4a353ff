//! The agents: how each of them is told where its model is and what it may do without asking, what its first screen
//! shows, how one leaves it, and which of its files are its state.
//!
//! Nothing here is about kennel: everything kennel needs is in the agent's profile.

use serde_json::json;

use crate::agents::round::World;

/// An agent.
pub struct Agent {
    /// Its name, and its profile's.
    pub name: &'static str,
    /// The program, below the folder of agents.
    pub program: &'static str,
    /// What it is called with.
    pub arguments: &'static [&'static str],
    /// Its configuration, as a user has it from earlier runs.
    pub configure: fn(&World),
    /// Variables of its own.
    pub environment: fn(&World) -> Vec<(&'static str, String)>,
    /// On its first screen, when it can be asked.
    pub first_screen: &'static str,
    /// Ends of lines that are questions of its, and what is typed then.
    pub answers: &'static [(&'static str, &'static str)],
    /// Whether it has done all that its model said, by a screen with the model's last word.
    pub is_done: fn(&str) -> bool,
    /// What is typed or pressed to leave it.
    pub leave: &'static [&'static str],
    /// With what it does one turn without a terminal, and with what it goes on with the last conversation.
    pub once: &'static [&'static str],
    pub again: &'static [&'static str],
    /// Where a hostile run leaves links, in the agent's home: the agent on the host would write there.
    pub links: &'static [&'static str],
    /// Its state: how paths in its home begin and end.
    pub state: &'static [(&'static str, &'static str)],
    /// What it would run, load or obey on the host, in its home: the model tries to change it.
    pub kept: &'static [&'static str],
}

const KEY: &str = "stand-in-for-a-key-of-twenty";

/// Claude Code.
pub static CLAUDE: Agent = Agent {
    name: "claude",
    program: "node_modules/.bin/claude",
    arguments: &["--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Edit,Write"],
    configure: |world| {
        let end = &KEY[KEY.len() - 20..];
        let state = json!({
            "hasCompletedOnboarding": true,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [end], "rejected": []},
            "projects": {world.work.to_str().expect("a scratch path is UTF-8"): {"hasTrustDialogAccepted": true}},
        });
        // In its own state inside, and in the home outside.
        world.in_home(".local/state/kennel/agents/claude/.claude.json", &state.to_string());
        world.in_home(".claude.json", &state.to_string());
    },
    environment: |world| vec![("ANTHROPIC_BASE_URL", world.base.clone()), ("ANTHROPIC_API_KEY", KEY.into())],
    first_screen: "accept edits on",
    answers: &[],
    is_done: |_| true,
    leave: &["/exit", "press:Enter"],
    once: &[
        "-p",
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        "Bash,Read,Edit,Write",
        "--",
        "Do the round",
    ],
    again: &["-c", "-p", "--allowedTools", "Read", "--", "Do the round"],
    links: &[
        ".claude/history.jsonl",
        ".claude/todos",
        ".claude/projects/planted",
        ".claude/debug",
        ".claude/AGENTS.md",
    ],
    state: &[
        (".local/state/kennel/agents/claude/projects/", ".jsonl"),
        (".local/state/kennel/agents/claude/.claude.json", ""),
    ],
    kept: &[
        ".claude/settings.json",
        ".claude/CLAUDE.md",
        ".claude/hooks/planted.sh",
        ".claude/plugins/planted.json",
        ".claude/shell-snapshots/planted.sh",
        ".claude.json",
    ],
};

/// Codex. Its own sandbox is on by default; kennel turns it off.
pub static CODEX: Agent = Agent {
    name: "codex",
    program: "node_modules/.bin/codex",
    arguments: &["--ask-for-approval", "never"],
    configure: |world| {
        let (base, work) = (&world.base, world.work.display());
        let settings = format!(
            "model = \"gpt-5\"\nmodel_provider = \"stand-in\"\ncheck_for_update_on_startup = false\n\
             [model_providers.stand-in]\nname = \"stand-in\"\nbase_url = \"{base}/v1\"\nwire_api = \"responses\"\n\
             env_key = \"OPENAI_API_KEY\"\n[analytics]\nenabled = false\n\
             [projects.\"{work}\"]\ntrust_level = \"trusted\"\n"
        );
        world.in_home(".codex/config.toml", &settings);
    },
    environment: |_| vec![("OPENAI_API_KEY", KEY.into())],
    first_screen: "Ask Codex to do anything",
    answers: &[],
    is_done: |_| true,
    leave: &["/quit", "press:Enter"],
    once: &["exec", "Do the round"],
    again: &["exec", "resume", "--last", "Do the round"],
    links: &[
        ".codex/history.jsonl",
        ".codex/models_cache.json",
        ".codex/log",
        ".codex/version.json",
        ".codex/AGENTS.md",
    ],
    state: &[
        (".local/state/kennel/agents/codex/sessions/", ".jsonl"),
        (".local/state/kennel/agents/codex/state_", ".sqlite"),
    ],
    kept: &[
        ".codex/config.toml",
        ".codex/AGENTS.md",
        ".codex/hooks.json",
        ".codex/prompts/planted.md",
        ".codex/skills/planted/SKILL.md",
        ".codex/packages/planted",
    ],
};

/// Gemini CLI.
pub static GEMINI: Agent = Agent {
    name: "gemini",
    program: "node_modules/.bin/gemini",
    arguments: &["--yolo"],
    configure: |world| {
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
            "privacy": {"usageStatisticsEnabled": false},
        });
        world.in_home(".gemini/settings.json", &settings.to_string());
    },
    environment: |world| {
        vec![
            ("GOOGLE_GEMINI_BASE_URL", world.base.clone()),
            ("GEMINI_API_KEY", KEY.into()),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true".into()),
        ]
    },
    first_screen: "Type your message",
    answers: &[],
    is_done: |_| true,
    leave: &["/quit", "press:Enter"],
    once: &["--yolo", "-p", "Do the round"],
    again: &["--yolo", "--resume", "latest", "-p", "Do the round"],
    links: &[
        ".gemini/projects.json",
        ".gemini/history/project/.gitignore",
        ".gemini/installation_id",
        ".gemini/tmp/project",
    ],
    state: &[
        (".local/state/kennel/agents/gemini/tmp/", ".jsonl"),
        (".local/state/kennel/agents/gemini/projects.json", ""),
    ],
    kept: &[
        ".gemini/settings.json",
        ".gemini/GEMINI.md",
        ".gemini/extensions/planted.json",
        ".gemini/commands/planted.toml",
    ],
};

/// opencode.
pub static OPENCODE: Agent = Agent {
    name: "opencode",
    program: "node_modules/.bin/opencode",
    arguments: &[],
    configure: |world| {
        let model =
            json!({"name": "stand-in", "tool_call": true, "limit": {"context": 100_000, "output": 10_000}});
        let settings = json!({
            "autoupdate": false,
            "share": "disabled",
            "permission": "allow",
            "model": "stand-in/stand-in",
            "small_model": "stand-in/stand-in",
            "provider": {"stand-in": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "stand-in",
                "options": {"baseURL": format!("{}/v1", world.base), "apiKey": KEY},
                "models": {"stand-in": model},
            }},
        });
        world.in_home(".config/opencode/opencode.json", &settings.to_string());
    },
    environment: |_| vec![("OPENCODE_DISABLE_MODELS_FETCH", "1".into())],
    first_screen: "Ask anything",
    answers: &[],
    is_done: |_| true,
    leave: &["press:C-c"],
    once: &["run", "Do the round"],
    again: &["run", "--continue", "Do the round"],
    links: &[
        ".local/share/opencode/log",
        ".local/state/opencode/model.json",
        ".local/state/opencode/kv.json",
    ],
    state: &[(".local/state/kennel/agents/opencode/share/opencode.db", "")],
    kept: &[
        ".config/opencode/opencode.json",
        ".config/opencode/AGENTS.md",
        ".config/opencode/plugin/planted.js",
        ".local/share/opencode/bin/planted",
    ],
};

/// Aider. It has no tools: the files are named to it, it takes edits and commands from the answer, and asks.
pub static AIDER: Agent = Agent {
    name: "aider",
    program: "aider/bin/aider",
    arguments: &[
        "--model",
        "openai/stand-in",
        "--edit-format",
        "diff",
        "--no-show-model-warnings",
        "--no-show-release-notes",
        "notes.txt",
        "settings.ini",
    ],
    configure: |world| world.in_home(".gitconfig", "[user]\n\tname = A User\n\temail = user@example.com\n"),
    environment: |world| {
        vec![("OPENAI_API_BASE", format!("{}/v1", world.base)), ("OPENAI_API_KEY", KEY.into())]
    },
    first_screen: "diff>",
    answers: &[("[Yes]:", "y")],
    is_done: |screen| screen.lines().last().is_some_and(|line| line.trim() == "diff>"),
    leave: &["/exit", "press:Enter"],
    // And its conversation, in the project.
    once: AIDER_ONCE,
    again: AIDER_AGAIN,
    links: &[".aider/analytics.json", ".aider/caches", ".aider/installs.json"],
    state: &[(".local/state/kennel/agents/aider/", ".json")],
    kept: &[".aider.conf.yml", ".gitconfig", ".bashrc"],
};

const AIDER_ONCE: &[&str] = &[
    "--model",
    "openai/stand-in",
    "--edit-format",
    "diff",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--yes-always",
    "--message",
    "Do the round",
    "notes.txt",
];
const AIDER_AGAIN: &[&str] = &[
    "--model",
    "openai/stand-in",
    "--edit-format",
    "diff",
    "--no-show-model-warnings",
    "--no-show-release-notes",
    "--yes-always",
    "--restore-chat-history",
    "--message",
    "Do the round",
    "notes.txt",
];

/// goose.
pub static GOOSE: Agent = Agent {
    name: "goose",
    program: "goose/goose",
    arguments: &["session", "--with-builtin", "developer"],
    configure: |_| {},
    environment: |world| {
        let mode = [("GOOSE_PROVIDER", "openai"), ("GOOSE_MODEL", "gpt-4o"), ("GOOSE_MODE", "auto")];
        let mut all: Vec<_> = mode.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        all.extend([("OPENAI_HOST", world.base.clone()), ("OPENAI_API_KEY", KEY.into())]);
        all
    },
    first_screen: "goose is ready",
    answers: &[],
    is_done: |_| true,
    leave: &["/exit", "press:Enter"],
    once: &["run", "--with-builtin", "developer", "-t", "Do the round"],
    again: &["run", "--resume", "-t", "Do the round"],
    links: &[
        ".local/state/goose/history.txt",
        ".local/state/goose/logs",
        ".local/share/goose/sessions/sessions.db-wal",
    ],
    state: &[(".local/state/kennel/agents/goose/share/sessions/", "")],
    kept: &[
        ".config/goose/config.yaml",
        ".local/share/goose/recipes/planted.yaml",
        ".local/share/goose/plugins/planted",
    ],
};
