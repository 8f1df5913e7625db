//! Arbitrary bytes to a complete embedded engine: every request gets a well-formed reply.
//!
//! The first byte is the size of the pieces in which the bytes arrive. The commands that affect the machine or lift the
//! limits of this target are left out: CONFIG, DEBUG and SHUTDOWN.

#![no_main]

mod left_out;

use libfuzzer_sys::fuzz_target;
use sleeve_server::config::{Config, Opt};
use sleeve_server::{Engine, Local};
use sleeve_wire::frame::Scanner;

/// The maximum length of a string in this target.
const STRING_MAX: &[u8] = b"1mb";

const LEFT_OUT: [&[u8]; 3] = [b"config", b"debug", b"shutdown"];

fuzz_target!(|data: &[u8]| {
    let [size, bytes @ ..] = data else { return };
    if left_out::is_asked_for(bytes, &LEFT_OUT, &[]) {
        return;
    }
    let config = Config::default();
    config.assign(Opt::ProtoMaxBulkLen, &[STRING_MAX]).expect("the option takes a size");
    let mut session = Local::open(&Engine::new(config), || {});
    let mut replies = Vec::new();
    for piece in bytes.chunks(usize::from(*size) + 1) {
        if session.exchange(piece, &mut replies).is_err() {
            break;
        }
    }
    let mut rest = replies.as_slice();
    while !rest.is_empty() {
        let length = Scanner::new().scan(rest).expect("a reply is well formed").expect("a reply is whole");
        rest = &rest[length..];
    }
});
