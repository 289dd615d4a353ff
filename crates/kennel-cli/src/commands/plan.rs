//! `kennel plan`: what `kennel run` would do, step by step, and why.

use kennel::job::{Job, PlannedStep};
use kennel_policy::printed::show_lines;
use serde_json::json;

use super::{FAILED, json_text, policy, print, say};
use crate::flags::RunArgs;
use crate::flags::advice::{noted, told};
use crate::platform;

/// Prints the plan.
pub fn plan(args: &RunArgs, as_json: bool) -> i32 {
    let steps = policy::policy(args).and_then(|(merged, cwd)| {
        for note in &merged.notes {
            say(&format!("kennel: note: {}", noted(note)));
        }
        let mut job = Job::bare(merged.policy.into(), args.command.clone());
        (job.environment, job.cwd) = (platform::variables(), cwd);
        Ok(job.plan()?)
    });
    let steps = match steps {
        Ok(steps) => steps,
        Err(error) => {
            say(&format!("kennel: {}", told(&*error)));
            return FAILED;
        }
    };
    if as_json {
        let steps: Vec<_> =
            steps.iter().map(|one| json!({ "step": one.step, "reason": one.reason })).collect();
        return print(&json_text(&json!({ "steps": steps })));
    }
    print(&numbered(&steps))
}

/// Steps as text.
pub fn numbered(steps: &[PlannedStep]) -> String {
    let width = steps.iter().map(|one| one.step.chars().count()).max().unwrap_or(0).min(60);
    let mut text = String::new();
    for (index, PlannedStep { step, reason, .. }) in steps.iter().enumerate() {
        match reason.as_str() {
            "" => text.push_str(&format!("{:>4}  {step}\n", index + 1)),
            reason => text.push_str(&format!("{:>4}  {step:width$}  # {reason}\n", index + 1)),
        }
    }
    show_lines(&text)
}
