//! Times and widths of lines on a command line.

use std::time::Duration;

/// Parses a round trip, and refuses one that is so long that it must be a typing error.
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

/// Reads bits a second such as `1.8mbit`, `100kbit` or `1gbit`.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    let units = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let found = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = found.ok_or("a bandwidth needs a unit: kbit, mbit or gbit")?;
    let number: f64 = number.parse().map_err(|_| format!("'{number}' is not a number"))?;
    let bits = number * factor;
    if (8e3..=1e12).contains(&bits) { Ok(bits as u64) } else { Err("a bandwidth is 8kbit to 1000gbit".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_a_number_and_a_unit() {
        assert_eq!(bandwidth("1.8mbit"), Ok(1_800_000));
        assert_eq!(bandwidth("8kbit"), Ok(8_000));
        for bad in ["", "3", "mbit", "-1mbit", "1bit", "NaNmbit", "7kbit", "1e30gbit"] {
            assert!(bandwidth(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_a_number_and_a_unit() {
        assert_eq!(round_trip("0.3ms"), Ok(Duration::from_micros(300)));
        assert_eq!(round_trip("50us"), Ok(Duration::from_micros(50)));
        for bad in ["", "3", "ms", "-1ms", "1h", "11s"] {
            assert!(round_trip(bad).is_err(), "{bad}");
        }
    }
}
