//! The SDKs inside, unmodified, with a stand-in in the place of the key: TLS ends at the gate, which puts the real key in.

use crate::secrets::clients::{
    ANTHROPIC, ANTHROPIC_NODE, ANTHROPIC_NODE_PREVIOUS, ANTHROPIC_PREVIOUS, GEMINI, OPENAI, OPENAI_NODE, Sdk,
};
use crate::secrets::{Setup, upstream};

fn try_swapped(sdk: &Sdk) {
    let Some(upstream) = upstream() else { return };
    if !sdk.is_installed() {
        return;
    }
    let setup = Setup::new(upstream, &[sdk.host]).secret(sdk.key, upstream.key(sdk.provider), &[sdk.host]);
    let model = sdk.model("swapped", "");
    let mut actions = sdk.all(&model);
    let tricks = ["gzip", "echo"].map(|trick| sdk.model("swapped-trick", trick));
    actions.extend(tricks.iter().map(|model| format!("whole:{model}")));
    let words = sdk.words(&setup.home, &actions);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // What the command holds comes first.
    let shown = ["sh", "-c", "printenv \"$0\" >&2; exec \"$@\"", sdk.key];
    let told = setup.run(&[&shown[..], &words].concat()).ok();
    let said = told.lines();
    let round = sdk.actions.len();
    sdk.check_round(upstream, &model, &said[..round]);
    let real = upstream.key(sdk.provider);
    let stand_in = told.ran.stderr.lines().find(|line| line.len() == real.len()).unwrap_or_default();
    assert!(stand_in.starts_with(&real[..4]) && stand_in != real, "a stand-in of the same shape: {told:#?}");
    // A body that upstream compresses unasked is read all the same, or refused; never passed on unread.
    let gzip = &said[round];
    assert!(gzip["text"] == crate::secrets::clients::TEXT || gzip["status"] == 502, "{gzip:#}");
    // What upstream says of the key, it says of the stand-in here.
    let echo = said[round + 1]["text"].as_str().unwrap_or_default();
    assert!(echo.contains(stand_in), "{echo} has {stand_in}");
    upstream.assert_clean("what came in", &told.ran.stdout);
    upstream.assert_clean("the report", &told.text);
    upstream.assert_clean("the messages", &told.ran.stderr);
}

#[test]
fn anthropic_for_python_does_a_round_with_a_stand_in() {
    try_swapped(&ANTHROPIC);
}

#[test]
fn the_previous_anthropic_for_python_does_a_round_with_a_stand_in() {
    try_swapped(&ANTHROPIC_PREVIOUS);
}

#[test]
fn anthropic_for_node_does_a_round_with_a_stand_in() {
    try_swapped(&ANTHROPIC_NODE);
}

#[test]
fn the_previous_anthropic_for_node_does_a_round_with_a_stand_in() {
    try_swapped(&ANTHROPIC_NODE_PREVIOUS);
}

#[test]
fn openai_for_python_does_a_round_with_a_stand_in() {
    try_swapped(&OPENAI);
}

#[test]
fn openai_for_node_does_a_round_with_a_stand_in() {
    try_swapped(&OPENAI_NODE);
}

#[test]
fn gemini_for_python_does_a_round_with_a_stand_in() {
    try_swapped(&GEMINI);
}
