//! The tolerated differences between two servers' replies to the same command, and their comparison.
//!
//! A reply is compared byte by byte unless its command leaves something open: an order, a clock that is read at two moments,
//! the name of an encoding that only newer servers have. Any thread may call it.

use crate::transcript::frame::{children, rewritten, sorted, text};

/// The largest difference between two servers' readings of the same clock, in milliseconds; far less than any two deadlines
/// differ.
const CLOCK_MS_MAX: u64 = 600_000;

/// The number from which on a number is taken for a time since 1970 in milliseconds, or one as far away.
const MOMENT_MS_MIN: i64 = 50_000_000;

/// The number from which on a number is taken for a time since 1970 in seconds, or one as far away.
const MOMENT_S_MIN: i64 = 50_000;

/// The differences between two servers' replies to the same command that are tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leeway {
    /// The replies must be equal.
    None,
    /// The order is open.
    Order,
    /// The order of places is open, and if several are equally far away, it is open which of them are among the first.
    Tie,
    /// Times in seconds that were taken at two moments.
    Seconds,
    /// Times in milliseconds that were taken at two moments.
    Milliseconds,
    /// Milliseconds since something that has just happened.
    Idle,
    /// As `Idle`, and Valkey may not know the lag of a group: after XTRIM it does not until the group reads again.
    Lag,
    /// Redis 7.0 looks at the key before the range: it answers an invalid range with the number for a missing key, or with
    /// the error for a key of another type.
    Range,
    /// As `Range`, and Redis 7.0 knows no range without an end: it refuses it.
    OpenRange,
    /// Small lists and sets are packed in newer servers only, and Redis unpacks the sorted sets that it sorts.
    Encoding,
    /// Only the kind of the replies is compared.
    Open,
}

/// Commands that return elements in the server's own order.
const OPEN_ORDER: &[&str] =
    &["keys", "scan", "sscan", "hscan", "zscan", "smembers", "sinter", "sunion", "sdiff", "hkeys", "hvals", "hgetall"];

/// Returns the tolerated differences of the reply to this command.
pub fn leeway(words: &[Vec<u8>]) -> Leeway {
    let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    let name = std::str::from_utf8(&name).unwrap_or_default();
    match name {
        "ttl" | "expiretime" | "httl" | "hexpiretime" => Leeway::Seconds,
        "pttl" | "pexpiretime" | "hpttl" | "hpexpiretime" => Leeway::Milliseconds,
        "xpending" => Leeway::Idle,
        "xinfo" => Leeway::Lag,
        "bitcount" if words.len() == 3 => Leeway::OpenRange,
        "bitcount" | "bitpos" => Leeway::Range,
        "object" => Leeway::Encoding,
        "srandmember" | "hrandfield" | "zrandmember" | "randomkey" | "spop" => Leeway::Open,
        // Elements that weigh the same, and those of a set that is not sorted, come in any order.
        "sort" | "sort_ro" if words.iter().any(|word| word.eq_ignore_ascii_case(b"BY")) => Leeway::Order,
        "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro" => called(words),
        "function" => Leeway::Order,
        // Places equally far away come in any order, and which of them are among the first is open too.
        "georadius" | "georadius_ro" | "georadiusbymember" | "georadiusbymember_ro" | "geosearch" => {
            let is_limited = words.iter().any(|word| word.eq_ignore_ascii_case(b"COUNT"));
            if is_limited { Leeway::Tie } else { Leeway::Order }
        }
        _ if OPEN_ORDER.contains(&name) => Leeway::Order,
        _ => Leeway::None,
    }
}

/// Returns the tolerated differences of a script's reply: those of the command that it runs.
fn called(words: &[Vec<u8>]) -> Leeway {
    let keys = words.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse::<usize>().ok()).unwrap_or(0);
    let inner = words.get(keys.saturating_add(3)..).map_or(Leeway::None, leeway);
    // Lua's own tables, which hold the sets and maps of RESP3, have no order either.
    if inner == Leeway::None { Leeway::Order } else { inner }
}

/// Returns the reply without its errors' texts, which differ between servers, and without the encodings `embstr` and `int`.
pub fn without_errors(reply: &[u8]) -> Vec<u8> {
    rewritten(reply, &|kind, text| match (kind, text) {
        (b'-', _) => Some(b"ERR".to_vec()),
        (_, b"embstr" | b"int") => Some(b"raw".to_vec()),
        _ => None,
    })
}

/// Returns the reply with every floating-point number in one form: Redis 7.0 writes 17 digits, newer servers the shortest
/// exact form.
pub fn shortest(reply: &[u8]) -> Vec<u8> {
    rewritten(reply, &|kind, text| {
        // Lua converts a number beyond 64 bits into the largest or the smallest one, depending on the machine.
        if (kind, text) == (b':', b"-9223372036854775808") {
            return Some(b"9223372036854775807".to_vec());
        }
        let is_exact = kind == b':' || kind == b'-' || (text.iter().all(u8::is_ascii_digit) && text.len() < 16);
        let number = std::str::from_utf8(text).ok().filter(|_| !is_exact)?.parse::<f64>().ok()?;
        Some(format!("{number:?}").into_bytes())
    })
}

/// Returns whether two replies agree as far as the leeway demands. The second is that of the yardstick.
pub fn agree(one: &[u8], two: &[u8], leeway: Leeway) -> bool {
    one == two
        || match leeway {
            Leeway::None => false,
            Leeway::Order => one.len() == two.len() && sorted(one, false) == sorted(two, false),
            Leeway::Tie => without_names(one).is_some_and(|one| Some(one) == without_names(two)),
            Leeway::Seconds => near(one, two, CLOCK_MS_MAX / 1000, MOMENT_S_MIN),
            Leeway::Milliseconds => near(one, two, CLOCK_MS_MAX, MOMENT_MS_MIN),
            Leeway::Idle => near(one, two, CLOCK_MS_MAX, 0),
            Leeway::Lag => near_with_lag(one, two),
            Leeway::Range => is_looked_up_first(one, two),
            Leeway::OpenRange => two.starts_with(b"-ERR syntax error") || is_looked_up_first(one, two),
            Leeway::Encoding => is_packed(one) != is_packed(two) && is_large(one) != is_large(two),
            Leeway::Open => {
                one.first() == two.first() && children(one).map(|all| all.len()) == children(two).map(|all| all.len())
            }
        }
}

/// Returns the data of each place of a list without its name, in any order; none if it is no list.
fn without_names(places: &[u8]) -> Option<Vec<Vec<u8>>> {
    let told = |place| children(place).map_or(Vec::new(), |parts| parts.get(1..).unwrap_or_default().concat());
    let mut all: Vec<_> = children(places)?.into_iter().map(told).collect();
    all.sort();
    Some(all)
}

/// Returns whether the first reply is an error about a range, and the second is about the key alone.
fn is_looked_up_first(one: &[u8], two: &[u8]) -> bool {
    let is_missing = matches!(two, b":0\r\n" | b":-1\r\n");
    let is_other_type = two.starts_with(b"-WRONGTYPE");
    // One of the generator's scripts returns a table of five if its command has succeeded.
    let is_success = children(two).is_some_and(|all| all.len() == 5);
    one.starts_with(b"-ERR") && (is_missing || is_other_type || is_success)
}

/// Returns whether two replies are near, except for lags that the second does not know.
fn near_with_lag(one: &[u8], two: &[u8]) -> bool {
    let (Some(ones), Some(twos)) = (children(one), children(two)) else { return near(one, two, CLOCK_MS_MAX, 0) };
    let is_lag = |index: usize| index > 0 && text(ones[index - 1]) == Some(b"lag");
    let is_unknown = |index: usize| ones[index].starts_with(b":") && matches!(twos[index], b"_\r\n" | b"$-1\r\n");
    ones.len() == twos.len()
        && (0..ones.len()).all(|index| is_lag(index) && is_unknown(index) || near_with_lag(ones[index], twos[index]))
}

fn is_packed(reply: &[u8]) -> bool {
    matches!(text(reply), Some(b"listpack" | b"listpackex"))
}

fn is_large(reply: &[u8]) -> bool {
    matches!(text(reply), Some(b"quicklist" | b"hashtable" | b"skiplist"))
}

/// Returns whether two replies are equal except for numbers from `least` on that were read from a clock a moment apart.
fn near(one: &[u8], two: &[u8], apart_max: u64, least: i64) -> bool {
    if one == two {
        return true;
    }
    if let (Some(one), Some(two)) = (children(one), children(two)) {
        return one.len() == two.len() && one.iter().zip(two).all(|(one, two)| near(one, two, apart_max, least));
    }
    let number = |reply: &[u8]| {
        let is_number = reply.first() == Some(&b':');
        std::str::from_utf8(text(reply)?).ok()?.parse::<i64>().ok().filter(|_| is_number)
    };
    let (Some(one), Some(two)) = (number(one), number(two)) else { return false };
    one >= least && two >= least && one.abs_diff(two) <= apart_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_places_equally_far_away_others_may_be_the_first() {
        let search = [b"GEOSEARCH".to_vec(), b"key".to_vec(), b"COUNT".to_vec(), b"2".to_vec()];
        assert_eq!((leeway(&search), leeway(&search[..2])), (Leeway::Tie, Leeway::Order));
        let places = |one: &str, two: &str| format!("*2\r\n*2\r\n{one}\r\n*2\r\n{two}\r\n").into_bytes();
        let nearest = places("+a\r\n:1", "+b\r\n:2");
        assert!(agree(&nearest, &places("+c\r\n:2", "+a\r\n:1"), Leeway::Tie));
        assert!(!agree(&nearest, &places("+c\r\n:3", "+a\r\n:1"), Leeway::Tie));
        assert!(agree(b"*1\r\n+a\r\n", b"*1\r\n+b\r\n", Leeway::Tie));
        assert!(!agree(b"*1\r\n+a\r\n", b"*0\r\n", Leeway::Tie) && !agree(b"*0\r\n", b"-ERR\r\n", Leeway::Tie));
    }

    #[test]
    fn clocks_may_be_read_a_moment_apart() {
        assert!(agree(b":100000000\r\n", b":100000003\r\n", Leeway::Milliseconds));
        assert!(!agree(b":-1\r\n", b":100000003\r\n", Leeway::Milliseconds));
        assert!(!agree(b":2\r\n", b":3\r\n", Leeway::Milliseconds));
        assert!(agree(b"*2\r\n:-2\r\n:90000\r\n", b"*2\r\n:-2\r\n:90001\r\n", Leeway::Seconds));
        assert!(agree(b"*2\r\n+a\r\n:0\r\n", b"*2\r\n+a\r\n:3\r\n", Leeway::Idle));
    }

    #[test]
    fn only_the_yardstick_may_not_know_a_lag() {
        let group = |lag: &str| format!("*1\r\n%2\r\n+name\r\n+g\r\n$3\r\nlag\r\n{lag}\r\n").into_bytes();
        assert!(agree(&group(":0"), &group("_"), Leeway::Lag) && agree(&group(":0"), &group("$-1"), Leeway::Lag));
        assert!(!agree(&group("_"), &group(":0"), Leeway::Lag) && !agree(&group(":0"), &group("_"), Leeway::Idle));
        assert!(!agree(b"*2\r\n+name\r\n:0\r\n", b"*2\r\n+name\r\n_\r\n", Leeway::Lag));
    }

    #[test]
    fn an_invalid_range_of_bits_may_be_answered_for_the_key() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(leeway(&words("BITPOS k 1 x")), Leeway::Range);
        assert_eq!(leeway(&words("EVAL x 1 k BITCOUNT k 0 x")), Leeway::Range);
        assert_eq!(leeway(&words("bitcount k 0")), Leeway::OpenRange);
        let error: &[u8] = b"-ERR value is not an integer or out of range\r\n";
        for of_key in [b":0\r\n".as_slice(), b":-1\r\n", b"-WRONGTYPE Operation\r\n"] {
            assert!(agree(error, of_key, Leeway::Range) && !agree(of_key, error, Leeway::Range));
        }
        assert!(!agree(error, b":1\r\n", Leeway::Range) && !agree(error, b"-ERR syntax error\r\n", Leeway::Range));
        assert!(agree(b":1\r\n", b"-ERR syntax error\r\n", Leeway::OpenRange));
        assert!(!agree(b":1\r\n", b":0\r\n", Leeway::OpenRange));
    }

    #[test]
    fn only_small_lists_and_sets_have_two_names() {
        assert!(agree(b"$8\r\nlistpack\r\n", b"$9\r\nquicklist\r\n", Leeway::Encoding));
        assert!(!agree(b"$3\r\nraw\r\n", b"$9\r\nquicklist\r\n", Leeway::Encoding));
    }

    #[test]
    fn a_script_has_the_leeway_of_the_commands_in_it() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(leeway(&words("EVAL x 1 k PTTL a")), Leeway::Milliseconds);
        assert_eq!(leeway(&words("EVAL x 1 k GET a")), Leeway::Order);
        assert_eq!(leeway(&words("GET a")), Leeway::None);
    }
}
