//! `/status`: what the page shows, as JSON. The page asks again each second or two, and remembers what it has seen; the server
//! remembers nothing for it.

use serde_json::{Map, Value, json};
use sleeve_wire::frame::{Frame, Items, decode};

use super::asking::{Asking, Refusal};

/// Entries of a log that are shown.
const ENTRIES: &str = "10";

/// Logs of commands: their name here, and what asks for them.
const LOGS: [(&str, &str); 3] =
    [("slow", "slow"), ("large_requests", "large-request"), ("large_replies", "large-reply")];

/// Fields of INFO by name, the newest entries of the three logs of commands, and the keys that are used most; what this user
/// may not read is missing.
///
/// # Errors
/// When he may not ask for INFO.
pub fn json(asking: &mut Asking) -> Result<String, Refusal> {
    let info = asking.text(&["INFO", "everything"])?;
    let fields: Map<String, Value> = info
        .lines()
        .filter_map(|line| line.trim_end().split_once(':'))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    let mut status = Map::from_iter([("info".to_owned(), Value::Object(fields))]);
    for (name, log) in LOGS {
        if let Ok(reply) = asking.ask(&["COMMANDLOG", "GET", ENTRIES, log]) {
            status.insert(name.to_owned(), entries(&reply));
        }
    }
    if let Ok(reply) = asking.ask(&["HOTKEYS", "TOP", ENTRIES]) {
        status.insert("hot_keys".to_owned(), hot_keys(&reply));
    }
    Ok(Value::Object(status).to_string())
}

/// The keys that were used most of late: their names, and the part of all uses that each has.
fn hot_keys(reply: &[u8]) -> Value {
    let Ok((Frame::Array(fields), _)) = decode(reply) else { return Value::Null };
    let fields: Vec<Frame<'_>> = fields.filter_map(Result::ok).collect();
    let [.., Frame::Integer(samples), _, Frame::Array(keys)] = fields.as_slice() else { return Value::Null };
    let (keys, samples): (Vec<Frame<'_>>, _) = ((*keys).filter_map(Result::ok).collect(), (*samples).max(1));
    let one = |pair: &[Frame<'_>]| match pair {
        [name, Frame::Integer(own)] => json!({ "key": text(name), "share": *own as f64 / samples as f64 }),
        _ => Value::Null,
    };
    keys.chunks(2).map(one).collect()
}

/// The part of all uses that the key has which was used most of late; nothing if no key was, or if he may not know.
pub fn hottest_share(asking: &mut Asking) -> Option<f64> {
    let reply = asking.ask(&["HOTKEYS", "TOP", "1"]).ok()?;
    hot_keys(&reply).pointer("/0/share")?.as_f64()
}

/// Entries of a log: when (seconds), how much (microseconds or bytes), the words, and whose they were.
fn entries(reply: &[u8]) -> Value {
    let Ok((Frame::Array(entries), _)) = decode(reply) else { return Value::Null };
    let one = |mut fields: Items<'_>| {
        let mut next = || fields.next().and_then(Result::ok);
        let (_, at, much, words, client) = (next()?, next()?, next()?, next()?, next()?);
        let Frame::Array(words) = words else { return None };
        let words: Vec<Value> = words.filter_map(Result::ok).map(|word| text(&word)).collect();
        Some(json!({ "at": number(&at), "much": number(&much), "words": words, "client": text(&client) }))
    };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| match entry {
            Frame::Array(fields) => one(fields),
            _ => None,
        })
        .collect()
}

fn number(frame: &Frame<'_>) -> Value {
    if let Frame::Integer(number) = frame { (*number).into() } else { Value::Null }
}

fn text(frame: &Frame<'_>) -> Value {
    if let Frame::Bulk(text) = frame { String::from_utf8_lossy(text).into_owned().into() } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_logs_are_told_whatever_the_words_hold() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        asking.ask(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).unwrap();
        asking.ask(&["SET", "a\"<b>", "c\u{1}\\"]).unwrap();
        let status: Value = serde_json::from_str(&json(&mut asking).unwrap()).unwrap();
        assert_eq!(status["info"]["redis_mode"], "standalone");
        let slow = status["slow"].as_array().unwrap();
        assert!(slow.iter().any(|entry| entry["words"] == json!(["SET", "a\"<b>", "c\u{1}\\"])), "{slow:?}");
        assert!(slow.iter().all(|entry| entry["at"].as_i64() > Some(0) && entry["much"].is_i64()));
        assert_eq!(status["large_replies"], json!([]));
        for _ in 0..1_000 {
            asking.ask(&["GET", "hot<key>"]).unwrap();
        }
        let status: Value = serde_json::from_str(&json(&mut asking).unwrap()).unwrap();
        assert_eq!(status["hot_keys"][0]["key"], "hot<key>");
        assert!(status["hot_keys"][0]["share"].as_f64() > Some(0.5), "{status}");
        assert!(hottest_share(&mut asking) > Some(0.5));
    }
}
