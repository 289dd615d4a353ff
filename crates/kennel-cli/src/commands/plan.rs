//! `kennel plan`: what `kennel run` would allow, and step by step what it would do, and why.

use std::sync::Arc;

use kennel::job::{Job, PlannedStep};
use kennel_policy::printed::show_lines;
use serde_json::json;

use super::summary::summary;
use super::{FAILED, answers, json_text, policy, print, say, secrets, variables};
use crate::flags::RunArgs;
use crate::flags::advice::{noted, told};

/// Prints the plan: what it means, or its steps.
pub fn plan(args: &RunArgs, as_json: bool) -> i32 {
    let planned = policy::policy(args).and_then(|(merged, cwd)| {
        for note in noted(&merged.notes) {
            say(&format!("kennel: note: {note}"));
        }
        let policy = Arc::new(merged.policy);
        let mut job = Job::bare(policy.clone(), args.command.clone());
        (job.environment, job.cwd) = (variables(), cwd.clone());
        // Also where the steps are not shown: what `run` would refuse is refused here.
        Ok((job.plan()?, policy, cwd, merged.only))
    });
    let (steps, policy, cwd, only) = match planned {
        Ok(planned) => planned,
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
    if args.steps {
        return print(&numbered(&steps));
    }
    let homes = policy::Lazy::default();
    let base = homes.base(&cwd);
    let folder = policy.process.workdir.as_ref().unwrap_or(&cwd);
    let answers = if args.no_settings { Vec::new() } else { answers::in_force(&policy, folder, &homes) };
    let text = summary(&policy, &base, &secrets::kept_outside(&policy), &answers, &only);
    print(&show_lines(&format!(
        "{text}{:13}kennel plan --steps shows the {} steps, each with its rule\n",
        "",
        steps.len()
    )))
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
