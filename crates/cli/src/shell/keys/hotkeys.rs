//! `sleeve cli --hotkeys`: the keys that are used the most, by the counters of a server that evicts by LFU.

use std::io;

use super::census::quoted;
use super::{Listing, sample};
use crate::interrupt::Interrupt;
use crate::output;
use crate::shell::connection::{Connection, error_of, number_of};

/// The number of keys that are named.
const HOTTEST_COUNT: usize = 16;

/// Looks at every key and prints the hottest, even if Ctrl-C comes before the end.
///
/// Fails if the server keeps no counters.
pub fn run(connection: &mut Connection, listing: &Listing, interrupt: &Interrupt) -> io::Result<()> {
    let mut hottest: Vec<(u64, Vec<u8>)> = Vec::new();
    let look = |connection: &mut Connection, keys: &[Vec<u8>], percent: f64| {
        let requests: Vec<[&[u8]; 3]> = keys.iter().map(|key| [b"OBJECT".as_slice(), b"FREQ", key]).collect();
        for (key, reply) in keys.iter().zip(connection.ask_all(&requests)?) {
            if let Some(text) = error_of(&reply) {
                // For a key that was removed, Redis 7.0 replies with null, other servers with an error.
                if text.contains("no such key") {
                    continue;
                }
                return Err(io::Error::other(text));
            }
            if let Some(count) = number_of(&reply)
                && take(&mut hottest, key, count)
            {
                let name = quoted(key);
                output::line(format_args!("[{percent:05.2}%] Hot key '{name}' found so far with counter {count}"));
            }
        }
        Ok(())
    };
    let progress = sample(connection, listing, interrupt, "those that are used the most", look)?;
    progress.summarize();
    for (count, key) in &hottest {
        output::line(format_args!("hot key found with counter: {count}\tkeyname: {}", quoted(key)));
    }
    Ok(())
}

/// Keeps a key if it is among the hottest; among equals the first one found comes first. Returns whether it was kept.
fn take(hottest: &mut Vec<(u64, Vec<u8>)>, key: &[u8], count: u64) -> bool {
    let place = hottest.partition_point(|(other, _)| *other >= count);
    if count == 0 || place >= HOTTEST_COUNT {
        return false;
    }
    hottest.insert(place, (count, key.to_vec()));
    hottest.truncate(HOTTEST_COUNT);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_stay_in_order() {
        let mut hottest = Vec::new();
        for count in (1..=40).chain(1..=40) {
            take(&mut hottest, count.to_string().as_bytes(), count);
        }
        let counts: Vec<u64> = hottest.iter().map(|(count, _)| *count).collect();
        assert_eq!(counts, [40, 40, 39, 39, 38, 38, 37, 37, 36, 36, 35, 35, 34, 34, 33, 33]);
        assert!(!take(&mut hottest, b"cold", 33));
    }
}
