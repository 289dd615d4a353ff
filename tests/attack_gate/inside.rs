//! The part that runs in the sandbox: it makes tries and sends them, or sends those that it is handed.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::attack_gate::client::{Ways, is_canary};
use crate::attack_gate::servers::{ALLOWED_MARK, Kind, Place};
use crate::attack_gate::{file, tries};

/// How many are under way at a time: most of the time they wait.
const THREADS: usize = 24;

/// The places as words, for the one inside.
pub fn words(places: &[Place]) -> String {
    let word = |place: &Place| {
        let kind = match place.kind {
            Kind::Http => "http",
            Kind::Tls => "tls",
            Kind::Both => "both",
        };
        format!("{}:{kind}{}", place.port, if place.exact { "!" } else { "" })
    };
    places.iter().map(word).collect::<Vec<_>>().join(",")
}

fn places(words: &str) -> Vec<Place> {
    let place = |word: &str| {
        let (port, kind) = word.split_once(':')?;
        let exact = kind.ends_with('!');
        let kind = match kind.trim_end_matches('!') {
            "http" => Kind::Http,
            "tls" => Kind::Tls,
            _ => Kind::Both,
        };
        Some(Place { name: "", port: port.parse().ok()?, kind, proxied: false, exact })
    };
    words.split(',').filter_map(place).collect()
}

/// Does what the words say: `fuzz SEED SECONDS PLACES`, or `serve`.
pub fn run(arguments: &[OsString]) -> i32 {
    let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let ways = match Ways::inside() {
        Ok(ways) => ways,
        Err(error) => {
            eprintln!("no way out: {error}");
            return 2;
        }
    };
    match arguments.as_slice() {
        [word, seed, seconds, list] if word == "fuzz" => {
            let (seed, seconds) = (seed.parse().unwrap_or(0), seconds.parse().unwrap_or(0));
            fuzz(&ways, seed, Duration::from_secs(seconds), &places(list));
        }
        _ => serve(&ways),
    }
    0
}

fn fuzz(ways: &Ways, seed: u64, time: Duration, places: &[Place]) {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let deadline = begun + time;
    // How many were done in each tenth of the time.
    let tenths = [const { AtomicU64::new(0) }; 10];
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while Instant::now() < deadline {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if is_canary(&ways.send(&tries::make(seed, number, places))) {
                        println!("found {number}");
                    }
                    let tenth = 10.0 * begun.elapsed().as_secs_f64() / time.as_secs_f64();
                    if let Some(count) = tenths.get(tenth as usize) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("tries {}", next.load(Ordering::Relaxed));
    println!("serves {}", u8::from(still_serves(ways, places)));
    println!("first {}\nlast {}", tenths[0].load(Ordering::Relaxed), tenths[9].load(Ordering::Relaxed));
}

/// Whether the gate still carries what it should, after all that. One that has no places left carries nothing.
fn still_serves(ways: &Ways, places: &[Place]) -> bool {
    let Some(place) = places.iter().find(|place| place.kind == Kind::Http) else { return true };
    let attempt = crate::attack_gate::once(place, tries::Door::Direct, tries::ALLOWED);
    let shown = |answer: &[u8]| String::from_utf8_lossy(answer).contains(ALLOWED_MARK);
    (0..40).any(|_| shown(&ways.send(&attempt)))
}

/// Sends the files whose names come in, and says how it went.
fn serve(ways: &Ways) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let said = match file::read(Path::new(&line)) {
            Ok(attempt) => {
                let answer = ways.send(&attempt);
                let canary = if is_canary(&answer) { "canary" } else { "other" };
                format!("{canary} {}", answer.escape_ascii())
            }
            Err(error) => format!("error {error}"),
        };
        println!("{said}");
        let _ = std::io::stdout().flush();
    }
}
