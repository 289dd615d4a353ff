//! Real agents under their profiles, in a real terminal, with a stand-in for their model.
//!
//! Each agent is started as a user would start it, `kennel run --profile NAME -- NAME`, in a terminal that tmux renders.
//! It has to show its first screen; then it is asked to do a round, in which the stand-in has it read a file, run a
//! command, edit a file, write a file outside the project, reach a host that is not allowed, and change what the agent
//! would run or obey on the host. Then it is asked to leave, and its state has to be on the disk. The screens are in the test's output.
//!
//! `cargo xtask test` installs the agents and says where, in `KENNEL_AGENTS`. No real model is ever contacted: the hosts
//! that the profiles allow are denied here, and the report of each run is checked for it.

mod known;
mod model;
mod round;
mod screen;

use kennel_tests::{am_root, skipped};
use known::{AIDER, Agent, CLAUDE, CODEX, GEMINI, GOOSE, OPENCODE};

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn claude_does_a_round_in_a_terminal_and_keeps_its_state() {
    round::in_a_terminal(&CLAUDE);
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn codex_does_a_round_in_a_terminal_and_keeps_its_state() {
    round::in_a_terminal(&CODEX);
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn gemini_does_a_round_in_a_terminal_and_keeps_its_state() {
    as_user(&GEMINI);
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn opencode_does_a_round_in_a_terminal_and_keeps_its_state() {
    as_user(&OPENCODE);
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn aider_does_a_round_in_a_terminal_and_keeps_its_state() {
    as_user(&AIDER);
}

#[test]
#[kennel_claim::claim("handed-back/agent-state-stays-apart")]
fn goose_does_a_round_in_a_terminal_and_keeps_its_state() {
    as_user(&GOOSE);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn claude_on_the_host_obeys_nothing_that_a_hostile_run_in_its_profile_left() {
    round::after_a_hostile_run(&CLAUDE);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn codex_on_the_host_obeys_nothing_that_a_hostile_run_in_its_profile_left() {
    round::after_a_hostile_run(&CODEX);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn gemini_on_the_host_obeys_nothing_that_a_hostile_run_in_its_profile_left() {
    as_user_only(&GEMINI, round::after_a_hostile_run);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn opencode_on_the_host_obeys_nothing_that_a_hostile_run_in_its_profile_left() {
    as_user_only(&OPENCODE, round::after_a_hostile_run);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn aider_on_the_host_obeys_nothing_that_a_hostile_run_in_its_profile_left() {
    as_user_only(&AIDER, round::after_a_hostile_run);
}

#[test]
#[kennel_claim::claim("handed-back/agents-on-the-host-obey-nothing")]
fn goose_on_the_host_obeys_nothing_that_a_hostile_run_in_its_profile_left() {
    as_user_only(&GOOSE, round::after_a_hostile_run);
}

#[test]
fn agents_go_on_with_their_conversations_inside() {
    round::resumes(&CLAUDE);
    round::resumes(&CODEX);
    if am_root() {
        return skipped("the others as root: all are tried as a user");
    }
    [&GEMINI, &OPENCODE, &AIDER, &GOOSE].into_iter().for_each(round::resumes);
}

#[test]
fn claude_whose_settings_turn_its_own_sandbox_on_runs_commands() {
    let on = r#"{"sandbox": {"enabled": true, "failIfUnavailable": true}}"#;
    let allowed = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Edit,Write"];
    let arguments = [&["-p"], allowed.as_slice(), &["--", "Do the round"]].concat();
    round::unattended(&CLAUDE, &[], &arguments, &[(".claude/settings.json", on)], false);
}

#[test]
fn codex_whose_own_sandbox_is_on_by_default_runs_commands() {
    round::unattended(&CODEX, &[], &["exec", "Do the round"], &[], false);
}

#[test]
fn codex_runs_commands_in_its_own_sandbox_where_kennel_allows_nested_ones() {
    if am_root() {
        return skipped("codex in its own sandbox as root: --nested is for ordinary users");
    }
    let flags = ["--nested", "--allow-dotfiles"];
    let arguments = ["exec", "--sandbox", "workspace-write", "Do the round"];
    round::unattended(&CODEX, &flags, &arguments, &[], true);
}

/// Agents are seldom run as root, and a round takes seconds: two of them do one as root as well.
fn as_user(agent: &'static Agent) {
    as_user_only(agent, round::in_a_terminal);
}

fn as_user_only(agent: &'static Agent, does: fn(&'static Agent)) {
    if am_root() {
        skipped(&format!("{} as root: claude and codex are tried as root, all as a user", agent.name));
        return;
    }
    does(agent);
}
