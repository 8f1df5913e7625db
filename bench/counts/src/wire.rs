//! The protocol: requests cut out of bytes, commands found by their names, replies written and scanned.

use std::hint::black_box;

use sleeve_wire::commands;
use sleeve_wire::frame::{Scanner, decode};
use sleeve_wire::reply::{Protocol, Writer};
use sleeve_wire::request::{Batch, Limits, Parser};

use crate::counting::{bench, key, request};

/// Operations of one benchmark.
const COUNT: usize = 1_024;

/// The number of requests that have arrived together, where several do.
const DEPTH: usize = 64;

/// Runs all of this file.
pub fn run() {
    let get = request(&["GET", &key(12_345)]);
    parse("parse/get", &get, DEPTH);
    parse("parse/get-alone", &get, 1);
    parse("parse/set", &request(&["SET", &key(12_345), "xxxxxxxxxxxxxxxx"]), DEPTH);
    look_up_names();
    write_replies();
    scan_replies();
}

fn parse(name: &str, request: &[u8], together: usize) {
    let (mut parser, mut batch, limits) = (Parser::new(), Batch::new(), Limits::default());
    let bytes = request.repeat(together);
    bench(name, COUNT, || {
        for _ in 0..COUNT / together {
            batch.clear();
            let consumed = parser.parse(black_box(&bytes), &limits, &mut batch);
            assert!(consumed == Ok(bytes.len()) && batch.len() == together);
        }
    });
}

fn look_up_names() {
    let names: [&[u8]; 8] = [b"GET", b"set", b"INCR", b"mset", b"PING", b"EXPIRE", b"GETRANGE", b"incrbyfloat"];
    bench("dispatch/name", COUNT, || {
        for _ in 0..COUNT / names.len() {
            names.iter().for_each(|name| _ = black_box(commands::find(black_box(name))));
        }
    });
}

fn write_replies() {
    let mut out = Vec::new();
    bench("reply/bulk", COUNT, || {
        out.clear();
        let mut writer = Writer::new(&mut out, Protocol::Resp2);
        (0..COUNT).for_each(|_| writer.bulk(black_box(b"0123456789abcdef")));
    });
    bench("reply/integer", COUNT, || {
        out.clear();
        let mut writer = Writer::new(&mut out, Protocol::Resp2);
        (0..COUNT as i64).for_each(|number| writer.integer(black_box(number * 131)));
    });
}

fn scan_replies() {
    let array = b"*3\r\n$3\r\nabc\r\n:12\r\n$-1\r\n";
    bench("frame/scan-array", COUNT, || {
        for _ in 0..COUNT {
            assert_eq!(Scanner::new().scan(black_box(array)), Ok(Some(array.len())));
        }
    });
    bench("frame/decode-array", COUNT, || {
        for _ in 0..COUNT {
            assert!(decode(black_box(array)).is_ok());
        }
    });
}
