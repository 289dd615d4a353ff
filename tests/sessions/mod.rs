//! Sandboxes that stand before their commands are known: prepared ones, and sessions.

mod commands;
mod lasting;
mod late;
mod walls;

/// Without Landlock (before Linux 5.13) commands of a session are not closed to each other, and a session is an error.
fn builder() -> kennel::SandboxBuilder {
    kennel::Sandbox::builder().best_effort(!kennel_tests::has_landlock())
}

fn session(builder: kennel::SandboxBuilder) -> kennel::Session {
    builder.build().unwrap().session().unwrap()
}

kennel_tests::roles! {
    "low-numbers-caller" => late::low_numbers,
    "reach" => walls::reach,
    "session-owner" => lasting::owner,
    "echo-server" => lasting::echo_server,
    "echo-client" => lasting::echo_client,
    "growth" => lasting::growth,
}
