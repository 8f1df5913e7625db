//! Writing data into a server, many requests at a time, before something is measured.

use std::ops::Range;

use sleeve_tests::Connection;
use sleeve_tests::connection::request;

/// The number of requests that are sent at once; their replies fit into any socket buffer.
pub const CHUNK: u64 = 500;

const VALUE_BYTES: usize = 200;

/// A source of bytes that cannot be compressed, the same in every run (SplitMix64).
pub struct Noise(pub u64);

impl Noise {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Returns the name of a key by its number, as the generator makes them.
pub fn key(number: u64) -> String {
    format!("key:{number:012}")
}

/// Returns the SET of a key with a value of 200 bytes of noise.
pub fn string(number: u64, noise: &mut Noise) -> Vec<Vec<u8>> {
    let value = (0..VALUE_BYTES / 8).flat_map(|_| noise.next().to_le_bytes()).collect();
    vec![b"SET".to_vec(), key(number).into_bytes(), value]
}

/// Sends the requests of these numbers and takes their replies.
///
/// # Errors
/// When the connection breaks or a reply is an error.
pub fn write<A: AsRef<[u8]>>(
    connection: &mut Connection,
    numbers: Range<u64>,
    mut words: impl FnMut(u64) -> Vec<A>,
) -> Result<(), String> {
    let (mut next, end) = (numbers.start, numbers.end);
    while next < end {
        let count = CHUNK.min(end - next);
        let bytes: Vec<u8> = (next..next + count).flat_map(|number| request(&words(number))).collect();
        connection.send(&bytes).map_err(|error| error.to_string())?;
        for _ in 0..count {
            refuse_error(connection.reply().map_err(|error| error.to_string())?)?;
        }
        next += count;
    }
    Ok(())
}

/// Sends one request; returns its reply.
///
/// # Errors
/// As [`write()`].
pub fn ask(connection: &mut Connection, words: &[&str]) -> Result<String, String> {
    refuse_error(connection.command(words).map_err(|error| error.to_string())?)
}

fn refuse_error(reply: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8_lossy(&reply).into_owned();
    if text.starts_with('-') { Err(text) } else { Ok(text) }
}
