//! `sleeve cli --scan`: the names of all keys, one a line.
//!
//! The walk and its pauses are those of all modes that look at every key (`keys`); here the names are printed.

use std::io;

use sleeve_wire::inline::quote;

use super::{Listing, Walk};
use crate::interrupt::Interrupt;
use crate::output;
use crate::shell::connection::Connection;
use crate::shell::format::Format;

/// Prints the names, in quotes if the format is for people; returns false if Ctrl-C came before the last.
pub fn run(connection: &mut Connection, listing: &Listing, format: &Format, interrupt: &Interrupt) -> io::Result<bool> {
    let mut walk = Walk::new(listing);
    loop {
        let keys = match walk.next(connection) {
            Err(_) if interrupt.is_heard() => return Ok(false),
            page => page?,
        };
        let Some(keys) = keys else { return Ok(true) };
        for key in keys {
            let mut line = Vec::new();
            match format {
                Format::Standard => quote(&key, &mut line),
                _ => line = key,
            }
            line.push(b'\n');
            output::bytes(&line);
        }
        output::flush();
        if !walk.is_done() && !interrupt.sleep(listing.pause) {
            return Ok(false);
        }
    }
}
