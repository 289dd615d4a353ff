//! The time of a release: the same for everything in it, so that it can be built again.

use std::process::Command;

use crate::cargo;
use crate::debian::run;

/// Seconds since 1970: `SOURCE_DATE_EPOCH` where somebody sets it, else when the last commit was made, else 1980, which is
/// what archives have for "no time".
pub fn of_release() -> u64 {
    let told = std::env::var("SOURCE_DATE_EPOCH").ok();
    let commit =
        || run(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(cargo::root())).ok();
    told.or_else(commit).and_then(|text| text.trim().parse().ok()).unwrap_or(315_532_800)
}

/// As in `2026-11-16T18:32:41Z`.
pub fn iso(time: u64) -> String {
    let (year, month, day) = civil(time / 86400);
    let (hour, minute, second) = clock(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// As in `Mon, 16 Nov 2026 18:32:41 +0000`.
pub fn rfc2822(time: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (year, month, day) = civil(time / 86400);
    let (hour, minute, second) = clock(time);
    let weekday = DAYS[usize::try_from(time / 86400 % 7).unwrap_or(0)];
    let month = MONTHS[month - 1];
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

fn clock(time: u64) -> (u64, u64, u64) {
    (time / 3600 % 24, time / 60 % 60, time % 60)
}

/// Year, month and day of a number of days since 1970.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(iso(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso(1_794_853_961), "2026-11-16T18:32:41Z");
        assert_eq!(rfc2822(1_794_853_961), "Mon, 16 Nov 2026 18:32:41 +0000");
    }
}
