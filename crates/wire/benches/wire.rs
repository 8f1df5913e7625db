//! Times the hot paths of this crate, in nanoseconds on this machine: `cargo bench -p sleeve-wire`.
//!
//! Plain timing of many repetitions, the best of several rounds; no harness, no threads, no files.

use std::hint::black_box;
use std::time::Instant;

use sleeve_wire::commands;
use sleeve_wire::number;
use sleeve_wire::pattern;
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::request::{Batch, Limits, Parser};

const ROUNDS: usize = 15;

fn main() {
    parse("parse 64 x GET key(16)", &b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n".repeat(64), 64);
    parse("parse 64 x SET key(16) value(16)", &SET.repeat(64), 64);
    parse("parse 16 x MSET of 10", &mset().repeat(16), 16);
    parse("parse 64 x inline PING", &b"PING\r\n".repeat(64), 64);
    parse("parse 1 x GET", b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n", 1);

    let names: [&[u8]; 8] = [b"GET", b"set", b"INCR", b"mset", b"PING", b"EXPIRE", b"GETRANGE", b"incrbyfloat"];
    report("find a command by name", 8_000, || {
        for name in names.repeat(1_000) {
            black_box(commands::find(black_box(name)));
        }
    });
    let mut out = Vec::with_capacity(1 << 20);
    report("write a 16-byte bulk string", 8_000, || {
        out.clear();
        let mut writer = Writer::new(&mut out, Protocol::Resp2);
        (0..8_000).for_each(|_| writer.bulk(black_box(b"0123456789abcdef")));
    });
    report("write an integer", 8_000, || {
        out.clear();
        let mut writer = Writer::new(&mut out, Protocol::Resp2);
        (0..8_000).for_each(|n| writer.integer(black_box(n * 131)));
    });
    report("read an integer of 6 digits", 8_000, || {
        (0..8_000).for_each(|_| _ = black_box(number::parse_i64(black_box(b"123456"))));
    });
    report("match key:*:name", 8_000, || {
        (0..8_000)
            .for_each(|_| _ = black_box(pattern::matches(b"key:*:name", black_box(b"key:000000012345:name"), false)));
    });
}

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$16\r\nxxxxxxxxxxxxxxxx\r\n";

fn mset() -> Vec<u8> {
    let mut request = b"*21\r\n$4\r\nMSET\r\n".to_vec();
    (0..10).for_each(|_| request.extend_from_slice(b"$16\r\nkey:000000012345\r\n$16\r\nxxxxxxxxxxxxxxxx\r\n"));
    request
}

fn parse(what: &str, bytes: &[u8], requests: usize) {
    let (mut parser, mut batch, limits) = (Parser::new(), Batch::new(), Limits::default());
    let repetitions = 64_000 / requests;
    report(what, repetitions * requests, || {
        for _ in 0..repetitions {
            batch.clear();
            let consumed = parser.parse(black_box(bytes), &limits, &mut batch);
            assert!(consumed == Ok(bytes.len()) && batch.len() == requests);
        }
    });
}

/// Prints the time of one of the `count` operations that `run` does, in its best round.
fn report(what: &str, count: usize, mut run: impl FnMut()) {
    let best = (0..ROUNDS).map(|_| timed(&mut run)).min_by(f64::total_cmp).unwrap_or_default();
    println!("{what:36} {:8.1} ns", best / count as f64);
}

fn timed(run: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64
}
