//! The named tests of the load generator: one row each.
//!
//! The first six are redis-benchmark's and run by default, in its order and under its titles; the others run when `-t` names
//! them. A row says which request is sent and which data `--fill` has to write beforehand so that reads hit. The tests of the
//! collections have redis-benchmark's names and keys too. LRANGE finds the elements of an earlier LPUSH test, or of `--fill`.

use crate::endpoint::encode;

/// The word in a request that stands for a random number of 12 digits.
pub const RANDOM: &str = "__rand_int__";
/// The word in a request that stands for the value (`-d` bytes).
pub const DATA: &str = "__data__";

/// A named test.
#[derive(Debug)]
pub struct Case {
    /// The name that `-t` takes.
    pub name: &'static str,
    /// The title that is printed.
    pub title: &'static str,
    /// True if the test runs when `-t` is absent.
    pub default: bool,
    /// The request: its beginning, and a tail that is repeated.
    pub head: &'static [&'static str],
    /// The tail of the request; see `head`.
    pub tail: &'static [&'static str],
    /// The number of times that the tail is repeated.
    pub tail_times: usize,
    /// True if the request is sent as an inline command.
    pub inline: bool,
    /// The data that `--fill` writes before the test.
    pub fill: Option<&'static Fill>,
}

/// Data with one item for each number of the key space: keys with a value each, or elements of one collection.
#[derive(Debug, PartialEq, Eq)]
pub struct Fill {
    /// The name of the data that are being written, for the progress line.
    pub title: &'static str,
    /// The request that writes one item.
    pub words: &'static [&'static str],
    /// True if there is only one item, however large the key space is.
    pub once: bool,
}

const VALUES: Fill = each("fill key:*", &["SET", "key:__rand_int__", DATA]);
const COUNTERS: Fill = each("fill counter:*", &["SET", "counter:__rand_int__", "100000"]);
const ELEMENTS: Fill = each("fill mylist", &["LPUSH", "mylist", DATA]);
const MEMBERS: Fill = each("fill myset", &["SADD", "myset", "element:__rand_int__"]);
const FIELDS: Fill = each("fill myhash", &["HSET", "myhash", "element:__rand_int__", DATA]);
const SCORES: Fill = each("fill myzset", &["ZADD", "myzset", RANDOM, "element:__rand_int__"]);

/// A script with three calls, and its digest.
const SCRIPT: &str = "redis.call('SET', KEYS[1], ARGV[1]) local value = redis.call('GET', KEYS[1]) \
                      redis.call('INCR', KEYS[2]) return value";
const DIGEST: &str = "71beb250c5c249ff1c6f68e35fe0690570cb80c6";
const LOADED: Fill = Fill { once: true, ..each("load the script", &["SCRIPT", "LOAD", SCRIPT]) };
const EVALSHA: &[&str] = &["EVALSHA", DIGEST, "2", "key:__rand_int__", "counter:__rand_int__", DATA];

const fn each(title: &'static str, words: &'static [&'static str]) -> Fill {
    Fill { title, words, once: false }
}

const fn case(
    name: &'static str,
    title: &'static str,
    head: &'static [&'static str],
    fill: Option<&'static Fill>,
) -> Case {
    Case { name, title, default: false, head, tail: &[], tail_times: 0, inline: false, fill }
}

const fn default(case: Case) -> Case {
    Case { default: true, ..case }
}

const fn ten(case: Case, tail: &'static [&'static str]) -> Case {
    Case { tail, tail_times: 10, ..case }
}

/// The named tests.
pub static CASES: &[Case] = &[
    Case { inline: true, ..default(case("ping_inline", "PING_INLINE", &["PING"], None)) },
    default(case("ping_mbulk", "PING_MBULK", &["PING"], None)),
    default(case("set", "SET", VALUES.words, Some(&VALUES))),
    default(case("get", "GET", &["GET", "key:__rand_int__"], Some(&VALUES))),
    default(case("incr", "INCR", &["INCR", "counter:__rand_int__"], Some(&COUNTERS))),
    default(ten(case("mset", "MSET (10 keys)", &["MSET"], Some(&VALUES)), &["key:__rand_int__", DATA])),
    ten(case("mget", "MGET (10 keys)", &["MGET"], Some(&VALUES)), &["key:__rand_int__"]),
    case("echo", "ECHO", &["ECHO", DATA], None),
    case("getset", "GETSET", &["GETSET", "key:__rand_int__", DATA], Some(&VALUES)),
    case("setnx", "SETNX", &["SETNX", "key:__rand_int__", DATA], Some(&VALUES)),
    case("setex", "SETEX", &["SETEX", "key:__rand_int__", "3600", DATA], Some(&VALUES)),
    case("getdel", "GETDEL", &["GETDEL", "key:__rand_int__"], Some(&VALUES)),
    case("append", "APPEND", &["APPEND", "append:__rand_int__", DATA], None),
    case("strlen", "STRLEN", &["STRLEN", "key:__rand_int__"], Some(&VALUES)),
    case("getrange", "GETRANGE", &["GETRANGE", "key:__rand_int__", "0", "7"], Some(&VALUES)),
    case("setrange", "SETRANGE", &["SETRANGE", "key:__rand_int__", "0", "x"], Some(&VALUES)),
    case("decr", "DECR", &["DECR", "counter:__rand_int__"], Some(&COUNTERS)),
    case("incrby", "INCRBY", &["INCRBY", "counter:__rand_int__", "7"], Some(&COUNTERS)),
    case("incrbyfloat", "INCRBYFLOAT", &["INCRBYFLOAT", "float:__rand_int__", "0.5"], None),
    case("setbit", "SETBIT", &["SETBIT", "bits", RANDOM, "1"], None),
    case("getbit", "GETBIT", &["GETBIT", "bits", RANDOM], None),
    case("bitcount", "BITCOUNT", &["BITCOUNT", "key:__rand_int__"], Some(&VALUES)),
    case("exists", "EXISTS", &["EXISTS", "key:__rand_int__"], Some(&VALUES)),
    case("del", "DEL", &["DEL", "key:__rand_int__"], Some(&VALUES)),
    case("expire", "EXPIRE", &["EXPIRE", "key:__rand_int__", "3600"], Some(&VALUES)),
    case("ttl", "TTL", &["TTL", "key:__rand_int__"], Some(&VALUES)),
    case("type", "TYPE", &["TYPE", "key:__rand_int__"], Some(&VALUES)),
    case("time", "TIME", &["TIME"], None),
    case("lpush", "LPUSH", ELEMENTS.words, None),
    case("rpush", "RPUSH", &["RPUSH", "mylist", DATA], None),
    case("lpop", "LPOP", &["LPOP", "mylist"], Some(&ELEMENTS)),
    case("rpop", "RPOP", &["RPOP", "mylist"], Some(&ELEMENTS)),
    case("sadd", "SADD", MEMBERS.words, Some(&MEMBERS)),
    case("sismember", "SISMEMBER", &["SISMEMBER", "myset", "element:__rand_int__"], Some(&MEMBERS)),
    case("spop", "SPOP", &["SPOP", "myset"], Some(&MEMBERS)),
    case("hset", "HSET", FIELDS.words, Some(&FIELDS)),
    case("hget", "HGET", &["HGET", "myhash", "element:__rand_int__"], Some(&FIELDS)),
    case("zadd", "ZADD", SCORES.words, Some(&SCORES)),
    case("zscore", "ZSCORE", &["ZSCORE", "myzset", "element:__rand_int__"], Some(&SCORES)),
    case("zpopmin", "ZPOPMIN", &["ZPOPMIN", "myzset"], Some(&SCORES)),
    case("evalsha", "EVALSHA (3 calls)", EVALSHA, Some(&LOADED)),
    case("lrange_100", "LRANGE_100 (first 100 elements)", &["LRANGE", "mylist", "0", "99"], Some(&ELEMENTS)),
    case("lrange_300", "LRANGE_300 (first 300 elements)", &["LRANGE", "mylist", "0", "299"], Some(&ELEMENTS)),
    case("lrange_450", "LRANGE_450 (first 450 elements)", &["LRANGE", "mylist", "0", "449"], Some(&ELEMENTS)),
    case("lrange_500", "LRANGE_500 (first 500 elements)", &["LRANGE", "mylist", "0", "499"], Some(&ELEMENTS)),
    case("lrange_600", "LRANGE_600 (first 600 elements)", &["LRANGE", "mylist", "0", "599"], Some(&ELEMENTS)),
];

impl Case {
    /// Returns the words of the request, with the placeholders still in place.
    pub fn words(&self) -> Vec<&'static str> {
        let tails = (0..self.tail_times).flat_map(|_| self.tail.iter().copied());
        self.head.iter().copied().chain(tails).collect()
    }

    /// Returns the encoded request with this value. The numbers are still placeholders.
    pub fn request(&self, value: &[u8]) -> Vec<u8> {
        if self.inline { [self.head.join(" ").as_bytes(), b"\r\n"].concat() } else { encoded(&self.words(), value) }
    }
}

impl Fill {
    /// Returns the encoded request with this value. The numbers are still placeholders.
    pub fn request(&self, value: &[u8]) -> Vec<u8> {
        encoded(self.words, value)
    }
}

fn encoded(words: &[&'static str], value: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(|word| if *word == DATA { value } else { word.as_bytes() }).collect();
    let mut request = Vec::new();
    encode(&words, &mut request);
    request
}

/// Returns the title of a test as the table has it, if there is such a test.
pub fn title(text: &str) -> Option<&'static str> {
    CASES.iter().map(|case| case.title).find(|title| *title == text)
}

/// Returns the tests that a comma-separated list names, in the table's order; `Err` holds the first unknown name.
///
/// `ping` names both forms of PING and `lrange` those of 100, 300, 500 and 600 elements, as in redis-benchmark.
pub fn select(list: Option<&str>) -> Result<Vec<&'static Case>, String> {
    let Some(list) = list else {
        return Ok(CASES.iter().filter(|case| case.default).collect());
    };
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).collect();
    let known = |name: &str| ["ping", "lrange"].contains(&name) || CASES.iter().any(|case| case.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(unknown.clone());
    }
    let is_meant = |name: &str, case: &Case| match name {
        "ping" => case.name.starts_with("ping_"),
        "lrange" => case.name.starts_with("lrange_") && case.name != "lrange_450",
        name => name == case.name,
    };
    let wanted = |case: &&Case| names.iter().any(|name| is_meant(name, case));
    Ok(CASES.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use sleeve::Client;
    use sleeve::prelude::*;

    use super::*;

    #[test]
    fn names_are_unique_and_selectable() {
        for (index, case) in CASES.iter().enumerate() {
            assert!(CASES.iter().skip(index + 1).all(|other| other.name != case.name));
            assert_eq!(select(Some(case.name)).unwrap().len(), 1);
        }
        assert_eq!(select(Some("ping,GET")).unwrap().len(), 3);
        assert_eq!(select(Some("lrange")).unwrap().len(), 4);
        assert_eq!(select(Some("get,nope")).unwrap_err(), "nope");
        assert_eq!(select(None).unwrap().len(), 6);
    }

    #[test]
    fn the_digest_is_that_of_the_script() {
        let client = Client::embedded();
        assert_eq!(client.script_load(SCRIPT).wait().unwrap(), DIGEST);
    }

    #[test]
    fn mset_writes_ten_keys() {
        assert_eq!(select(Some("mset")).unwrap().first().unwrap().words().len(), 21);
    }
}
