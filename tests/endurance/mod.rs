//! Sandboxes in numbers: many in a row, many at once, and the death of any process of a program that starts them all day
//! long. What such a program and its zygote hold is counted before and after.
//!
//! In the ordinary run the numbers are small. `KENNEL_ENDURANCE=full` asks for those that are promised: 500 at once, 20,000 in
//! a row, 500 deaths.

mod at_once;
mod deaths;
mod holdings;
mod in_a_row;

use kennel_tests::is_full;

kennel_tests::roles! {
    "holder" => at_once::holder,
    "runner" => in_a_row::runner,
    "host" => deaths::host,
    "killer" => deaths::killer,
}

/// One of these tests at a time: they count what the whole machine holds.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How many: few, or as many as are promised.
fn scaled(few: u32, promised: u32) -> u32 {
    if is_full() { promised } else { few }
}

/// How long it may take: what a stuck program would never reach, on a busy machine either.
fn patience() -> std::time::Duration {
    std::time::Duration::from_secs(if is_full() { 3600 } else { 180 })
}
