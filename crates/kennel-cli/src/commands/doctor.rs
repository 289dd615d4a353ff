//! `kennel doctor`: what this host offers, and what to do about what it does not.

use kennel::host::{self, State};
use kennel_policy::printed::show_lines;
use serde_json::json;

use super::enable::finding;
use super::{json_text, print};
use crate::flags::advice::in_flags;

/// Prints the findings. The exit code is 0 when `kennel run` works here, else 1.
pub fn doctor(as_json: bool) -> i32 {
    let mut findings = host::findings();
    findings.extend(finding());
    for finding in &mut findings {
        finding.detail = in_flags(&finding.detail);
        finding.remedy = finding.remedy.as_deref().map(in_flags);
    }
    let works = findings.iter().all(|finding| finding.state != State::Missing);
    let code = i32::from(!works);
    if as_json {
        let list: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({
                    "subject": finding.subject,
                    "state": finding.state.to_string(),
                    "detail": finding.detail,
                    "remedy": finding.remedy,
                })
            })
            .collect();
        return print(&json_text(&json!({ "works": works, "findings": list }))).max(code);
    }
    let mut text = String::new();
    for finding in &findings {
        text.push_str(&format!(
            "{:<8} {:<11} {}\n",
            finding.state.to_string(),
            finding.subject,
            finding.detail
        ));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("{:21}→ {remedy}\n", ""));
        }
    }
    print(&show_lines(&text)).max(code)
}
