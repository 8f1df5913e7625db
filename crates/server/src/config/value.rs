//! The value of an option: from words to a value and back, with Redis's limits and Redis's error texts.
//!
//! This module knows the kinds of values, not their meanings: the code that asked for a change decides about its
//! consequences. Pure functions, except that a folder is looked up on the disk; any thread.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use sleeve_wire::number::parse_i64;

use super::events;
use super::limits;
use super::limits::OutputLimits;
use super::oom_values;
use super::save_points;
use super::shutdown;
use super::size;
use super::table::{Announced, Kind};
use super::title_template;

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Numbers, memory sizes (as the bits of a `u64`), flags (0, 1) and choices (positions).
    Number(i64),
    /// Texts, words (joined by single spaces) and folders (absolute).
    Text(Vec<u8>),
    /// The output buffer limits of all client classes.
    Limits(OutputLimits),
}

/// Reads the words that follow an option's name. `current` is the option's present value: a class of clients that the words
/// do not name keeps its limits.
///
/// # Errors
/// The reason in Redis's words.
pub fn parse(kind: Kind, words: &[&[u8]], current: &Value) -> Result<Value, String> {
    match kind {
        Kind::OutputLimits => match current {
            Value::Limits(old) => limits::parse(old, words).map(Value::Limits),
            _ => Err("wrong number of arguments".into()),
        },
        Kind::Words { max, too_many } => parse_words(words, max, too_many),
        Kind::Percentiles => parse_percentiles(words),
        Kind::Shutdown => shutdown::parse(words).map(Value::Number),
        Kind::OomValues => oom_values::parse(words).map(|shown| Value::Text(shown.into_bytes())),
        Kind::SavePoints => save_points::parse(words).map(|shown| Value::Text(shown.into_bytes())),
        Kind::Master => parse_master(words),
        Kind::Fixed(accepted) => parse_fixed(accepted, &words.join(&b' ')),
        _ => match words {
            [word] => parse_one(kind, word),
            _ => Err("wrong number of arguments".into()),
        },
    }
}

fn parse_one(kind: Kind, word: &[u8]) -> Result<Value, String> {
    match kind {
        Kind::Flag => parse_flag(word),
        Kind::Number { min, max, clamp } => {
            let value = within(integer(word)?, min, max)?;
            let (low, high) = clamp.unwrap_or((min, max));
            Ok(Value::Number(value.clamp(low, high)))
        }
        Kind::PowerOfTwo { max } => {
            let value = within(integer(word)?, 0, max)?;
            if value.count_ones() <= 1 {
                Ok(Value::Number(value))
            } else {
                Err("argument must be a power of two".into())
            }
        }
        Kind::Memory { min, max } => parse_memory(word, min, max),
        Kind::MemoryOrPercent => parse_memory_or_percent(word),
        Kind::Octal { max } => parse_octal(word, max),
        Kind::Choice(choices) => parse_choice(word, choices),
        Kind::Named(names) => parse_named(word, names),
        Kind::Template => title_template::check(word).map(|()| Value::Text(word.to_vec())),
        Kind::Folder => parse_folder(word),
        Kind::FileName { path, empty } => parse_file_name(word, path, empty),
        Kind::Events => events::parse(word).map(|bits| Value::Number(i64::from(bits))),
        Kind::Announced(name) => check_announced(name, word).map(|()| Value::Text(word.to_vec())),
        Kind::Text(_)
        | Kind::Words { .. }
        | Kind::Percentiles
        | Kind::OutputLimits
        | Kind::Shutdown
        | Kind::OomValues
        | Kind::SavePoints
        | Kind::Master
        | Kind::Fixed(_) => Ok(Value::Text(word.to_vec())),
    }
}

/// Returns a value as CONFIG GET shows it.
pub fn show(kind: Kind, value: &Value) -> Vec<u8> {
    match (kind, value) {
        (Kind::Fixed([shown, ..]), _) => shown.as_bytes().to_vec(),
        (Kind::Flag, Value::Number(number)) => if *number == 0 { b"no".as_slice() } else { b"yes" }.to_vec(),
        (Kind::Choice(choices), Value::Number(number)) => {
            usize::try_from(*number).ok().and_then(|at| choices.get(at)).unwrap_or(&"").as_bytes().to_vec()
        }
        (Kind::Named(names), Value::Number(number)) => {
            names.iter().find(|(_, meant)| meant == number).map_or("", |(name, _)| name).as_bytes().to_vec()
        }
        (Kind::Octal { .. }, Value::Number(number)) => format!("{number:o}").into_bytes(),
        (Kind::MemoryOrPercent, Value::Number(number)) if *number < 0 => format!("{}%", -number).into_bytes(),
        (Kind::Memory { .. }, Value::Number(number)) => (*number as u64).to_string().into_bytes(),
        (Kind::Folder, Value::Text(text)) => absolute(text),
        (Kind::Shutdown, Value::Number(number)) => shutdown::show(*number).into_bytes(),
        (Kind::Events, Value::Number(number)) => events::show(*number as u32).into_bytes(),
        (_, Value::Number(number)) => number.to_string().into_bytes(),
        (_, Value::Text(text)) => text.clone(),
        (_, Value::Limits(limits)) => limits::show(limits).into_bytes(),
    }
}

fn integer(word: &[u8]) -> Result<i64, String> {
    parse_i64(word).ok_or_else(|| "argument couldn't be parsed into an integer".into())
}

fn within(value: i64, min: i64, max: i64) -> Result<i64, String> {
    if (min..=max).contains(&value) {
        Ok(value)
    } else {
        Err(format!("argument must be between {min} and {max} inclusive"))
    }
}

fn parse_flag(word: &[u8]) -> Result<Value, String> {
    match word.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(Value::Number(1)),
        b"no" => Ok(Value::Number(0)),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn parse_memory(word: &[u8], min: u64, max: u64) -> Result<Value, String> {
    match size::parse(word) {
        None => Err("argument must be a memory value".into()),
        Some(bytes) if (min..=max).contains(&bytes) => Ok(Value::Number(bytes as i64)),
        Some(_) => Err(format!("argument must be between {min} and {max} inclusive")),
    }
}

fn parse_memory_or_percent(word: &[u8]) -> Result<Value, String> {
    let Some(percent) = word.strip_suffix(b"%") else {
        let bytes = size::parse(word).and_then(|bytes| i64::try_from(bytes).ok());
        return bytes.map(Value::Number).ok_or_else(|| "argument must be a memory or percent value".into());
    };
    match parse_i64(percent) {
        Some(percent) if (0..=100).contains(&percent) => Ok(Value::Number(-percent)),
        Some(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
        _ => Err("argument must be a memory or percent value".into()),
    }
}

fn parse_octal(word: &[u8], max: i64) -> Result<Value, String> {
    let value = std::str::from_utf8(word).ok().and_then(|text| i64::from_str_radix(text, 8).ok());
    match value {
        None => Err("argument couldn't be parsed as an octal number".into()),
        Some(value) if (0..=max).contains(&value) => Ok(Value::Number(value)),
        Some(_) => Err(format!("argument must be between 0 and {max:o} inclusive")),
    }
}

fn parse_choice(word: &[u8], choices: &[&str]) -> Result<Value, String> {
    let position = choices.iter().position(|choice| choice.as_bytes().eq_ignore_ascii_case(word));
    let position =
        position.ok_or_else(|| format!("argument(s) must be one of the following: {}", choices.join(", ")))?;
    Ok(Value::Number(position as i64))
}

fn parse_named(word: &[u8], names: &[(&str, i64)]) -> Result<Value, String> {
    let known = names.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(word));
    known.map(|(_, meant)| Value::Number(*meant)).ok_or_else(|| {
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        format!("argument(s) must be one of the following: {}", names.join(", "))
    })
}

fn parse_words(words: &[&[u8]], max: usize, too_many: &str) -> Result<Value, String> {
    if words.len() > max {
        return Err(too_many.into());
    }
    let present: Vec<_> = words.iter().copied().filter(|word| !word.is_empty()).collect();
    // A word with such a byte could not be written into a configuration file and read back.
    let is_odd = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'".contains(byte);
    if present.iter().any(|word| word.iter().any(is_odd)) {
        return Err(
            "a word holds a space, a quote or a control character: write the words apart, each without quotes".into()
        );
    }
    Ok(Value::Text(present.join(&b' ')))
}

fn parse_percentiles(words: &[&[u8]]) -> Result<Value, String> {
    let present = words.iter().flat_map(|word| word.split(|&byte| byte == b' ')).filter(|word| !word.is_empty());
    let mut shown = Vec::new();
    for word in present {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
        match number {
            Some(number) if (0.0..=100.0).contains(&number) => shown.push(number.to_string()),
            Some(number) if !number.is_nan() => {
                return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
            }
            _ => return Err("Invalid latency-tracking-info-percentiles parameters".into()),
        }
    }
    Ok(Value::Text(shown.join(" ").into_bytes()))
}

fn parse_fixed(accepted: &[&str], text: &[u8]) -> Result<Value, String> {
    if accepted.iter().any(|value| value.as_bytes().eq_ignore_ascii_case(text)) {
        return Ok(Value::Text(Vec::new()));
    }
    let shown = accepted.first().copied().unwrap_or_default();
    Err(format!("'{}' is not supported yet, only '{shown}' is", String::from_utf8_lossy(text)))
}

fn parse_master(words: &[&[u8]]) -> Result<Value, String> {
    match words {
        [b""] => Ok(Value::Text(Vec::new())),
        [no, one] if no.eq_ignore_ascii_case(b"no") && one.eq_ignore_ascii_case(b"one") => Ok(Value::Text(Vec::new())),
        [_, port] if parse_i64(port).is_none_or(|port| !(0..=65_535).contains(&port)) => {
            Err("Invalid master port".into())
        }
        [host, _] if host.is_empty() || std::str::from_utf8(host).is_err() => Err("Invalid master host".into()),
        [host, port] => Ok(Value::Text([host, b" ".as_slice(), port].concat())),
        _ => Err("wrong number of arguments".into()),
    }
}

/// Checks a name under which a node announces itself: packets have room for so many bytes of it, and nodes.conf separates
/// names by some characters.
fn check_announced(name: Announced, word: &[u8]) -> Result<(), String> {
    let (bytes_max, is_allowed, reason): (usize, fn(u8) -> bool, &str) = match name {
        Announced::Ip => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:%_".contains(&byte);
            (45, is_allowed, "cluster-announce-ip contains invalid character")
        }
        Announced::Hostname if word.len() > 255 => return Err("Hostnames must be less than 256 characters".into()),
        Announced::Hostname => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
            (255, is_allowed, "Hostnames may only contain alphanumeric characters, hyphens or dots")
        }
        Announced::HumanName => {
            let is_allowed = |byte: u8| {
                let is_separator = byte <= b' ' || b"!#$%&()*+:;<>?@[]^{|}~,=\"'\\\x7f".contains(&byte);
                !is_separator
            };
            (255, is_allowed, "Announced human node name contained invalid character")
        }
    };
    let is_text = std::str::from_utf8(word).is_ok();
    if is_text && word.len() <= bytes_max && word.iter().copied().all(is_allowed) { Ok(()) } else { Err(reason.into()) }
}

fn parse_file_name(word: &[u8], path: &str, empty: Option<&str>) -> Result<Value, String> {
    match empty {
        Some(reason) if word.is_empty() => Err(reason.into()),
        _ if word.contains(&b'/') => Err(path.into()),
        _ => Ok(Value::Text(word.to_vec())),
    }
}

fn parse_folder(word: &[u8]) -> Result<Value, String> {
    let path = Path::new(std::ffi::OsStr::from_bytes(word));
    let folder = path.canonicalize().map_err(|error| reason(&error))?;
    if !folder.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(Value::Text(folder.into_os_string().into_vec()))
}

/// Returns the absolute path of the folder; if the process's own folder no longer exists, the text as it is.
fn absolute(text: &[u8]) -> Vec<u8> {
    let path = Path::new(std::ffi::OsStr::from_bytes(text));
    path.canonicalize().map_or_else(|_| text.to_vec(), |path| path.into_os_string().into_vec())
}

/// Returns the system's text for an error, without Rust's number after it.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_several_holds_no_space() {
        let kind = Kind::Words { max: 16, too_many: "too many" };
        for bad in [b"a b".as_slice(), b"a\x0bb", b"a\tb", b"\\\"a", b"a'"] {
            assert!(parse(kind, &[b"ok", bad], &Value::Number(0)).is_err_and(|reason| reason.contains("space")));
        }
    }

    #[test]
    fn octal_numbers_are_shown_as_they_are_written() {
        let kind = Kind::Octal { max: 0o777 };
        let value = parse(kind, &[b"0750"], &Value::Number(0)).expect("octal");
        assert_eq!(show(kind, &value), b"750");
        assert_eq!(parse(kind, &[b"9"], &value), Err("argument couldn't be parsed as an octal number".into()));
        assert_eq!(parse(kind, &[b"7777"], &value), Err("argument must be between 0 and 777 inclusive".into()));
    }

    #[test]
    fn a_fixed_option_takes_only_what_is_true() {
        let kind = Kind::Fixed(&["", "no one"]);
        let none = Value::Text(Vec::new());
        assert_eq!(parse(kind, &[b""], &none), Ok(none.clone()));
        assert_eq!(parse(kind, &[b"NO", b"ONE"], &none), Ok(none.clone()));
        assert_eq!(parse(kind, &[b"host", b"1"], &none), Err("'host 1' is not supported yet, only '' is".into()));
    }
}
