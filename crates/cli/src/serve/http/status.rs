//! `/status?fine=0&coarse=0`: the data of the page, as JSON. The page asks again each second, and names the samples of
//! `history` that it has.

use serde_json::{Map, Value, json};
use sleeve_wire::frame::{Frame, Items, decode};

use super::asking::{Asking, Refusal};
use super::info::Info;
use super::shown::shown;

/// The number of entries of a log in the answer. The page remembers those that it has seen.
const ENTRIES: &str = "32";

/// The number of keys in the answer.
const HOT_KEYS: &str = "10";

/// Logs of commands: their name here, and their argument of COMMANDLOG GET.
const LOGS: [(&str, &str); 3] =
    [("slow", "slow"), ("large_requests", "large-request"), ("large_replies", "large-reply")];

/// Returns fields of INFO by name, the newest entries of the three logs of commands, and the keys that are used most. Data
/// that this user may not read are missing.
///
/// # Errors
/// When the user may not ask for INFO.
pub fn json(asking: &mut Asking) -> Result<Map<String, Value>, Refusal> {
    let info = asking.info()?;
    let fields: Map<String, Value> =
        Info::new(&info).fields().iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let mut status = Map::from_iter([("info".to_owned(), Value::Object(fields))]);
    for (name, log) in LOGS {
        if let Ok(reply) = asking.ask(&["COMMANDLOG", "GET", ENTRIES, log]) {
            status.insert(name.to_owned(), entries(&reply));
        }
    }
    // Whether the server writes snapshots by itself: the page shows different facts about them then.
    if let Ok(reply) = asking.ask(&["CONFIG", "GET", "save"])
        && let Ok((Frame::Array(mut pair), _)) = decode(&reply)
    {
        status.insert(
            "save".to_owned(),
            pair.nth(1).map_or(Value::Null, |value| value.map_or(Value::Null, |value| text(&value))),
        );
    }
    if let Ok(reply) = asking.ask(&["HOTKEYS", "TOP", HOT_KEYS]) {
        status.insert("hot_keys".to_owned(), hot_keys(&reply));
    }
    Ok(status)
}

/// Returns the keys that were used most of late: their names, and the share of all uses that each has.
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

/// Returns the share of all uses that the most used key of late has; none if no key was used, or if the user may not ask.
pub fn hottest_share(asking: &mut Asking) -> Option<f64> {
    let reply = asking.ask(&["HOTKEYS", "TOP", "1"]).ok()?;
    hot_keys(&reply).pointer("/0/share")?.as_f64()
}

/// Returns the entries of a log: their number, their time (seconds), their amount (microseconds or bytes), the words, and the
/// client.
fn entries(reply: &[u8]) -> Value {
    let Ok((Frame::Array(entries), _)) = decode(reply) else { return Value::Null };
    let one = |mut fields: Items<'_>| {
        let mut next = || fields.next().and_then(Result::ok);
        let (id, at, much, words, client) = (next()?, next()?, next()?, next()?, next()?);
        let Frame::Array(words) = words else { return None };
        let words: Vec<Value> = words.filter_map(Result::ok).map(|word| text(&word)).collect();
        let client = text(&client);
        Some(json!({ "id": number(&id), "at": number(&at), "much": number(&much), "words": words, "client": client }))
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
    if let Frame::Bulk(text) = frame { shown(text).into() } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sleeve_server::Local;

    #[test]
    fn fields_and_logs_are_shown_with_any_bytes_in_them() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        let mut client = Local::open(&engine, || {});
        let mut say = |words: &[&str]| {
            let mut request = Vec::new();
            crate::endpoint::encode(words, &mut request);
            client.exchange(&request, &mut Vec::new()).unwrap();
        };
        say(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        say(&["SET", "a\"<b>", "c\u{1}\\"]);
        let status = Value::Object(json(&mut asking).unwrap());
        assert_eq!(status["info"]["redis_mode"], "standalone");
        let slow = status["slow"].as_array().unwrap();
        assert!(slow.iter().any(|entry| entry["words"] == json!(["SET", "a\"<b>", "c\\x01\\"])), "{slow:?}");
        assert!(
            slow.iter().all(|entry| entry["at"].as_i64() > Some(0) && entry["much"].is_i64() && entry["id"].is_i64())
        );
        assert_eq!(status["large_replies"], json!([]));
        for _ in 0..1_000 {
            say(&["GET", "hot<key>"]);
        }
        let status = Value::Object(json(&mut asking).unwrap());
        assert_eq!(status["hot_keys"][0]["key"], "hot<key>");
        assert!(status["hot_keys"][0]["share"].as_f64() > Some(0.5), "{status}");
        assert!(hottest_share(&mut asking) > Some(0.5));
    }

    #[test]
    fn commands_typed_into_the_page_count_if_they_change_data() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut client = Local::open(&engine, || {});
        client.exchange(b"SET a b PX 1\r\n", &mut Vec::new()).unwrap();
        while Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap().ask(&["EXISTS", "a"]).unwrap() != b":0\r\n" {
        }
        let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        let status = Value::Object(json(&mut asking).unwrap());
        assert_eq!((&status["info"]["expired_keys"], &status["info"]["keyspace_misses"]), (&json!("1"), &json!("0")));
    }

    #[test]
    fn the_pages_own_requests_are_in_none_of_its_figures() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut client = Local::open(&engine, || {});
        client
            .exchange(b"CONFIG SET slowlog-log-slower-than 0\r\nSLOWLOG RESET\r\nSET a b\r\n", &mut Vec::new())
            .unwrap();
        for _ in 0..50 {
            let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
            json(&mut asking).unwrap();
            super::super::keys::json(&mut asking, "").unwrap();
            super::super::clients::json(&mut asking).unwrap();
            asking.ask(&["NO", "SUCH"]).unwrap_err();
        }
        let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        let status = Value::Object(json(&mut asking).unwrap());
        let (info, slow) = (&status["info"], status["slow"].as_array().unwrap());
        let words: Vec<&Value> = slow.iter().map(|entry| &entry["words"][0]).collect();
        assert_eq!(words, ["SET", "SLOWLOG"], "those of the client");
        // Another crate of a build may have the JSON library keep the order of its objects.
        let counted: std::collections::BTreeSet<&str> =
            info.as_object().unwrap().keys().map(String::as_str).filter(|name| name.starts_with("cmdstat_")).collect();
        assert_eq!(counted, ["cmdstat_config|set", "cmdstat_set", "cmdstat_slowlog|reset"].into());
        assert_eq!(info["total_commands_processed"], "3");
        assert_eq!((&info["connected_clients"], &info["total_connections_received"]), (&json!("1"), &json!("1")));
        assert_eq!((&info["total_error_replies"], &info["errorstat_ERR"]), (&json!("0"), &Value::Null));
        assert_eq!(status["hot_keys"], json!([]));
    }
}
