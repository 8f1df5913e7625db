//! The named tests of the load generator: one row each.
//!
//! The first six are redis-benchmark's and run by default, in its order and under its titles; the others run when `-t`
//! names them. A row says which request is sent and which keys `--fill` has to write beforehand so that reads hit.

/// The word in a request that stands for a random number of 12 digits.
pub const RANDOM: &str = "__rand_int__";
/// The word in a request that stands for the value (`-d` bytes).
pub const DATA: &str = "__data__";

/// One named test.
#[derive(Debug)]
pub struct Case {
    /// The name that `-t` takes.
    pub name: &'static str,
    /// The title that is printed.
    pub title: &'static str,
    /// Whether it runs when `-t` is absent.
    pub default: bool,
    /// The request: its beginning, and a tail that is repeated.
    pub head: &'static [&'static str],
    /// See `head`.
    pub tail: &'static [&'static str],
    /// How many times the tail is repeated.
    pub tail_times: usize,
    /// Whether the request is sent as an inline command.
    pub inline: bool,
    /// The keys that exist before the test when `--fill` is given.
    pub fill: Option<&'static Fill>,
}

/// A set of keys, one per number of the key space, and the value of each.
#[derive(Debug, PartialEq, Eq)]
pub struct Fill {
    /// What is being written, for the progress line.
    pub title: &'static str,
    /// The request that writes one key.
    pub request: &'static [&'static str],
}

const VALUES: Fill = Fill { title: "fill key:*", request: &["SET", "key:__rand_int__", DATA] };
const COUNTERS: Fill = Fill { title: "fill counter:*", request: &["SET", "counter:__rand_int__", "100000"] };

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

/// All named tests.
pub static CASES: &[Case] = &[
    Case { inline: true, ..default(case("ping_inline", "PING_INLINE", &["PING"], None)) },
    default(case("ping_mbulk", "PING_MBULK", &["PING"], None)),
    default(case("set", "SET", VALUES.request, Some(&VALUES))),
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
];

impl Case {
    /// The words of the request, placeholders still in place.
    pub fn words(&self) -> Vec<&'static str> {
        let tails = (0..self.tail_times).flat_map(|_| self.tail.iter().copied());
        self.head.iter().copied().chain(tails).collect()
    }
}

/// The tests that a comma-separated list names, in the table's order; `Err` holds the first unknown name.
///
/// `ping` names both forms of PING, as in redis-benchmark.
pub fn select(list: Option<&str>) -> Result<Vec<&'static Case>, String> {
    let Some(list) = list else {
        return Ok(CASES.iter().filter(|case| case.default).collect());
    };
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).collect();
    let known = |name: &str| name == "ping" || CASES.iter().any(|case| case.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        return Err(unknown.clone());
    }
    let wanted = |case: &&Case| names.iter().any(|n| n == case.name || (n == "ping" && case.name.starts_with("ping_")));
    Ok(CASES.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_selectable() {
        for (index, case) in CASES.iter().enumerate() {
            assert!(CASES.iter().skip(index + 1).all(|other| other.name != case.name));
            assert_eq!(select(Some(case.name)).unwrap().len(), 1);
        }
        assert_eq!(select(Some("ping,GET")).unwrap().len(), 3);
        assert_eq!(select(Some("get,nope")).unwrap_err(), "nope");
        assert_eq!(select(None).unwrap().len(), 6);
    }

    #[test]
    fn mset_writes_ten_keys() {
        assert_eq!(select(Some("mset")).unwrap().first().unwrap().words().len(), 21);
    }
}
