//! The outcome as JSON, for `--report`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kennel::held::{HeldFile, HoldError};
use kennel::outcome::{
    Changed, Ended, GatewayUse, HostTraffic, LimitUse, Mended, ModelCounts, ModelUse, NetworkDecision,
    Outcome, SetAside, TrafficUse, Violation,
};
use kennel_policy::policy::{MountAccess, Policy};
use serde_json::{Value, json};

use super::denials;
use crate::flags::advice::told;

/// Holds the report's place. This comes before the start, because afterwards the command may have put something else there.
pub fn hold(path: &Path, policy: &Policy) -> Result<HeldFile, HoldError> {
    let files = &policy.files;
    let roots = files.allow_write.iter().map(|rule| rule.pattern.literal_prefix());
    let mounts = files.mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
    let roots = roots.chain(mounts.map(|mount| mount.source.as_path()));
    // A path on the way has no links by then, so the roots must have none either.
    let roots: Vec<PathBuf> = roots.filter_map(|root| root.canonicalize().ok()).collect();
    HeldFile::new(path, |link| roots.iter().any(|root| link.starts_with(root)))
}

/// Writes the outcome.
pub fn write(file: &HeldFile, result: &kennel::Result<Outcome>, exit_code: i32) -> io::Result<()> {
    write_value(file, &report(result, exit_code))
}

/// Writes that it did not come to a run.
pub fn write_failure(file: &HeldFile, error: &str, exit_code: i32) -> io::Result<()> {
    write_value(file, &not_started(error, exit_code))
}

fn write_value(file: &HeldFile, value: &Value) -> io::Result<()> {
    file.write(super::json_text(value).as_bytes())
}

fn report(result: &kennel::Result<Outcome>, exit_code: i32) -> Value {
    match result {
        Ok(outcome) => {
            json!({
                "exit_code": exit_code,
                "ended": outcome.ended.word(),
                "signal": outcome.ended.signal(),
                "killed_by_timeout": outcome.ended == Ended::TimedOut,
                "killed_by_oom": outcome.ended == Ended::OutOfMemory,
                "killed_by_cpu_time": outcome.ended == Ended::CpuTimeUsedUp,
                "oom_kills": outcome.oom_kills,
                "max_pids_seen": outcome.max_pids_seen,
                "pids_refused": outcome.pids_refused,
                "output_truncated": outcome.output_truncated,
                "wall_time_ms": milliseconds(outcome.wall_time),
                "cpu_user_ms": milliseconds(outcome.cpu_user),
                "cpu_system_ms": milliseconds(outcome.cpu_system),
                "cpu_throttled_ms": outcome.cpu_throttled.map(milliseconds),
                "peak_memory_bytes": outcome.peak_memory,
                "peak_memory_of": if outcome.memory_counted { "all" } else { "largest-process" },
                "network": outcome.network.decisions.iter().map(decision).collect::<Vec<_>>(),
                "network_not_listed": outcome.network.more,
                "traffic": outcome.network.traffic.as_ref().map(traffic),
                "gateway": gateway(&outcome.gateway),
                "tried_network": outcome.tried_network,
                "violations": outcome.violations.list.iter().map(violation).collect::<Vec<_>>(),
                "violations_not_listed": outcome.violations.more,
                "files_refused": outcome.denials.list.iter().map(denials::value).collect::<Vec<_>>(),
                "files_refused_not_listed": outcome.denials.more,
                "files_traced": outcome.denials.traced,
                "set_aside": outcome.handed_back.list.iter().map(set_aside).collect::<Vec<_>>(),
                "set_aside_not_listed": outcome.handed_back.more,
                "changed": outcome.handed_back.changed.iter().map(changed).collect::<Vec<_>>(),
                "changed_not_listed": outcome.handed_back.changed_more,
                "not_enforced": outcome.not_enforced,
                "error": null,
            })
        }
        Err(error) => not_started(&told(error), exit_code),
    }
}

fn not_started(error: &str, exit_code: i32) -> Value {
    json!({ "exit_code": exit_code, "ended": "not-started", "error": error })
}

fn decision(decision: &NetworkDecision) -> Value {
    json!({
        "host": decision.host,
        "port": decision.port,
        "door": decision.door,
        "allowed": decision.allowed,
        "reason": decision.reason,
        "rule": decision.rule,
        "count": decision.count,
        "program": decision.program.as_ref().map(|program| json!({ "name": program.name, "pid": program.pid })),
    })
}

fn traffic(used: &TrafficUse) -> Value {
    let host = |own: &HostTraffic| json!({ "host": own.host, "egress": own.egress, "ingress": own.ingress });
    let limit = |own: &LimitUse| json!({ "limit": own.limit, "used": own.used });
    json!({
        "egress": used.egress,
        "ingress": used.ingress,
        "hosts": used.hosts.iter().map(host).collect::<Vec<_>>(),
        "other_hosts": { "egress": used.other_hosts.egress, "ingress": used.other_hosts.ingress },
        "limits": used.limits.iter().map(limit).collect::<Vec<_>>(),
    })
}

/// What was used of the model gateway; `null` where nothing was.
fn gateway(used: &GatewayUse) -> Value {
    if *used == GatewayUse::default() {
        return Value::Null;
    }
    let model = |model: &ModelUse| json!({ "provider": model.provider, "model": model.model, "used": counts(&model.counts) });
    json!({ "total": counts(&used.total), "models": used.models.iter().map(model).collect::<Vec<_>>() })
}

fn counts(counts: &ModelCounts) -> Value {
    json!({
        "requests": counts.requests,
        "refused": counts.refused,
        "input_tokens": counts.input_tokens,
        "output_tokens": counts.output_tokens,
        "cache_read_tokens": counts.cache_read_tokens,
        "cache_write_tokens": counts.cache_write_tokens,
        "bytes_sent": counts.bytes_sent,
        "bytes_received": counts.bytes_received,
        "cost": counts.cost,
        "estimated": counts.estimated,
    })
}

fn violation(violation: &Violation) -> Value {
    let what = violation.word();
    match violation {
        Violation::Refused { call, path, rule, times } => json!({
            "what": what,
            "call": call,
            "path": path.as_deref().map(Path::to_string_lossy),
            "rule": rule,
            "count": times,
        }),
        Violation::Broken { path, rule, mended } => json!({
            "what": what,
            "path": path.to_string_lossy(),
            "rule": rule,
            "moved_to": match mended {
                Mended::MovedAside(name) => Some(name.to_string_lossy()),
                _ => None,
            },
        }),
        Violation::Exposed { path, rule, longest, times } => json!({
            "what": what,
            "path": path.to_string_lossy(),
            "rule": rule,
            "longest_us": u64::try_from(longest.as_micros()).unwrap_or(u64::MAX),
            "count": times,
        }),
        Violation::GuardFailed { why } => json!({ "what": what, "why": why }),
        other => json!({ "what": what, "why": other.to_string() }),
    }
}

fn set_aside(found: &SetAside) -> Value {
    json!({
        "what": found.what.word(),
        "path": found.path.to_string_lossy(),
        "why": found.what.to_string(),
        "settings": found.what.settings(),
        "moved_to": found.moved_to.as_deref().map(Path::to_string_lossy),
        "put_back": found.put_back(),
        "error": found.error.map(|error| io::Error::from_raw_os_error(error).to_string()),
    })
}

fn changed(changed: &Changed) -> Value {
    json!({
        "path": changed.path.to_string_lossy(),
        "by": changed.by,
        "how": changed.how.word(),
        "diff": changed.diff,
        "lines_not_listed": changed.more,
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
