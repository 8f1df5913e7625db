//! Dumps of every type and encoding, and tampered versions of them.
//!
//! Versions and checksums are valid afterwards, so that every dump gets as far as the value. One thread uses it at a time.

use sleeve_server::Local;
use sleeve_store::rdb;
use sleeve_tests::Connection;
use sleeve_tests::connection::request;
use sleeve_tests::generator::{Generator, Words};
use sleeve_tests::random::Random;
use sleeve_tests::transcript::frame::text;

/// Commands that make the values: small and large ones, packed and not, of each type.
const VALUES: &[&str] = &[
    "SET # 12345",
    "SET # hello",
    "SET # ~300",
    "SETBIT # 100000 1",
    "PFADD # a b c d e",
    "PFADD # @400",
    "RPUSH # 1 2 3 -7 70000 9223372036854775807",
    "RPUSH # @300",
    "RPUSH # ~9000 ~20 ~9000",
    "SADD # 1 2 3",
    "SADD # 1 2 3000000000",
    "SADD # a b c",
    "SADD # @300",
    "SADD # ~100 a",
    "HSET # a 1 b 2 c ~20",
    "HSET # @600",
    "HSET # a ~100",
    "HSET # f 1 g 2;HPEXPIRE # 100000000 FIELDS 1 f",
    "HSET # @600;HPEXPIRE # 100000000 FIELDS 2 m1 m3",
    "ZADD # 1 a 2 b -inf c 1.5 d",
    "ZADD # @300",
    "ZADD # 1 ~100",
    "GEOADD # 13.36 38.11 p 15.08 37.50 c",
    "XADD # 1-1 a 1 b 2",
    "XADD # 1-1 a 1;XADD # 1-2 a 2;XADD # 5-0 b ~30;XDEL # 1-2;XGROUP CREATE # g 0;XREADGROUP GROUP g c COUNT 2 STREAMS # >;XACK # g 1-1",
    "XADD # 1-1 @200;XADD # 2-1 @200;XGROUP CREATE # g $;XGROUP CREATE # h 1-1;XGROUP CREATECONSUMER # h c;XREADGROUP GROUP h d STREAMS # >;XTRIM # MAXLEN 1",
    "SET # ~5000;EXPIRE # 1000",
];

/// A server or an engine that answers commands.
pub trait Asks {
    /// Returns the reply to a command, which must be exactly one.
    fn ask(&mut self, words: &Words) -> Vec<u8>;
}

impl Asks for Local {
    fn ask(&mut self, words: &Words) -> Vec<u8> {
        let mut reply = Vec::new();
        self.exchange(&request(words), &mut reply).expect("nothing here ends a session");
        reply
    }
}

impl Asks for Connection {
    fn ask(&mut self, words: &Words) -> Vec<u8> {
        self.command(words).unwrap_or_else(|error| panic!("{}: {error}", words[0].escape_ascii()))
    }
}

/// The dumps from which tampered ones are made.
#[derive(Debug, Default)]
pub struct Payloads {
    whole: Vec<Vec<u8>>,
}

impl Payloads {
    /// Makes the values and dumps them, and the values of random commands.
    pub fn gather(server: &mut dyn Asks, generator: &mut Generator) -> Payloads {
        server.ask(&vec![b"FLUSHALL".to_vec()]);
        let encodings = *generator.random().pick(&["7.0", "7.2"]);
        server.ask(&words(&format!("CONFIG SET encodings {encodings}"), generator.random()));
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for (index, lines) in VALUES.iter().enumerate() {
            let key = format!("value:{index}");
            for line in lines.split(';') {
                server.ask(&words(&line.replace('#', &key), generator.random()));
            }
            keys.push(key.into_bytes());
        }
        for _ in 0..300 {
            let words = generator.command();
            if !words[0].eq_ignore_ascii_case(b"multi") && !words[0].starts_with(b"b") && !words[0].starts_with(b"B") {
                server.ask(&words);
            }
        }
        server.ask(&words("SELECT 0", generator.random()));
        for pool in ["k", "l", "s", "h", "z", "x", "g", "p", "q"] {
            keys.extend((0..3).map(|number| format!("{pool}{number}").into_bytes()));
        }
        let dumps =
            keys.into_iter().filter_map(|key| text(&server.ask(&vec![b"DUMP".to_vec(), key])).map(<[u8]>::to_vec));
        let whole = dumps.filter(|dump| dump.len() > 10).map(|dump| dump[..dump.len() - 10].to_vec()).collect();
        Payloads { whole }
    }

    /// Returns one of the dumps, tampered with.
    pub fn tampered(&self, random: &mut Random) -> Vec<u8> {
        let mut value = random.pick(&self.whole).clone();
        for _ in 0..random.below(4) {
            let other = random.pick(&self.whole);
            tamper(&mut value, other, random);
        }
        value.extend(rdb::VERSION_MAX.to_le_bytes());
        let sum = rdb::crc64(&value);
        value.extend(sum.to_le_bytes());
        value
    }
}

/// Changes a value in one way.
fn tamper(value: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    // The front, with type and lengths, is changed more often than other bytes.
    let within = |length: usize, random: &mut Random| {
        let reach = if random.once_in(2) { length.min(24) } else { length };
        random.below(reach.max(1))
    };
    let (at, from) = (within(value.len(), random), within(other.len(), random));
    if value.is_empty() {
        return value.push(random.bits().to_le_bytes()[0]);
    }
    match random.below(9) {
        0 | 1 => value[at] ^= 1 << random.below(8),
        2 => {
            value[at] = *random
                .pick(&[0, 1, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xc0, 0xc1, 0xc2, 0xc3, 0xe0, 0xf0, 0xf1, 0xf4, 0xfe, 0xff])
        }
        3 => value.truncate(at),
        4 => {
            let end = (at + 1 + random.below(16)).min(value.len());
            value.drain(at..end);
        }
        5 => {
            let end = (at + 1 + random.below(40)).min(value.len());
            let part = value[at..end].to_vec();
            value.splice(at..at, part);
        }
        6 => {
            let end = (from + 1 + random.below(60)).min(other.len());
            value.splice(at..at, other[from.min(end)..end].iter().copied());
        }
        7 => {
            // A length of 32 or 64 bits, up to the largest.
            let lengths: [&[u8]; 6] = [
                &[0x80, 0xff, 0xff, 0xff, 0xff],
                &[0x80, 0x7f, 0xff, 0xff, 0xff],
                &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                &[0x81, 0, 0, 0, 1, 0, 0, 0, 0],
                &[0x80, 0, 0x10, 0, 0],
                &[0x7f, 0xff],
            ];
            value.splice(at..=at, random.pick(&lengths).iter().copied());
        }
        // The type of another value in front of this one's bytes.
        _ => {
            value[0] =
                *random.pick(&[0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25])
        }
    }
}

/// Returns a command from a line; `~N` stands for a text of N bytes, `@N` for N words, a number and a name in turn.
fn words(line: &str, random: &mut Random) -> Words {
    let mut words = Words::new();
    for word in line.split(' ') {
        match (word.as_bytes().first(), word.get(1..).and_then(|count| count.parse::<usize>().ok())) {
            (Some(b'~'), Some(count)) => {
                words.push((0..count).map(|_| b'a' + random.bits().to_le_bytes()[0] % 16).collect())
            }
            (Some(b'@'), Some(count)) if words[0] == b"ZADD" || words[0] == b"SADD" => {
                words.extend((0..count).map(|number| {
                    if number % 2 == 0 { number.to_string() } else { format!("m{number}") }.into_bytes()
                }));
            }
            (Some(b'@'), Some(count)) => words.extend((0..count).map(|number| {
                if number % 2 == 1 { number.to_string() } else { format!("m{}", number / 2) }.into_bytes()
            })),
            _ => words.push(word.as_bytes().to_vec()),
        }
    }
    words
}
