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

/// Fields of INFO by name, and the newest entries of the three logs of commands; a log that this user may not read is missing.
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
    Ok(Value::Object(status).to_string())
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
    }
}
