//! Files and folders in a project from which programs on the host take commands: shells when they start, editors when
//! they open the folder, agents when they are called there.

/// What profile `agent` keeps as it is.
///
/// `.gitmodules` is not among them: git takes no commands from it, and submodules could not be added.
pub const COMMANDS: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".gitconfig",
    ".profile",
    ".ripgreprc",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".idea",
    ".vscode",
    ".mcp.json",
    ".agents",
    ".aider.conf.yml",
    // Aider keeps tags there as pickles, and loading a pickle runs what it says.
    ".aider.tags.cache.v3",
    ".aider.tags.cache.v4",
    ".amp",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/launch.json",
    ".claude/loop.md",
    ".claude/output-styles",
    ".claude/routines",
    ".claude/scheduled_tasks.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/skills",
    ".claude/workflows",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
];

/// What srt keeps as it is, whatever its settings say.
pub const OF_SRT: &[&str] = &[
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".zshrc",
    ".zprofile",
    ".profile",
    ".ripgreprc",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".claude/commands",
    ".claude/agents",
];

/// As many levels of folders are looked through for these names, as srt does.
pub const DEPTH: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_kept_from_what_srt_protects() {
        for name in OF_SRT.iter().filter(|name| **name != ".gitmodules") {
            assert!(COMMANDS.contains(name), "{name}");
        }
    }
}
