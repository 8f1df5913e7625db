//! Times on a command line.

use std::time::Duration;

/// A round trip that is no error of typing.
pub fn round_trip(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time > Duration::from_secs(10) { Err("the longest round trip is 10s".to_owned()) } else { Ok(time) }
}

/// Reads a time such as `0.3ms`, `250us` or `1s`.
pub fn time(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err("a time needs a unit: us, ms or s".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{number}' is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_number_and_a_unit() {
        assert_eq!(round_trip("0.3ms"), Ok(Duration::from_micros(300)));
        assert_eq!(round_trip("50us"), Ok(Duration::from_micros(50)));
        for bad in ["", "3", "ms", "-1ms", "1h", "11s"] {
            assert!(round_trip(bad).is_err(), "{bad}");
        }
    }
}
