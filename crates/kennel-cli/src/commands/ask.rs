//! `--ask`: a question on the terminal about a host that no rule speaks of.

use std::time::Duration;

use kennel::terminal::{Asker, Reply};
use kennel::{AskAboutHosts, HostAnswer, HostQuestion};

/// Asks on the terminal. A question without a terminal, or without an answer in `limit`, is answered no.
pub fn on_terminal(asker: Asker, limit: Option<Duration>) -> AskAboutHosts {
    AskAboutHosts::new(move |question| {
        // The host is in its one spelling, which holds no character that a terminal would obey.
        let HostQuestion { host, port, .. } = question;
        let prompt = format!("kennel: connect to {host}:{port}? [yes/once/No] ");
        match asker.ask(&prompt, limit) {
            Reply::Line(line) => match line.trim() {
                "y" | "yes" => HostAnswer::Allow,
                "o" | "once" => HostAnswer::AllowOnce,
                _ => HostAnswer::Deny,
            },
            Reply::Refused => HostAnswer::Deny,
            Reply::Silence => HostAnswer::NoAnswer,
        }
    })
}
