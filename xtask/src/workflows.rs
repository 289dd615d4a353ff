//! Whether the workflows of `.github/` can be read, and do nothing but call this workshop: they run elsewhere only, so a task
//! that was renamed would be noticed by the next release.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{HELP, cargo};

/// What a step runs besides tasks: switches of the runner's system.
const SETTINGS: [&str; 1] = ["sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"];

/// Each workflow's name and contents; `None` without a program that reads YAML.
fn workflows() -> Option<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(cargo::root().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let mut ruby = Command::new("ruby");
        ruby.args(["-ryaml", "-rjson", "-e", "puts JSON.dump(YAML.safe_load(File.read(ARGV[0])))"])
            .arg(&path);
        let Ok(output) = ruby.output() else {
            println!("SKIPPED: there is no ruby to read YAML");
            return None;
        };
        assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        found.push((name, serde_json::from_slice(&output.stdout).unwrap()));
    }
    assert!(found.len() >= 2, "{found:?}");
    Some(found)
}

fn steps(workflow: &Value) -> impl Iterator<Item = &Value> {
    let jobs = workflow["jobs"].as_object().unwrap().values();
    jobs.flat_map(|job| {
        assert!(job["runs-on"].is_string() && job["timeout-minutes"].is_number(), "{job}");
        job["steps"].as_array().unwrap()
    })
}

#[test]
fn workflows_call_tasks_that_exist_and_nothing_else() {
    let Some(workflows) = workflows() else { return };
    for (name, workflow) in &workflows {
        for step in steps(workflow) {
            let Some(line) = step["run"].as_str() else { continue };
            if SETTINGS.contains(&line) {
                continue;
            }
            let task = line.strip_prefix("cargo xtask ").and_then(|rest| rest.split(' ').next());
            let task = task.unwrap_or_else(|| panic!("{name}: {line}: not a task"));
            assert!(HELP.contains(&format!("\n  {task} ")), "{name}: there is no task {task}");
            for flag in line.split(' ').filter(|word| word.starts_with("--")) {
                assert!(HELP.contains(flag), "{name}: no task has {flag}");
            }
            // A name that somebody else chose is never a part of a command.
            assert!(!line.contains("${{"), "{name}: {line}");
        }
    }
}

#[test]
fn workflows_use_checkout_by_its_hash_and_no_other_action() {
    let Some(workflows) = workflows() else { return };
    for (name, workflow) in &workflows {
        assert_eq!(workflow["permissions"]["contents"], "read", "{name}");
        for step in steps(workflow) {
            let Some(action) = step["uses"].as_str() else { continue };
            let hash = action.strip_prefix("actions/checkout@").unwrap_or_else(|| panic!("{name}: {action}"));
            assert!(
                hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{name}: {action}"
            );
        }
    }
}
