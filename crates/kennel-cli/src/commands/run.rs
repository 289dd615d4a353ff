//! `kennel run`: a command in a sandbox, on this terminal.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use kennel::held::HeldFile;
use kennel::job::{Explain, Hooks, Job, UsageSink};
use kennel::outcome::{Ended, HandedBack, Outcome};
use kennel::{ControlLines, Published, SandboxError, terminal};
use kennel_policy::domain::{HOST_ALIAS, HostPattern};
use kennel_policy::merge::WithoutNetwork;
use kennel_policy::policy::{Limits, NetworkMode, NetworkPolicy, Policy};
use kennel_policy::printed::show;

use super::answers::Answers;
use super::{
    FAILED, agents, ask, denials, inner_sandbox, not_found, plan, policy, private_home, project, report, say,
    say_lines, secrets, stats, variables,
};
use crate::flags::advice::{in_flags, noted, told};
use crate::flags::{RunArgs, Stats};
use crate::platform;

/// How `kennel run` is told to let a host through; the host follows.
const BY_FLAG: &str = "to allow it: --allow-domain ";

/// Runs the command; the exit code is its own, or says what became of it.
pub fn run(args: &RunArgs) -> i32 {
    let (merged, cwd) = match policy::policy(args) {
        Ok(found) => found,
        Err(error) => {
            // Whoever starts kennel from a program reads the report, not the terminal.
            let file = args.report.as_deref().map(|path| report::hold(path, &Policy::default()));
            return report_failure(file.and_then(Result::ok).as_ref(), &error.to_string());
        }
    };
    let file = match args.report.as_deref().map(|path| report::hold(path, &merged.policy)).transpose() {
        Ok(file) => file,
        Err(error) => return fail(&format!("preparing the report: {error}")),
    };
    let fail = |message: &str| report_failure(file.as_ref(), message);
    if !args.quiet {
        noted(&merged.notes).iter().for_each(|note| say(&format!("kennel: note: {note}")));
        own_hosts(&merged.policy.network).iter().for_each(|note| say(note));
        secrets::tell_withheld(&merged.policy);
    }
    let agent = agents::without_profile(args, &merged);
    agent.iter().for_each(|agent| agents::suggest(agent));
    let command = inner_sandbox::without(args, &merged, &cwd);
    let control = match args.control_fd.as_deref().map(control_lines).transpose() {
        Ok(control) => control,
        Err(error) => return fail(&error),
    };
    if control.is_some() && !merged.policy.network.mode.is_gated() {
        return fail(
            "--control-fd: there are no rules to change\nhelp: add --net allow-list, or --allow-domain",
        );
    }
    let network = &merged.policy.network;
    let asking = network.ask && network.mode == NetworkMode::AllowList;
    if asking && !args.quiet && std::fs::File::open("/dev/tty").is_err() {
        say("kennel: note: --ask: there is no terminal to ask on; hosts that no rule covers are refused");
    }
    let (ask, questions) = match asking.then(terminal::questions).transpose() {
        Ok(None) => (None, None),
        Ok(Some((asker, questions))) => {
            let folder = merged.policy.process.workdir.as_ref().unwrap_or(&cwd);
            let homes = policy::Lazy::default();
            let answers = if args.no_settings { None } else { Answers::of(folder, &homes) };
            (Some(ask::on_terminal(asker, network.ask_timeout, answers)), Some(questions))
        }
        Err(error) => return fail(&format!("preparing to ask on the terminal: {error}")),
    };
    let (ask, asked) = ask.unzip();
    let absent = match args.no_settings || merged.policy.files.allow_write.is_empty() {
        true => Vec::new(),
        false => project::absent(merged.policy.process.workdir.as_ref().unwrap_or(&cwd)),
    };
    let row = (args.stats == Some(Stats::Live)).then(stats::LiveRow::new).flatten();
    let policy = Arc::new(merged.policy);
    let heard = (!args.quiet && io::stderr().is_terminal()).then(|| Arc::new(Mutex::new(Vec::new())));
    let folder = cwd.clone();
    let mut job = Job::bare(policy.clone(), command);
    (job.environment, job.cwd) = (variables(), cwd);
    job.hooks = Hooks {
        count: args.stats.is_some(),
        audience: row.map(|row| (Box::new(row) as Box<dyn UsageSink>, stats::EVERY)),
        questions,
        show: args.verbose.then(|| Box::new(|steps: &[_]| say_lines(&plan::numbered(steps))) as _),
        control,
        ask,
        published: Some(tell_published),
        listening: heard.clone().map(|heard| {
            Box::new(move |port| heard.lock().unwrap_or_else(PoisonError::into_inner).push(port)) as _
        }),
        warn: Some(tell_warning),
        explain: if args.explain { Explain::EveryCall } else { Explain::Writes },
        advice: BY_FLAG,
    };
    job.clone_this_process(platform::inherited());
    let result = job.run();
    for made in absent.iter().filter(|path| path.symlink_metadata().is_ok()) {
        let made = show(made.as_os_str().as_encoded_bytes());
        say(&format!(
            "kennel: {made} came into being during the run; the next one finds it, and it may only tighten"
        ));
    }
    for port in heard.iter().flat_map(|heard| heard.lock().unwrap_or_else(PoisonError::into_inner).clone()) {
        say(&format!(
            "kennel: note: something inside listened on port {port}, which nothing outside can reach; to publish it: --publish {port}"
        ));
    }
    if let Some(asked) = asked.filter(|_| !args.quiet) {
        asked.tell();
    }
    let code = match &result {
        Ok(outcome) => {
            if !args.quiet {
                tell(outcome, &policy.limits);
                let explained = agent.is_some_and(|agent| agents::explain(agent, outcome, &policy.files));
                let on_terminal = std::io::stderr().is_terminal();
                if !explained && on_terminal && !private_home::remind(outcome, &policy.files) {
                    denials::suggest(outcome);
                }
                if outcome.tried_network && policy.network.mode == NetworkMode::None {
                    say(&no_network(merged.without_network.as_ref()));
                }
            } else if outcome.handed_back.unsafe_left {
                // Quiet or not: git must not be run there.
                tell_handed_back(&outcome.handed_back);
            }
            if args.stats.is_some() {
                say(&stats::at_exit(outcome));
            }
            if args.why() {
                denials::conclude(outcome);
            }
            outcome.exit_code()
        }
        Err(error) => {
            let code = not_started(error);
            if error.exit_code().is_some() {
                not_found::explain(&args.command, &policy.files, &folder);
            }
            code
        }
    };
    if let Some(file) = &file
        && let Err(error) = report::write(file, &result, code)
    {
        return report_not_written(file, &error);
    }
    if let Ok(outcome) = &result {
        end_like(outcome);
    }
    code
}

/// Says that there is no network, who said so, and what would allow a host there.
fn no_network(said: Option<&WithoutNetwork>) -> String {
    let (by, help) = match said {
        None => (String::new(), "; to allow a host: --allow-domain HOST"),
        Some(WithoutNetwork { origin, found: true }) => (format!(" ({origin})"), ""),
        Some(WithoutNetwork { origin, .. }) => {
            (format!(" ({origin})"), "; to allow a host: --net allow-list --allow-domain HOST")
        }
    };
    format!("kennel: this sandbox has no network{by}{help}")
}

/// Notes about allowed hosts that mean the sandbox itself: for most programs inside they lead nowhere else.
fn own_hosts(network: &NetworkPolicy) -> Vec<String> {
    let is_own = |host: &HostPattern| match host {
        HostPattern::Exact(name) => name == "localhost" || name.ends_with(".localhost"),
        HostPattern::Ip(address) => address.is_loopback(),
        _ => false,
    };
    let own = network.allow.iter().filter(|rule| network.mode.is_gated() && is_own(&rule.host));
    own.map(|rule| {
        let port = rule.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!(
            "kennel: note: {rule} ({}) opens this host's loopback to programs that use the proxy; to all others it is the sandbox's \
             own. By a name that all understand: --allow-domain {HOST_ALIAS}{port}",
            rule.origin
        )
    })
    .collect()
}

/// Says why there was no run, in the report too.
fn report_failure(file: Option<&HeldFile>, message: &str) -> i32 {
    let code = fail(message);
    if let Some(file) = file
        && let Err(error) = report::write_failure(file, message, code)
    {
        return report_not_written(file, &error);
    }
    code
}

fn report_not_written(file: &HeldFile, error: &io::Error) -> i32 {
    fail(&format!("writing the report: {}: {error}", file.path().display()))
}

/// Says what was refused and what limit was hit.
pub fn tell(outcome: &Outcome, limits: &Limits) {
    explain(outcome, limits);
    denials::tell(&outcome.denials);
    say_lines(&in_flags(&outcome.network.blocked));
}

/// Ends as the command did, if that was by the terminal's own signals; otherwise returns its exit code.
pub fn end_like(outcome: &Outcome) -> i32 {
    if let Ended::Signalled(signal) = outcome.ended {
        platform::die_of_terminal_signal(signal);
    }
    outcome.exit_code()
}

/// The lines of a descriptor that whoever started kennel left open for them.
fn control_lines(typed: &OsStr) -> Result<ControlLines, String> {
    let wrong = || format!("--control-fd {}: not an open descriptor above 2", typed.display());
    let number: i32 =
        typed.to_str().and_then(|text| text.parse().ok()).filter(|fd| *fd > 2).ok_or_else(wrong)?;
    let fd = platform::take_descriptor(number).map_err(|_| wrong())?;
    Ok(ControlLines::new(fd.into(), |fault| say(&format!("kennel: {fault}"))))
}

/// Where a port was published, when the system chose it.
fn tell_published(port: &Published) {
    say(&format!("kennel: port {} inside is port {} of this host's loopback", port.inside, port.host));
}

/// Says what the policy does not mean here.
pub fn tell_warning(warning: &str) {
    say(&format!("kennel: warning: {warning}"));
}

/// Says what limit was hit, and what its value was.
fn explain(outcome: &Outcome, limits: &Limits) {
    for lack in &outcome.not_enforced {
        say(&format!("kennel: not enforced: {lack}"));
    }
    for violation in &outcome.violations.list {
        say(&format!("kennel: {}", in_flags(&violation.to_string())));
    }
    if outcome.violations.more > 0 {
        say(&format!(
            "kennel: {} refused",
            counted(outcome.violations.more, "more call was", "more calls were")
        ));
    }
    tell_handed_back(&outcome.handed_back);
    let bytes = stats::bytes(limits.memory.unwrap_or_default());
    match outcome.ended {
        Ended::TimedOut => say(&format!(
            "kennel: timed out after {:?} (limits.timeout); the sandbox was killed",
            limits.wall_time.unwrap_or_default()
        )),
        Ended::CpuTimeUsedUp => say(&format!(
            "kennel: the command used up its {:?} of CPU time (limits.cpu_time)",
            limits.cpu_time.unwrap_or_default()
        )),
        Ended::OutOfMemory => {
            say(&format!("kennel: memory ran out at {bytes} (limits.memory); the command was killed"));
        }
        // Told with what it was, above.
        Ended::RuleBroken => {}
        Ended::Killed => say("kennel: the sandbox was killed from outside"),
        Ended::Exited(_) | Ended::Signalled(_) if outcome.oom_kills > 0 => say(&format!(
            "kennel: memory ran out at {bytes} (limits.memory); {} killed, the command went on",
            counted(outcome.oom_kills, "process was", "processes were")
        )),
        // Told by the exit code, whose meaning not everybody knows; or by a later version.
        Ended::Exited(code) => {
            if let Some(meaning) = kennel::host::exit_meaning(code) {
                say(&format!("kennel: the command ended with 0x{code:08X}: {meaning}"));
            }
        }
        _ => {}
    }
    if let (1.., Some(pids)) = (outcome.pids_refused, limits.pids) {
        say(&format!(
            "kennel: at most {} allowed (limits.pids); {} refused",
            counted(pids.into(), "process was", "processes were"),
            counted(outcome.pids_refused, "more was", "more were"),
        ));
    }
    if let (true, Some(output)) = (outcome.output_truncated, limits.output) {
        let cap = stats::bytes(output);
        say(&format!("kennel: output exceeded {cap} (limits.output); the rest was dropped"));
    }
}

/// Says what was taken away at the end because git on the host would have run it.
fn tell_handed_back(handed_back: &HandedBack) {
    for found in &handed_back.list {
        say(&format!("kennel: {found}"));
    }
    if handed_back.more > 0 {
        say(&format!("kennel: {} more were set aside", handed_back.more));
    }
    for changed in &handed_back.changed {
        say(&format!("kennel: {changed}"));
    }
    if handed_back.changed_more > 0 {
        let more = counted(handed_back.changed_more, "more such file", "more such files");
        say(&format!("kennel: the command changed {more}"));
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn fail(message: &str) -> i32 {
    // A usage error names the command itself.
    let prefix = if message.starts_with("kennel ") { "" } else { "kennel: " };
    say(&format!("{prefix}{message}"));
    FAILED
}

/// Says why there was no sandbox, or no command in it: 127 and 126 as shells have it; 125 when it is kennel that failed.
pub fn not_started(error: &SandboxError) -> i32 {
    match error.exit_code() {
        Some(code) => {
            say(&format!("kennel: {error}"));
            code
        }
        None => fail(&told(error)),
    }
}
