//! `sleeve cli --scan`: the names of all keys, one a line.

use std::io;
use std::thread;
use std::time::Duration;

use sleeve_wire::frame::{Frame, decode};

use super::connection::Connection;
use super::format::Format;
use super::text::quote;
use crate::output;

/// Which keys to list, and how gently.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Glob pattern of the names.
    pub pattern: Option<Vec<u8>>,
    /// COUNT of each SCAN.
    pub count: Option<u32>,
    /// Pause after each SCAN.
    pub pause: Duration,
}

/// Prints the names, in quotes where the format is for people.
pub fn run(connection: &mut Connection, listing: &Listing, format: &Format) -> io::Result<()> {
    let mut cursor = b"0".to_vec();
    loop {
        let mut words = vec![b"SCAN".to_vec(), cursor];
        if let Some(pattern) = &listing.pattern {
            words.extend([b"MATCH".to_vec(), pattern.clone()]);
        }
        if let Some(count) = listing.count {
            words.extend([b"COUNT".to_vec(), count.to_string().into_bytes()]);
        }
        connection.send(&words)?;
        let reply = connection.receive_reply(|_| {})?;
        cursor = print(&reply, format)?;
        output::flush();
        if cursor == b"0" {
            return Ok(());
        }
        thread::sleep(listing.pause);
    }
}

/// Prints the keys of one reply and returns its cursor.
fn print(reply: &[u8], format: &Format) -> io::Result<Vec<u8>> {
    let unexpected = || io::Error::new(io::ErrorKind::InvalidData, "Unexpected reply of SCAN");
    let (frame, _) = decode(reply).map_err(|_| unexpected())?;
    let mut items = match frame {
        Frame::Array(items) => items,
        Frame::Error(text) => return Err(io::Error::other(String::from_utf8_lossy(text).into_owned())),
        _ => return Err(unexpected()),
    };
    let (Some(Ok(Frame::Bulk(cursor))), Some(Ok(Frame::Array(keys)))) = (items.next(), items.next()) else {
        return Err(unexpected());
    };
    for key in keys {
        let Ok(Frame::Bulk(key)) = key else { return Err(unexpected()) };
        let mut line = Vec::new();
        match format {
            Format::Standard => quote(key, &mut line),
            _ => line.extend_from_slice(key),
        }
        line.push(b'\n');
        output::bytes(&line);
    }
    Ok(cursor.to_vec())
}
