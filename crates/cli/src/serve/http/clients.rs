//! `/clients`: the clients that take most memory, as JSON.

use serde_json::{Map, Value, json};

use super::asking::{Asking, Refusal};
use super::shown::shown;

/// The number of clients in the answer.
const TOLD: usize = 50;

/// The fields of CLIENT LIST in the answer.
const FIELDS: [&str; 13] =
    ["id", "addr", "name", "user", "db", "age", "idle", "flags", "cmd", "tot-mem", "omem", "lib-name", "lib-ver"];

/// Returns the number of clients, and the clients with the most memory.
///
/// # Errors
/// If this user may not ask for them.
pub fn json(asking: &mut Asking) -> Result<String, Refusal> {
    let list = asking.text(&["CLIENT", "LIST"])?;
    let mut lines: Vec<(u64, &str)> = list.lines().map(|line| (memory(line), line)).collect();
    let all = lines.len();
    // The newest first among equals.
    lines.reverse();
    lines.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let rows: Vec<Value> = lines.iter().take(TOLD).map(|(_, line)| row(line)).collect();
    Ok(json!({ "all": all, "clients": rows }).to_string())
}

fn memory(line: &str) -> u64 {
    field(line, "tot-mem").and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn row(line: &str) -> Value {
    let told = |name: &&str| Some(((*name).to_owned(), shown(field(line, name)?.as_bytes()).into()));
    Value::Object(FIELDS.iter().filter_map(told).collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sleeve_server::Local;

    #[test]
    fn the_clients_with_most_memory_are_listed_and_all_are_counted() {
        let engine = sleeve_server::Engine::new(sleeve_server::Config::default());
        let mut others: Vec<_> = (0..60).map(|_| Local::open(&engine, || {})).collect();
        let mut request = Vec::new();
        for key in 0..200 {
            request.extend_from_slice(format!("WATCH key{key}\r\n").as_bytes());
        }
        others[3].exchange(b"CLIENT SETNAME a<b>\r\n", &mut Vec::new()).unwrap();
        others[3].exchange(&request, &mut Vec::new()).unwrap();
        let mut asking = Asking::begin(&engine, [127, 0, 0, 1].into(), None).unwrap();
        let told: Value = serde_json::from_str(&json(&mut asking).unwrap()).unwrap();
        let rows = told["clients"].as_array().unwrap();
        assert_eq!((told["all"].as_u64(), rows.len()), (Some(60), TOLD));
        assert_eq!((rows[0]["name"].as_str(), rows[0]["cmd"].as_str()), (Some("a<b>"), Some("watch")));
    }
}
