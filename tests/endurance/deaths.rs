//! SIGKILL of any process of a program that starts sandboxes all day long, at random moments: the program itself, its
//! zygote, a helper, PID 1, a command. What is not killed goes on, and in the end nothing is left.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio as StdStdio};
use std::time::Duration;

use kennel::{Sandbox, Zygote};
use kennel_tests::leftovers::{
    Host, adopt_orphans, children_of, descendants_of, processes_left_with, reap_everything, unique_sleep,
};
use kennel_tests::{Scratch, ran_within, role};

use crate::endurance::holdings::named_sockets;
use crate::endurance::{alone, patience, scaled};

/// Numbers that look random and are the same again for the same seed.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    fn moment(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.throw(longest.as_micros().try_into().unwrap_or(usize::MAX)) as u64)
    }
}

/// The role: a program with a zygote and sandboxes of each kind, some that stay and some that come and go. It says its
/// zygote's numbers first, then a letter for each sandbox that ended well, until its input ends.
pub fn host(arguments: &[OsString]) -> i32 {
    let (work, sleep) = (arguments[0].clone(), arguments[1].to_string_lossy().into_owned());
    let zygote = Zygote::start().expect("a zygote");
    // With the first sandbox comes the second process of a zygote.
    let first = Sandbox::builder().build().expect("plain").run("true", &[]);
    assert!(first.expect("it runs").success());
    println!("{}", zygote.ids().iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    let sandbox = move || {
        let builder =
            Sandbox::builder().allow_write(&work).deny_read(std::path::Path::new(&work).join("secret"));
        builder.deny_write(std::path::Path::new(&work).join("absent")).build().expect("a plain configuration")
    };
    let script = format!("sleep {sleep} & setsid sleep {sleep} & exec sleep {sleep}");
    // One that stays: after a tenth of a second it has a helper, because of what is denied.
    {
        let (sandbox, script) = (sandbox.clone(), script.clone());
        std::thread::spawn(move || {
            loop {
                // Whoever is killed is started again.
                if let Ok(mut child) = sandbox().spawn("sh", &["-c", &script]) {
                    let _ = child.wait();
                }
            }
        });
    }
    for _ in 0..2 {
        let sandbox = sandbox.clone();
        std::thread::spawn(move || {
            let sandbox = sandbox();
            loop {
                if sandbox.run("sh", &["-c", "true & exit 3"]).is_ok_and(|result| result.exit_code == 3) {
                    let mut out = std::io::stdout().lock();
                    let _ = out.write_all(b".\n").and_then(|()| out.flush());
                }
            }
        });
    }
    // In sessions: one goes on until it is killed, and then there is another.
    {
        let sandbox = sandbox.clone();
        std::thread::spawn(move || {
            loop {
                let Ok(session) = sandbox().session() else { continue };
                let _ = session.command("sh").args(["-c", &format!("setsid sleep {sleep} &")]).output();
                let command = || session.run("sh", &["-c", &format!("true {IN_SESSION} & exit 3")]);
                // A command that was killed itself says so, and the session goes on.
                while let Ok(result) = command() {
                    if result.exit_code == 3 {
                        let mut out = std::io::stdout().lock();
                        let _ = out.write_all(b"s\n").and_then(|()| out.flush());
                    }
                }
            }
        });
    }
    // And from a pool.
    let pool = zygote.pool(&sandbox(), 3).expect("a pool");
    std::thread::spawn(move || {
        loop {
            if pool.run("sh", &["-c", "true & exit 3"]).is_ok_and(|result| result.exit_code == 3) {
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(b"p\n").and_then(|()| out.flush());
            }
        }
    });
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    // As a program ends that nobody kills.
    0
}

/// A word by which the commands of a session are known.
const IN_SESSION: &str = "in-a-session";

/// The ways in which the program starts sandboxes over and over.
const WAYS: [&str; 3] = [".", "p", "s"];

/// Waits until some more sandboxes of each way have ended well; false when the program has ended.
fn goes_on(lines: &mut std::io::Lines<BufReader<ChildStdout>>) -> bool {
    let mut counts = [0; WAYS.len()];
    for line in lines.map_while(Result::ok) {
        for (count, _) in counts.iter_mut().zip(WAYS).filter(|(_, way)| *way == line) {
            *count += 1;
        }
        // Some may have been on their way.
        if counts.iter().all(|count| *count >= 5) {
            return true;
        }
    }
    false
}

/// One program, and one death.
fn one(
    work: &std::path::Path,
    sleep: &str,
    dice: &mut Dice,
    hit: &mut BTreeMap<&'static str, u32>,
) -> Result<(), String> {
    let mut command = role::play("host");
    command.arg(work).arg(sleep).stdin(StdStdio::piped()).stdout(StdStdio::piped()).stderr(StdStdio::piped());
    let mut child = command.spawn().expect("this executable");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let said = lines.next().and_then(Result::ok).unwrap_or_default();
    let zygotes: Vec<u32> = said.split(' ').filter_map(|number| number.parse().ok()).collect();
    let wrong = |child: &mut Child, what: String| {
        let _ = child.kill();
        let mut said = String::new();
        let _ = std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut said);
        let _ = child.wait();
        Err(format!("{what}: {said}"))
    };
    let &[first, second] = zygotes.as_slice() else {
        return wrong(&mut child, format!("it started no zygote, but said {said:?}"));
    };
    std::thread::sleep(dice.moment(Duration::from_millis(250)));
    let controller = child.id();
    let kinds = ["controller", "zygote", "helper", "PID 1", "command", "command of a session"];
    let kind = kinds[dice.throw(kinds.len())];
    let found = match kind {
        "controller" => vec![controller],
        "zygote" => vec![[first, second][dice.throw(2)]],
        // There is none before a sandbox has run for a tenth of a second.
        "helper" => (0..200).find_map(|_| some_helpers(controller, &zygotes)).unwrap_or_default(),
        "PID 1" => children_of(controller).into_iter().filter(|pid| is_first_inside(*pid)).collect(),
        "command" => descendants_of(children_of(controller)),
        _ => (0..200).find_map(|_| some_commands_of_a_session(controller)).unwrap_or_default(),
    };
    let victim = found.get(dice.throw(found.len())).copied();
    if let Some(victim) = victim {
        *hit.entry(kind).or_default() += 1;
        // SAFETY: a plain call, on a process that was below this one a moment ago. Its number may have become that of another
        // process of this very test, which then has to bear it.
        unsafe { libc::kill(victim.cast_signed(), libc::SIGKILL) };
    }
    if kind != "controller" {
        // It goes on: sandboxes that are started after the death end well.
        if !goes_on(&mut lines) {
            return wrong(&mut child, format!("the program ended after the death of a {kind}"));
        }
        if dice.throw(2) == 0 {
            drop(child.stdin.take());
            let end = child.wait().map_err(|error| error.to_string())?;
            return if end.success() { Ok(()) } else { Err(format!("it ended with {end}")) };
        }
        child.kill().map_err(|error| error.to_string())?;
    }
    child.wait().map_err(|error| error.to_string())?;
    Ok(())
}

fn some_helpers(controller: u32, zygotes: &[u32]) -> Option<Vec<u32>> {
    let is_helper = |pid: &u32| !zygotes.contains(pid) && is_outside(*pid);
    let found: Vec<u32> = children_of(controller).into_iter().filter(is_helper).collect();
    if found.is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    (!found.is_empty()).then_some(found)
}

fn some_commands_of_a_session(controller: u32) -> Option<Vec<u32>> {
    let is_one = |pid: &u32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.windows(IN_SESSION.len()).any(|word| word == IN_SESSION.as_bytes()))
    };
    let found: Vec<u32> = descendants_of(children_of(controller)).into_iter().filter(is_one).collect();
    (!found.is_empty()).then_some(found)
}

/// Whether it is in the host's PID namespace, for all that this process can see.
fn is_outside(pid: u32) -> bool {
    numbers(pid).len() == 1
}

/// Whether it is the first process of a PID namespace.
fn is_first_inside(pid: u32) -> bool {
    let numbers = numbers(pid);
    numbers.len() > 1 && numbers.last().is_some_and(|number| number == "1")
}

/// Its numbers, from this process's PID namespace to its own.
fn numbers(pid: u32) -> Vec<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().map(str::to_owned).collect()
}

/// The role: kills, and looks at what is left. A process of its own, because it adopts all orphans below it.
pub fn killer(arguments: &[OsString]) -> i32 {
    let number = |at: usize| arguments[at].to_string_lossy().parse::<u64>().expect("a number");
    let (rounds, seed) = (number(0), number(1));
    adopt_orphans();
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let scratch = Scratch::new();
    let work = scratch.dir("work");
    scratch.write("work/secret", "secret\n");
    let (before, host, sleep) = (scratch.listing(), Host::now(), unique_sleep());
    let (mut wrong, mut hit) = (Vec::new(), BTreeMap::new());
    for round in 0..rounds {
        wrong.extend(one(&work, &sleep, &mut dice, &mut hit).err());
        // Of each, now and then: all that is looked for takes longer than a round.
        if round % 10 == 9 || round + 1 == rounds {
            wrong.extend(
                reap_everything(Duration::from_secs(10)).into_iter().map(|line| format!("left: {line}")),
            );
            wrong.extend(processes_left_with(&sleep).into_iter().map(|line| format!("left: {line}")));
        }
        if wrong.len() > 5 {
            break;
        }
    }
    wrong.extend(host.left().into_iter().map(|found| format!("left: {found}")));
    wrong.extend(named_sockets().into_iter().map(|found| format!("left: {found}")));
    if scratch.listing() != before {
        wrong.push(format!("files: {before:?} became {:?}", scratch.listing()));
    }
    println!("{rounds} rounds, seed {seed}, killed: {hit:?}");
    let every = ["controller", "zygote", "helper", "PID 1", "command", "command of a session"];
    if rounds >= 40 && !every.iter().all(|kind| hit.contains_key(kind)) {
        wrong.push("not every kind of process was hit".into());
    }
    wrong.iter().take(20).for_each(|line| println!("WRONG: {line}"));
    i32::from(!wrong.is_empty())
}

#[test]
#[kennel_claim::claim("ends/nothing-after-a-zygotes-caller")]
fn nothing_is_left_when_any_process_of_a_program_with_a_zygote_is_killed_at_any_moment() {
    let _alone = alone();
    let seed = std::time::UNIX_EPOCH.elapsed().expect("after 1970").subsec_nanos();
    let mut command = role::play("killer");
    command.args([scaled(40, 500).to_string(), seed.to_string()]);
    print!("{}", ran_within(patience(), &mut command).ok().stdout);
}
