//! Arbitrary bytes from a primary to its replica: replies to its requests, a dump, and the stream after it.
//!
//! The first byte selects the options with which the replica introduces itself, and the second is the size of the pieces in
//! which the bytes arrive. The result is the same for every size. The replica sends complete requests, and its journal has
//! the part of the stream that is applied. The commands that the target `session` leaves out are left out of the stream.

#![no_main]

mod left_out;

use libfuzzer_sys::fuzz_target;
use sleeve_server::config::{Config, Opt};
use sleeve_server::engine::Engine;
use sleeve_server::host::clock::Instant;
use sleeve_server::link::{LinkError, Event, Introduction, Link};
use sleeve_server::{Address, Id, Replay, follow_primary};
use sleeve_wire::request::{Batch, Limits, Parser};

/// The maximum length of a string in this target.
const STRING_MAX: &[u8] = b"1mb";

const LEFT_OUT: [&[u8]; 3] = [b"config", b"debug", b"shutdown"];

/// The beginnings of the names of commands that run scripts. Scripts run on stacks of their own, and there the address
/// sanitizer reports false errors after an error of Lua. The target `session` runs these commands.
const SCRIPTS: [&[u8]; 3] = [b"eval", b"fcall", b"function"];

/// The bytes that a replica has received and sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    said: Vec<u8>,
    events: Vec<String>,
    dump: Vec<u8>,
    /// The remaining bytes, which belong to the stream; none if the stream has not begun.
    stream: Option<Vec<u8>>,
    broken: Option<LinkError>,
}

fuzz_target!(|data: &[u8]| {
    let [own, size, bytes @ ..] = data else { return };
    let piece = usize::from(*size) + 1;
    let whole = hear(*own, bytes, bytes.len().max(1));
    assert_eq!(whole, hear(*own, bytes, piece), "cut every {piece} bytes");
    assert!(whole.dump.len() <= bytes.len());
    assert!(count_requests(&whole.said).is_some_and(|count| (1..=7).contains(&count)), "what is said is requests");
    if let Some(stream) = whole.stream {
        apply(&stream, piece);
    }
});

fn introduction(own: u8) -> Introduction {
    let has = |bit: u8| own & 1 << bit != 0;
    Introduction {
        credentials: has(0).then(|| (has(1).then(|| b"app".to_vec()), b"secret".to_vec())),
        port: 6_379,
        address: has(2).then(|| b"10.0.0.7".to_vec()),
        version: "9.0.0",
        has: has(3).then(|| (Id::of_bytes([0x11; 20]), 99)),
        hands_over: has(4),
    }
}

fn hear(own: u8, bytes: &[u8], piece: usize) -> Heard {
    let mut heard = Heard::default();
    let mut link = Link::begin(introduction(own), &mut heard.said);
    for chunk in bytes.chunks(piece) {
        let mut rest = chunk;
        while heard.broken.is_none() {
            match link.receive(rest, &mut heard.said) {
                Ok((0, None)) => break,
                Ok((used, event)) => {
                    rest = &rest[used..];
                    match event {
                        None => {}
                        Some(Event::Part(part)) => heard.dump.extend_from_slice(part),
                        Some(event) => heard.events.push(format!("{event:?}")),
                    }
                }
                Err(broken) => heard.broken = Some(broken),
            }
        }
        if link.is_streaming() {
            heard.stream.get_or_insert_default().extend_from_slice(rest);
        }
    }
    heard
}

/// Returns the number of requests in these bytes; none if they are not complete requests.
fn count_requests(bytes: &[u8]) -> Option<usize> {
    let mut batch = Batch::new();
    let used = Parser::new().parse(bytes, &Limits::default(), &mut batch).ok()?;
    (used == bytes.len()).then_some(batch.len())
}

/// Applies the stream of a primary to an empty engine.
fn apply(stream: &[u8], piece: usize) {
    if left_out::is_asked_for(stream, &LEFT_OUT, &SCRIPTS) {
        return;
    }
    let config = Config::default();
    config.assign(Opt::ProtoMaxBulkLen, &[STRING_MAX]).expect("the option takes a size");
    let engine = Engine::new(config);
    follow_primary(&engine, Address { host: "127.0.0.1".to_owned(), port: 1 });
    let (mut copy, mut waiting) = (Replay::copy(&engine, 0), Vec::new());
    for piece in stream.chunks(piece) {
        waiting.extend_from_slice(piece);
        let Ok(used) = copy.apply(&waiting, Instant::now()) else {
            assert!(engine.journal.end() <= copy.offset() + waiting.len() as u64);
            return;
        };
        waiting.drain(..used);
        assert_eq!(engine.journal.end(), copy.open_transaction().unwrap_or(copy.offset()));
    }
}
