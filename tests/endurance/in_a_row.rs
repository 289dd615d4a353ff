//! Thousands of sandboxes, one after the other, in one program.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use kennel::{Sandbox, Zygote};
use kennel_tests::leftovers::Host;
use kennel_tests::{eventually, is_full, ran_within, role};

use crate::endurance::holdings::{Holdings, named_sockets, of_the_kernel};
use crate::endurance::{alone, patience, scaled};

/// The role: runs many by one of the ways, and compares what it, its zygote and its session hold before and after.
pub fn runner(arguments: &[OsString]) -> i32 {
    let (way, count) = (arguments[0].to_string_lossy(), arguments[1].to_string_lossy());
    let count: u32 = count.parse().expect("a number");
    let host = Host::now();
    let zygote = (way != "fresh").then(|| Zygote::start().expect("a zygote"));
    let zygote_pids = || zygote.as_ref().map(Zygote::ids).unwrap_or_default();
    // Rules of each kind: what they hold is to be let go as well.
    let sandbox = Sandbox::builder()
        .allow_write("/var/tmp")
        .deny_write("/var/tmp/kennel-test-absent")
        .build()
        .expect("a plain configuration");
    let size = 8;
    let pool = (way == "pool").then(|| {
        let zygote = zygote.as_ref().expect("it has been started");
        zygote.pool(&sandbox, size).expect("a pool")
    });
    let session = (way == "session").then(|| sandbox.session().expect("a session"));
    let first_inside = session.as_ref().map(kennel::Session::id);
    let holdings = || {
        Holdings::now(&[
            ("zygote", zygote_pids().first().copied()),
            ("lender of networks", zygote_pids().get(1).copied()),
            ("session", first_inside),
        ])
    };
    let once = |number: u32| {
        let word = number.to_string();
        match &*way {
            "pool" => {
                let result = pool.as_ref().expect("it has been made").run("echo", &[&word]);
                assert_eq!(result.expect("it runs").stdout, format!("{word}\n"));
            }
            "fresh" | "zygote" => {
                assert_eq!(sandbox.run("echo", &[&word]).expect("it runs").stdout, format!("{word}\n"));
            }
            "session" => {
                let session = session.as_ref().expect("it has been started");
                assert_eq!(session.run("echo", &[&word]).expect("it runs").stdout, format!("{word}\n"));
            }
            other => panic!("no way called {other}"),
        }
    };
    // A pool that is full again holds what it held before.
    let settle = || {
        if let Some(pool) = &pool {
            eventually("the pool is full", || (pool.ready() == size).then_some(()));
        }
    };
    // A sandbox with denied paths has its names watched from a tenth of a second on, until its end.
    let warm = Instant::now() + Duration::from_millis(500);
    (0..).take_while(|number| *number < count.min(50) || Instant::now() < warm).for_each(&once);
    settle();
    let (before, kernel_before, first_zygote) = (holdings(), of_the_kernel(), zygote_pids());
    let began = Instant::now();
    (0..count).for_each(&once);
    println!("{count} runs, {way}: {:?} each", began.elapsed() / count);
    assert_eq!(zygote_pids(), first_zygote, "it was never replaced");
    // The last thread that was joined leaves /proc a moment later; so does what is seen to in the background.
    let after = eventually("nothing has grown", || {
        settle();
        let after = holdings();
        let grown = after.grown_since(&before);
        grown.iter().for_each(|what| println!("still: {what}"));
        grown.is_empty().then_some(after)
    });
    println!("before: {before}\nafter: {after}");
    // What the kernel has let go is counted late and roughly: only thousands stand out.
    if let (Some(before), Some(_), true) = (kernel_before, of_the_kernel(), is_full()) {
        // Some are on their way out, and other programs have theirs: one per run would be ten times as many.
        eventually("the kernel has let its namespaces and mounts go", || {
            let after = of_the_kernel()?;
            let few = before.iter().zip(&after).all(|((name, before), (_, after))| {
                let per_sandbox = if name == "mnt_cache" { 40 } else { 1 };
                let most = u64::from(count / 10 + 50) * per_sandbox;
                *after <= before + most
            });
            few.then(|| println!("the kernel's: {before:?} became {after:?}"))
        });
    }
    drop((session, pool, zygote));
    assert_eq!(host.left(), Vec::<String>::new());
    assert_eq!(named_sockets(), Vec::<String>::new());
    0
}

fn nothing_grows(way: &str, few: u32) {
    let _alone = alone();
    let mut command = role::play("runner");
    let ran = ran_within(patience(), command.args([way, &scaled(few, 20_000).to_string()])).ok();
    print!("{}", ran.stdout);
}

#[test]
fn thousands_in_a_row_without_a_zygote_grow_nothing() {
    nothing_grows("fresh", 200);
}

#[test]
#[kennel_claim::claim("ends/numbers-use-nothing-up")]
fn thousands_in_a_row_with_a_zygote_grow_nothing() {
    nothing_grows("zygote", 300);
}

#[test]
#[kennel_claim::claim("ends/numbers-use-nothing-up")]
fn thousands_in_a_row_from_a_pool_grow_nothing() {
    nothing_grows("pool", 300);
}

#[test]
#[kennel_claim::claim("ends/numbers-use-nothing-up")]
fn thousands_of_commands_in_one_session_grow_nothing() {
    nothing_grows("session", 300);
}
