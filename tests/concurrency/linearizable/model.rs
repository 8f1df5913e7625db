//! A model: the replies of one server that executes one call after the other, for strings, lists and sorted sets as far as
//! the histories use them. It knows nothing of the engine. Any thread may use it.

use std::collections::{BTreeMap, VecDeque};

/// A command on one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// GET
    Get,
    /// SET to a number
    Set(i64),
    /// INCR
    Incr,
    /// APPEND of a digit
    Append(u8),
    /// LPUSH of a number
    LPush(i64),
    /// RPOP
    RPop,
    /// LRANGE of the whole list
    LRange,
    /// ZADD of a score to a member
    ZAdd(i64, u8),
    /// ZADD INCR of a score to a member
    ZIncr(i64, u8),
}

/// The value of a key; an empty one does not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Value {
    string: Option<String>,
    list: VecDeque<i64>,
    scores: BTreeMap<u8, i64>,
}

impl Command {
    /// Returns the words of the request.
    pub fn words(&self, key: &str) -> Vec<String> {
        let words: Vec<String> = match self {
            Command::Get => vec!["GET".into()],
            Command::Set(value) => vec!["SET".into(), value.to_string()],
            Command::Incr => vec!["INCR".into()],
            Command::Append(digit) => vec!["APPEND".into(), digit.to_string()],
            Command::LPush(value) => vec!["LPUSH".into(), value.to_string()],
            Command::RPop => vec!["RPOP".into()],
            Command::LRange => vec!["LRANGE".into(), "0".into(), "-1".into()],
            Command::ZAdd(score, member) => vec!["ZADD".into(), score.to_string(), member.to_string()],
            Command::ZIncr(score, member) => vec!["ZADD".into(), "INCR".into(), score.to_string(), member.to_string()],
        };
        let (name, rest) = words.split_first().expect("every command has a name");
        [name.clone(), key.to_owned()].into_iter().chain(rest.iter().cloned()).collect()
    }
}

impl Value {
    /// Changes the value as the command does, and gives the reply in RESP2.
    pub fn apply(&mut self, command: &Command) -> String {
        match command {
            Command::Get => bulk(self.string.as_deref()),
            Command::Set(value) => {
                self.string = Some(value.to_string());
                "+OK\r\n".into()
            }
            Command::Incr => self.increment(),
            Command::Append(digit) => {
                let string = self.string.get_or_insert_default();
                string.push_str(&digit.to_string());
                integer(string.len() as i64)
            }
            Command::LPush(value) => {
                self.list.push_front(*value);
                integer(self.list.len() as i64)
            }
            Command::RPop => bulk(self.list.pop_back().map(|value| value.to_string()).as_deref()),
            Command::LRange => {
                let elements: String = self.list.iter().map(|value| bulk(Some(&value.to_string()))).collect();
                format!("*{}\r\n{elements}", self.list.len())
            }
            Command::ZAdd(score, member) => integer(i64::from(self.scores.insert(*member, *score).is_none())),
            Command::ZIncr(score, member) => {
                let sum = self.scores.entry(*member).or_default();
                *sum += score;
                bulk(Some(&sum.to_string()))
            }
        }
    }

    fn increment(&mut self) -> String {
        let text = self.string.as_deref().unwrap_or("0");
        // A number has one form only: 05 is no number.
        let Some(old) = text.parse::<i64>().ok().filter(|old| old.to_string() == text) else {
            return "-ERR value is not an integer or out of range\r\n".into();
        };
        self.string = Some((old + 1).to_string());
        integer(old + 1)
    }
}

fn integer(value: i64) -> String {
    format!(":{value}\r\n")
}

fn bulk(text: Option<&str>) -> String {
    text.map_or_else(|| "$-1\r\n".into(), |text| format!("${}\r\n{text}\r\n", text.len()))
}
