//! Guesses secrets by watching: the upstream sends back what the inside chose, a right beginning of a real value or a wrong one, in
//! every framing that the gate carries; nothing that comes in may tell which it was.
//!
//! `guess.mjs` runs inside and makes trials, in a random order: two of three are a right and a wrong beginning, the others are
//! *controls*, two wrong ones. If the gate gives nothing away, it is as if these words were drawn by lot afterwards. So for each
//! feature (contents, sizes, counts, times, errors) three things are tested (`statistics.rs`): that the right one's is not larger or
//! smaller too often (a fair coin); that the two of a pair do not differ more, or less, than those of a control; and that in the
//! controls the first is not larger too often, else the instrument is wrong. All tests of a run together have a chance of 10⁻⁶ to
//! speak up where nothing is. An answer that is not what was asked for is a finding by itself.
//!
//! `KENNEL_ATTACK_SECONDS` says for how long (30), `KENNEL_ATTACK_GUESSES` how many requests at least and at most, and
//! `KENNEL_ATTACK_ONLY` which ways.

mod parent;
mod statistics;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use kennel_tests::{Scratch, kennel, program, role, world};
use serde_json::{Value, json};
use statistics::Factorials;

const NAME: &str = "nothing_that_comes_in_tells_a_right_beginning_of_a_secret_from_a_wrong_one";
/// A run has at least so many requests, enough for what always tells.
const MIN: u64 = 4000;
/// How often a run speaks up where there is nothing.
const LEVEL: f64 = 1e-6;
/// More requests than this share that come to nothing say that something is broken.
const MAX_ERRORS: f64 = 0.01;

kennel_tests::roles! {
    "attack_guess" => attack,
}

fn attack(_words: &[OsString]) -> i32 {
    // SAFETY: nothing else runs in this process yet. Whatever is started from here is told its own role.
    unsafe {
        std::env::remove_var(role::VARIABLE);
        // As in `main`, before which this runs.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    crate::secrets::enter();
    match guess() {
        Ok(0) => println!("test {NAME} ... ok"),
        Ok(_) => {
            println!("test {NAME} ... FAILED");
            return 1;
        }
        Err(Stop::Lacks(reason)) => println!("test {NAME} ... SKIPPED: {reason}"),
        Err(Stop::Broken(error)) => {
            println!("{error}\ntest {NAME} ... FAILED");
            return 1;
        }
    }
    0
}

/// Why there was no attack.
enum Stop {
    Lacks(String),
    Broken(String),
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// How many features told something.
fn guess() -> Result<usize, Stop> {
    let Some(world) = world::world() else { return Err(Stop::Lacks("no network of the test's own".into())) };
    let keys = std::fs::read_to_string(world.file("keys.json"));
    let (Ok(keys), Some(node)) = (keys, program("node")) else {
        return Err(Stop::Lacks("node and openssl are not installed".into()));
    };
    let keys: BTreeMap<String, String> =
        serde_json::from_str(&keys).map_err(|error| Stop::Broken(error.to_string()))?;
    let seconds = number("KENNEL_ATTACK_SECONDS").unwrap_or(30);
    let seed = number("KENNEL_ATTACK_SEED").unwrap_or(7);
    let guesses = number("KENNEL_ATTACK_GUESSES");
    println!("attack_guess: seed {seed}, for {seconds} s");
    if std::env::var_os("KENNEL_ATTACK_FIGURES").is_some() {
        return figures(&node, world, &keys).map(|()| 0);
    }
    let password = format!("Zq9-{}", &keys["other"]);
    let token = parent::token("caller", &password);
    let port = parent::start().map_err(|error| Stop::Broken(format!("the parent proxy: {error}")))?;

    let host = "say.web.test";
    let of_hosts = [
        "chunks",
        "drip",
        "many",
        "events",
        "fields",
        "trailers-h1",
        "h2",
        "events-h2",
        "fields-h2",
        "trailers",
        "socket",
        "pings",
    ];
    let of_parents = ["parent", "parent-events", "parent-drip", "parent-fields", "parent-trailers"];
    let only = std::env::var("KENNEL_ATTACK_ONLY").unwrap_or_default();
    let wanted = |way: &&str| only.is_empty() || only.split(',').any(|one| one == *way);
    let asked = |ways: &[&str], secrets: Value, share: u64| {
        json!({
            "ways": ways, "secrets": secrets, "seed": seed, "seconds": seconds * share / 10,
            "least": guesses.unwrap_or(MIN) * share / 10, "most": guesses.map_or(u64::MAX >> 12, |all| all * share / 10),
        })
    };
    let bound = |host: &str, key: &str| json!({"from": format!("env:{key}"), "hosts": [host]});
    let direct = json!({
        "network": {"allow": ["say.web.test", "elsewhere.web.test"], "extra_ca": [world.file("ca.pem")]},
        "secrets": {"GITHUB": bound(host, "GITHUB"), "OTHER": bound("elsewhere.web.test", "OTHER")},
        "gateway": {
            "anthropic": {"key": "env:ANTHROPIC_API_KEY"},
            "openai": {"key": "env:OPENAI_API_KEY"},
            "plain": {"api": "openai", "upstream": format!("http://127.0.0.1:{port}/v1"), "key": "env:PLAIN_KEY", "variables": ["PLAIN_BASE_URL"]},
        },
    });
    let secrets = json!([
        {"name": "of this host", "value": keys["github"], "host": host, "ways": of_hosts},
        {"name": "of another host", "value": keys["other"], "host": host, "ways": of_hosts},
        {"name": "of Anthropic's", "value": keys["anthropic"], "host": host, "ways": ["gateway"]},
        {"name": "of OpenAI's", "value": keys["openai"], "host": host, "ways": ["gateway-openai"]},
        {"name": "of a plain one", "value": keys["gemini"], "host": host, "ways": ["gateway-h1"]},
    ]);
    let ways: Vec<&str> =
        of_hosts.into_iter().chain(["gateway", "gateway-openai", "gateway-h1"]).filter(wanted).collect();
    let mut sums = inside(&node, &keys, &direct, &asked(&ways, secrets, 8))?;
    let by_parent = json!({
        "network": {"allow": [host], "parent_proxy": format!("http://caller:{password}@127.0.0.1:{port}")},
    });
    let secrets = json!([{"name": "of the parent proxy", "value": token, "host": host, "ways": of_parents}]);
    let ways: Vec<&str> = of_parents.into_iter().filter(wanted).collect();
    sums.extend(inside(&node, &keys, &by_parent, &asked(&ways, secrets, 2))?);
    judge(&sums)
}

/// Prints what the search costs: with a secret that is bound to the host, and without, where TLS ends at the gate all the same.
fn figures(
    node: &std::path::Path,
    world: &world::World,
    keys: &BTreeMap<String, String>,
) -> Result<(), Stop> {
    let host = "say.web.test";
    let free = json!({"network": {"allow": [host], "terminate": [host], "extra_ca": [world.file("ca.pem")]}});
    let mut bound = free.clone();
    bound["secrets"] = json!({"GITHUB": {"from": "env:GITHUB", "hosts": [host]}});
    for (what, settings) in [("without a secret", free), ("with a secret", bound)] {
        println!("{what}:");
        let home = Scratch::new();
        let mut command =
            sandboxed(node, &home, keys, &settings, ("figures.mjs", include_str!("figures.mjs")));
        let status = command.arg(host).status().map_err(|error| Stop::Broken(error.to_string()))?;
        if !status.success() {
            return Err(Stop::Broken(format!("the inside ended with {status}")));
        }
    }
    Ok(())
}

/// A script in a sandbox.
fn sandboxed(
    node: &std::path::Path,
    home: &Scratch,
    keys: &BTreeMap<String, String>,
    settings: &Value,
    (name, text): (&str, &str),
) -> Command {
    let file = home.write("settings.json", &settings.to_string());
    let script = home.write(name, text);
    let mut command: Command = kennel(["run", "--no-settings", "--settings"]);
    command.arg(file).arg("--").arg(node).arg(script);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home.path());
    command.current_dir(home.path());
    let of_providers =
        [("ANTHROPIC_API_KEY", "anthropic"), ("OPENAI_API_KEY", "openai"), ("PLAIN_KEY", "gemini")];
    for (variable, key) in [("GITHUB", "github"), ("OTHER", "other")].into_iter().chain(of_providers) {
        command.env(variable, &keys[key]);
    }
    command
}

/// What a sandbox with these settings guesses.
fn inside(
    node: &std::path::Path,
    keys: &BTreeMap<String, String>,
    settings: &Value,
    asked: &Value,
) -> Result<Vec<Value>, Stop> {
    let broken = |error: std::io::Error| Stop::Broken(format!("kennel: {error}"));
    let home = Scratch::new();
    let mut command = sandboxed(node, &home, keys, settings, ("guess.mjs", include_str!("guess.mjs")));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(broken)?;
    let text = asked.to_string();
    // One that ended before says why.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(broken)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Stop::Broken(format!("the inside ended with {}: {said}", output.status)));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let sums: Result<Vec<Value>, _> = lines.lines().map(serde_json::from_str).collect();
    sums.map_err(|error| Stop::Broken(format!("the inside said: {error}: {lines:.500}")))
}

/// One way with one secret, or several of them.
struct Seen {
    what: String,
    features: Vec<String>,
    kinds: Vec<String>,
    trials: Vec<Trial>,
}

struct Trial {
    is_pair: bool,
    /// By how much each feature was larger for the right one.
    more: Vec<f64>,
    /// Which kinds differed.
    other: Vec<bool>,
}

/// A test, and how probable what was seen is without a cause.
struct Tested {
    what: String,
    probability: f64,
    is_control: bool,
    figures: String,
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn trials(sum: &Value, features: usize) -> Vec<Trial> {
    let trial = |line: &Value| {
        let numbers: Vec<f64> = line.as_array()?.iter().filter_map(Value::as_f64).collect();
        let (is_pair, rest) = numbers.split_first()?;
        let (more, other) = rest.split_at_checked(features)?;
        let other = other.iter().map(|differs| *differs != 0.0).collect();
        Some(Trial { is_pair: *is_pair != 0.0, more: more.to_vec(), other })
    };
    sum["trials"].as_array().into_iter().flatten().filter_map(trial).collect()
}

impl Seen {
    fn tests(&self, factorials: &mut Factorials) -> Vec<Tested> {
        let mut all = Vec::new();
        let groups: [Vec<&Trial>; 2] =
            [true, false].map(|wanted| self.trials.iter().filter(|trial| trial.is_pair == wanted).collect());
        for (at, feature) in self.features.iter().enumerate() {
            for (group, is_control) in groups.iter().zip([false, true]) {
                let of = |sign: f64| group.iter().filter(|trial| trial.more[at] * sign > 0.0).count() as u64;
                let (more, less) = (of(1.0), of(-1.0));
                all.push(Tested {
                    what: format!("{}: {feature}, larger", self.what),
                    probability: factorials.signs(more, less),
                    is_control,
                    figures: format!(
                        "{more} times for the first and {less} for the other, of {}",
                        group.len()
                    ),
                });
            }
            let [pairs, controls] = groups
                .each_ref()
                .map(|group| group.iter().map(|trial| trial.more[at].abs()).collect::<Vec<_>>());
            let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len().max(1) as f64;
            all.push(Tested {
                what: format!("{}: {feature}, how far apart", self.what),
                probability: statistics::ranks(&pairs, &controls),
                is_control: false,
                figures: format!("{:.2} in pairs and {:.2} in controls", mean(&pairs), mean(&controls)),
            });
        }
        for (at, kind) in self.kinds.iter().enumerate() {
            let [pairs, controls] = groups.each_ref().map(|group| {
                (group.iter().filter(|trial| trial.other[at]).count() as u64, group.len() as u64)
            });
            all.push(Tested {
                what: format!("{}: {kind}, another", self.what),
                probability: factorials.proportions(pairs, controls),
                is_control: false,
                figures: format!(
                    "in {} of {} pairs and {} of {} controls",
                    pairs.0, pairs.1, controls.0, controls.1
                ),
            });
        }
        all
    }
}

/// Prints what was seen, and counts what tells something.
fn judge(sums: &[Value]) -> Result<usize, Stop> {
    let (mut findings, mut requests, mut errors) = (0, 0, 0);
    let mut seen: Vec<Seen> = Vec::new();
    for sum in sums {
        let (way, name) = (sum["way"].as_str().unwrap_or("?"), sum["name"].as_str().unwrap_or("?"));
        let (features, kinds) = (words(&sum["features"]), words(&sum["kinds"]));
        let trials = trials(sum, features.len());
        requests += 2 * trials.len();
        let failed = sum["errors"].as_u64().unwrap_or(0);
        errors += failed;
        if failed > 0 {
            println!(
                "attack_guess: {way}, the secret {name}: {failed} requests came to nothing, the first: {}",
                sum["error"]
            );
        }
        if trials.is_empty() {
            println!("attack_guess: finding: {way}, the secret {name}: nothing was asked");
            findings += 1;
        }
        if sum["odd"].as_u64() != Some(0) {
            println!(
                "attack_guess: finding: {way}, the secret {name}: {} times something else came: {:.1500}",
                sum["odd"],
                sum["example"].to_string()
            );
            findings += 1;
        }
        seen.push(Seen { what: format!("{way}, the secret {name}"), features, kinds, trials });
    }
    // What tells a little everywhere shows in all of them together.
    if let Some(first) = seen.first() {
        let (features, kinds) = (first.features.clone(), first.kinds.clone());
        let trials = seen.iter().flat_map(|one| &one.trials);
        let trials = trials
            .map(|one| Trial { is_pair: one.is_pair, more: one.more.clone(), other: one.other.clone() })
            .collect();
        seen.push(Seen { what: "all ways".into(), features, kinds, trials });
    }
    let mut factorials = Factorials::default();
    let mut all: Vec<Tested> = seen.iter().flat_map(|one| one.tests(&mut factorials)).collect();
    all.sort_by(|a, b| a.probability.total_cmp(&b.probability));
    let bound = LEVEL / all.len().max(1) as f64;
    for tested in &all {
        let Tested { what, probability, is_control, figures } = tested;
        let line = format!("{what}: {figures}; by chance {probability:.1e}");
        if *probability < bound && *is_control {
            return Err(Stop::Broken(format!(
                "attack_guess: the instrument tells two wrong ones apart: {line}"
            )));
        } else if *probability < bound {
            println!("attack_guess: finding: {line}");
            findings += 1;
        } else if std::env::var_os("KENNEL_ATTACK_LOG").is_some() {
            println!("{}{line}", if *is_control { "control: " } else { "" });
        }
    }
    if errors as f64 > MAX_ERRORS * requests as f64 {
        return Err(Stop::Broken(format!("attack_guess: {errors} of {requests} requests came to nothing")));
    }
    let least = all.first().map_or(1.0, |tested| tested.probability);
    let pairs = seen.last().map_or(0, |all| all.trials.iter().filter(|trial| trial.is_pair).count());
    println!(
        "attack_guess: {requests} requests, {pairs} pairs and {} controls, {errors} errors, {findings} findings; the least probable of {} \
         tests is {least:.1e} by chance, {bound:.1e} would be a finding",
        requests / 2 - pairs,
        all.len()
    );
    Ok(findings)
}
