//! Sandboxes that stand before their commands are known: prepared ones, and sessions.

mod commands;
mod lasting;
mod late;
mod walls;

kennel_tests::roles! {
    "low-numbers-caller" => late::low_numbers,
    "reach" => walls::reach,
    "session-owner" => lasting::owner,
    "echo-server" => lasting::echo_server,
    "echo-client" => lasting::echo_client,
    "growth" => lasting::growth,
}
