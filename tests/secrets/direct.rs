//! The SDKs against the upstream without kennel, with the real keys: what they do here is what the other tests expect of them
//! inside.

use crate::secrets::clients::{
    ANTHROPIC, ANTHROPIC_NODE, ANTHROPIC_NODE_PREVIOUS, ANTHROPIC_PREVIOUS, GEMINI, OPENAI, OPENAI_NODE, Sdk,
};
use crate::secrets::upstream;

/// A round, then the errors of a provider, then a key that is not the real one.
fn try_outside(sdk: &Sdk) {
    let Some(upstream) = upstream() else { return };
    if !sdk.is_installed() {
        return;
    }
    let model = sdk.model("direct", "");
    let said = sdk.outside(upstream, &sdk.all(&model));
    sdk.check_round(upstream, &model, &said);
    let limited = sdk.model("direct", "limited");
    let broken = sdk.model("direct", "breaks");
    let said = sdk.outside(upstream, &[format!("whole:{limited}"), format!("stream:{broken}")]);
    assert_eq!((&said[0]["error"], &said[0]["status"]), (&sdk.limited.into(), &429.into()), "{said:#?}");
    // Most of them try again, so a gateway that refuses has to say that it is of no use.
    assert!(!upstream.requests(&limited).is_empty());
    assert_eq!(upstream.requests(&broken).len(), 1, "{said:#?}");
    assert_ne!(said[1]["text"], crate::secrets::clients::TEXT, "{said:#?}");
}

#[test]
fn anthropic_for_python_does_a_round_outside() {
    try_outside(&ANTHROPIC);
}

#[test]
fn the_previous_anthropic_for_python_does_a_round_outside() {
    try_outside(&ANTHROPIC_PREVIOUS);
}

#[test]
fn anthropic_for_node_does_a_round_outside() {
    try_outside(&ANTHROPIC_NODE);
}

#[test]
fn the_previous_anthropic_for_node_does_a_round_outside() {
    try_outside(&ANTHROPIC_NODE_PREVIOUS);
}

#[test]
fn openai_for_python_does_a_round_outside() {
    try_outside(&OPENAI);
}

#[test]
fn openai_for_node_does_a_round_outside() {
    try_outside(&OPENAI_NODE);
}

#[test]
fn gemini_for_python_does_a_round_outside() {
    try_outside(&GEMINI);
}
