//! Arbitrary bytes as the value in a dump: RESTORE accepts or refuses it, and an accepted value is intact.
//!
//! The version and the sum are appended to the bytes, so that every input reaches the code that reads values. An accepted
//! value is read, dumped and restored once more, which must give an equal value. Then it is changed at both ends and emptied.
//! A few bytes never become a large value: the bound is the decompressed length of a string and the overhead of an element.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sleeve_server::{Config, Engine, Local, Opt};
use sleeve_store::rdb;
use sleeve_wire::frame::Scanner;

/// The maximum number of bytes of memory for each byte of a dump: a decompressed string takes up to 88 times its size in the
/// dump.
const GROWTH_MAX: usize = 256;

/// The number of bytes that any value may take in addition, however small it is.
const SMALL_MAX: usize = 64 << 10;

/// The commands that read a value, for all types. Those for another type return an error.
const READS: [&[&[u8]]; 18] = [
    &[b"TYPE", b"a"],
    &[b"OBJECT", b"ENCODING", b"a"],
    &[b"MEMORY", b"USAGE", b"a"],
    &[b"STRLEN", b"a"],
    &[b"PFCOUNT", b"a"],
    &[b"LRANGE", b"a", b"0", b"-1"],
    &[b"LINDEX", b"a", b"-1"],
    &[b"SMEMBERS", b"a"],
    &[b"SRANDMEMBER", b"a", b"-3"],
    &[b"SSCAN", b"a", b"0"],
    &[b"HGETALL", b"a"],
    &[b"HRANDFIELD", b"a", b"-3", b"WITHVALUES"],
    &[b"ZRANGE", b"a", b"0", b"-1", b"WITHSCORES"],
    &[b"ZRANGEBYSCORE", b"a", b"(1", b"+inf", b"LIMIT", b"1", b"2"],
    &[b"ZREVRANK", b"a", b"a"],
    &[b"XRANGE", b"a", b"-", b"+"],
    &[b"XREVRANGE", b"a", b"+", b"-", b"COUNT", b"3"],
    &[b"XINFO", b"STREAM", b"a", b"FULL"],
];

/// The commands that change a value and empty it.
const WRITES: [&[&[u8]]; 22] = [
    &[b"APPEND", b"a", b"x"],
    &[b"SETRANGE", b"a", b"3", b"yyy"],
    &[b"PFADD", b"a", b"x"],
    &[b"LPUSH", b"a", b"17"],
    &[b"LINSERT", b"a", b"BEFORE", b"a", b"x"],
    &[b"LTRIM", b"a", b"1", b"-1"],
    &[b"RPOP", b"a", b"1000000"],
    &[b"SADD", b"a", b"17", b"a word", b"-1"],
    &[b"SREM", b"a", b"17"],
    &[b"SPOP", b"a", b"1000000"],
    &[b"HSET", b"a", b"17", b"x"],
    &[b"HINCRBY", b"a", b"n", b"1"],
    &[b"HDEL", b"a", b"17"],
    &[b"ZADD", b"a", b"17", b"a", b"-inf", b"b"],
    &[b"ZINCRBY", b"a", b"1.5", b"a"],
    &[b"ZREMRANGEBYRANK", b"a", b"1", b"2"],
    &[b"ZPOPMAX", b"a", b"1000000"],
    &[b"XADD", b"a", b"*", b"name", b"value"],
    &[b"XGROUP", b"CREATECONSUMER", b"a", b"g", b"c"],
    &[b"XAUTOCLAIM", b"a", b"g", b"c", b"0", b"0"],
    &[b"XTRIM", b"a", b"MAXLEN", b"1"],
    &[b"XDEL", b"a", b"1-1"],
];

fuzz_target!(|value: &[u8]| {
    let config = Config::default();
    config.assign(Opt::EnableDebugCommand, &[b"yes"]).expect("the option takes a word");
    let mut session = Local::open(&Engine::new(config), || {});
    if ask(&mut session, &[b"RESTORE", b"a", b"0", &dump_of(value)]) != b"+OK\r\n" {
        return;
    }
    let used = number(&ask(&mut session, &[b"MEMORY", b"USAGE", b"a", b"SAMPLES", b"0"]));
    assert!(used <= SMALL_MAX + GROWTH_MAX * value.len(), "{used} bytes of {}", value.len());
    for request in READS {
        ask(&mut session, request);
    }
    let dumped = ask(&mut session, &[b"DUMP", b"a"]);
    // A hash that has only expired fields does not exist, so it has no dump.
    if let Some(payload) = bulk(&dumped) {
        assert_eq!(ask(&mut session, &[b"RESTORE", b"b", b"0", payload]), b"+OK\r\n", "our own dump is a dump");
        let digest = |session: &mut Local, key: &[u8]| ask(session, &[b"DEBUG", b"DIGEST-VALUE", key]);
        assert_eq!(digest(&mut session, b"a"), digest(&mut session, b"b"), "and holds the same");
    }
    for request in WRITES {
        ask(&mut session, request);
    }
    ask(&mut session, &[b"DUMP", b"a"]);
    ask(&mut session, &[b"DEL", b"a", b"b"]);
    assert_eq!(ask(&mut session, &[b"DBSIZE"]), b":0\r\n");
});

/// Returns a dump: the value, with a version and the correct sum.
fn dump_of(value: &[u8]) -> Vec<u8> {
    let mut payload = value.to_vec();
    payload.extend(rdb::VERSION_MAX.to_le_bytes());
    payload.extend(rdb::crc64(&payload).to_le_bytes());
    payload
}

/// Sends a request and returns its one reply. Checks that the reply is well formed.
fn ask(session: &mut Local, words: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend(*word);
        request.extend(b"\r\n");
    }
    let mut reply = Vec::new();
    session.exchange(&request, &mut reply).expect("the session lives");
    let length = Scanner::new().scan(&reply).expect("a reply is well formed").expect("a reply is whole");
    assert_eq!(length, reply.len(), "one request has one reply");
    reply
}

/// Returns the bytes of a bulk string.
fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let head = reply.iter().position(|&byte| byte == b'\n')? + 1;
    (head + 2 <= reply.len() && reply.first() == Some(&b'$')).then(|| &reply[head..reply.len() - 2])
}

/// Returns the number in a reply; 0 for a key that does not exist.
fn number(reply: &[u8]) -> usize {
    let digits = reply.strip_prefix(b":").and_then(|rest| rest.strip_suffix(b"\r\n"));
    digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0)
}
