//! `/keys?database=0&cursor=0`: one step of a walk through the keys of a database, which looks for the largest.
//!
//! The page in the browser goes on with the cursor that it was given, a step a second, and remembers the largest; the server
//! remembers nothing. A step is a few milliseconds of SCAN and MEMORY USAGE at most, as the user of the request. Each of these
//! commands delays a worker no longer than any other. The size of a key is estimated from five of its elements.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sleeve_wire::frame::{Frame, decode};

use super::asking::{Asking, Refusal};
use super::shown::shown;

/// The time after which a step asks for no more keys.
const STEP_TIME_MAX: Duration = Duration::from_millis(5);

/// The number of keys that one SCAN asks for.
const KEYS_AT_ONCE: &str = "32";

/// The number of keys that a step returns, the largest ones.
const TOLD: usize = 20;

/// Returns the cursor of the walk, the number of keys in this step, and the largest of them.
///
/// # Errors
/// If this user may not ask for them.
pub fn json(asking: &mut Asking, query: &str) -> Result<String, Refusal> {
    let number = |name: &str| {
        let found = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0).to_string()
    };
    let (mut cursor, database) = (number("cursor"), number("database"));
    asking.ask(&["SELECT", &database])?;
    let (began, mut found, mut seen) = (Instant::now(), Vec::new(), 0_u64);
    while began.elapsed() < STEP_TIME_MAX {
        let reply = asking.ask(&["SCAN", &cursor, "COUNT", KEYS_AT_ONCE])?;
        let (next, names) = scanned(&reply);
        for name in names {
            let reply = asking.ask(&[b"MEMORY".as_slice(), b"USAGE", name])?;
            // A key that has been removed has no size.
            if let Ok((Frame::Integer(bytes), _)) = decode(&reply) {
                found.push((bytes, shown(name)));
                seen += 1;
            }
        }
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.truncate(TOLD);
    let found: Value = found.into_iter().map(|(bytes, key)| json!({ "key": key, "bytes": bytes })).collect();
    Ok(json!({ "cursor": cursor, "seen": seen, "keys": found }).to_string())
}

/// Returns the next cursor and the names of a reply to SCAN. A reply that cannot be read ends the walk.
fn scanned(reply: &[u8]) -> (String, Vec<&[u8]>) {
    let mut cursor = "0".to_owned();
    let mut names = Vec::new();
    if let Ok((Frame::Array(parts), _)) = decode(reply) {
        for part in parts.filter_map(Result::ok) {
            match part {
                Frame::Bulk(next) => cursor = String::from_utf8_lossy(next).into_owned(),
                Frame::Array(found) => names.extend(found.filter_map(|name| match name {
                    Ok(Frame::Bulk(name)) => Some(name),
                    _ => None,
                })),
                _ => {}
            }
        }
    }
    (cursor, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_comes_by_every_key_of_its_database_and_tells_the_largest() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        for number in 0..500 {
            asking.ask(&["SET", &format!("small{number}"), "x"]).unwrap();
        }
        asking.ask(&[b"SET".as_slice(), b"large\xff", &[b'x'; 10_000]]).unwrap();
        asking.ask(&["SELECT", "1"]).unwrap();
        asking.ask(&["SET", "other", "y"]).unwrap();
        let (mut cursor, mut seen, mut largest) = ("0".to_owned(), 0, (0, String::new()));
        loop {
            let step = json(&mut asking, &format!("database=0&cursor={cursor}")).unwrap();
            let step: Value = serde_json::from_str(&step).unwrap();
            seen += step["seen"].as_u64().unwrap();
            let first = &step["keys"][0];
            let of_step = (first["bytes"].as_u64().unwrap_or(0), first["key"].as_str().unwrap_or("").to_owned());
            largest = largest.max(of_step);
            cursor = step["cursor"].as_str().unwrap().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!((seen, largest.1.as_str()), (501, "large\\xff"));
        assert!((10_000..20_000).contains(&largest.0), "{largest:?}");
        let other = json(&mut asking, "database=1").unwrap();
        assert!(other.contains("\"other\"") && other.contains("\"cursor\":\"0\""), "{other}");
        assert!(json(&mut asking, "database=99").is_err());
        asking.ask(&["ACL", "SETUSER", "default", "-memory|usage"]).unwrap();
        assert!(matches!(json(&mut asking, ""), Err(Refusal::Forbidden(_))));
    }
}
