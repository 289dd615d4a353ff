//! Amounts as people write them: sizes, durations and shares of a CPU.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::printed::show;

/// Why a text is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a size.
    #[error("`{0}` is not a size; write bytes, or a number with K, M, G or T, such as `512M` or `1.5G`")]
    Size(String),
    /// Not a duration.
    #[error("`{0}` is not a duration; write seconds, or a value such as `500ms`, `30s`, `1m30s` or `2h`")]
    Duration(String),
    /// Not a number of CPUs.
    #[error("`{0}` is not a number of CPUs; write a number such as `1.5`, from {low} to {high}", low = CPUS.start(), high = CPUS.end())]
    Cpus(String),
    /// Not a whole number.
    #[error("`{0}` is not a whole number from {1} to {2}")]
    Count(String, u32, u32),
}

/// Reads a size in bytes. K, M, G and T are powers of 1024, with `B` or `iB` behind them or not.
///
/// ```
/// assert_eq!(kennel_policy::quantity::size("1.5G"), Ok(1_610_612_736));
/// ```
pub fn size(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::Size(show(text.as_bytes()));
    let (number, unit) = split_number(text);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(bad()),
    };
    if shift == 0 && number.contains('.') {
        return Err(bad());
    }
    scaled(number, 1 << shift).ok_or_else(bad)
}

/// Reads a duration: seconds, or numbers with `ms`, `s`, `m`, `h` or `d`, the larger units first.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(kennel_policy::quantity::duration("1m30s"), Ok(Duration::from_secs(90)));
/// ```
pub fn duration(text: &str) -> Result<Duration, QuantityError> {
    const MILLISECOND: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MILLISECOND;

    let bad = || QuantityError::Duration(show(text.as_bytes()));
    let mut rest = text;
    let mut nanoseconds = 0u64;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let unit = match unit {
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            "d" => 86_400 * SECOND,
            // A bare number is seconds, but not behind another number: `1m30` could mean either.
            "" if number.len() == text.len() => SECOND,
            _ => return Err(bad()),
        };
        let part = scaled(number, unit).ok_or_else(bad)?;
        nanoseconds = nanoseconds.checked_add(part).filter(|_| unit < last_unit).ok_or_else(bad)?;
        last_unit = unit;
        rest = after;
    }
    if text.is_empty() { Err(bad()) } else { Ok(Duration::from_nanos(nanoseconds)) }
}

/// How many CPUs a limit can be: below a hundredth the kernel's scheduler has no quota to give, and no machine has more than
/// the most.
pub const CPUS: RangeInclusive<f64> = 0.01..=65536.0;

/// Reads a number of CPUs.
pub fn cpus(text: &str) -> Result<f64, QuantityError> {
    let bad = || QuantityError::Cpus(show(text.as_bytes()));
    let (number, rest) = split_number(text);
    let value: f64 = number.parse().map_err(|_| bad())?;
    if rest.is_empty() && CPUS.contains(&value) { Ok(value) } else { Err(bad()) }
}

/// Reads a whole number within bounds.
pub fn count(text: &str, low: u32, high: u32) -> Result<u32, QuantityError> {
    let bad = || QuantityError::Count(show(text.as_bytes()), low, high);
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let value = text.parse().map_err(|_| bad())?;
    if (low..=high).contains(&value) { Ok(value) } else { Err(bad()) }
}

/// The digits (and one dot) in front, and what follows.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    text.split_at(end)
}

/// A decimal number times a unit, exactly; `None` when it is no number or too large.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let tenths = u32::try_from(fraction.len()).ok()?;
    let fraction = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let part = fraction * u128::from(unit) / 10u128.pow(tenths);
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("512M", 512 << 20),
            ("512m", 512 << 20),
            ("1.5G", 3 << 29),
            ("2KiB", 2048),
            ("2KB", 2048),
            ("100B", 100),
            ("0.5K", 512),
            ("1T", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in
            ["", "M", "-1", "+1", "1.5", "1..5M", "1.M", ".5M", "1 M", "1X", "lots", "99999999T", "1e3", "١M"]
        {
            assert!(size(text).is_err(), "{text}");
        }
        let message = size("lots").unwrap_err().to_string();
        assert_eq!(
            message,
            "`lots` is not a size; write bytes, or a number with K, M, G or T, such as `512M` or `1.5G`"
        );
    }

    #[test]
    fn durations_add_their_parts() {
        let cases = [
            ("30", 30_000),
            ("0.5", 500),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1h1m1s1ms", 3_661_001),
            ("1.5s", 1500),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "s", "-1s", "1m30", "30s1m", "1s1s", "1 s", "1w", "soon", "99999999999999d", "1.s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpus_are_positive_and_finite() {
        assert_eq!(cpus("1.5"), Ok(1.5));
        assert_eq!(cpus("8"), Ok(8.0));
        for text in ["0", "-1", "inf", "NaN", "1e9", "", "all", "100000"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_stay_within_bounds() {
        assert_eq!(count("64", 1, 100), Ok(64));
        for text in ["0", "101", "+5", "", "5.0", "99999999999"] {
            assert!(count(text, 1, 100).is_err(), "{text}");
        }
    }
}
