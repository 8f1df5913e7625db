//! Errors on their way through Lua: how Rust raises one, how a script sees it, and how an uncaught one is reported.
//!
//! Redis knows two sorts. `redis.call` raises a table `{err = text}`, and `pcall` shows only its text; a library function
//! raises a string that begins with its place in the script. Rust can only raise values of mlua's own, so [`Raised`] travels
//! in such a value, and each function by which a script can catch it ([`shown`], [`plain`]) turns it into the value that
//! Redis would have shown. Runs on the script's thread.

use std::fmt;

use mlua::{Lua, Table, Value};

use super::interrupt;

/// A table `{err = text}` that is raised, without the `-` of the wire.
#[derive(Debug)]
pub struct Raised(pub Vec<u8>);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for Raised {}

/// Returns an error table with this text, code word included.
#[cold]
pub fn raise(text: impl Into<Vec<u8>>) -> mlua::Error {
    mlua::Error::external(Raised(text.into()))
}

/// Returns an error string that begins with the place in the script where the running function was called, as C functions of
/// Lua raise it.
#[cold]
pub fn complain(lua: &Lua, text: impl fmt::Display) -> mlua::Error {
    mlua::Error::RuntimeError(format!("{}{text}", position(lua)))
}

/// Returns the error for an argument that a library function does not accept, in Lua's own words.
#[cold]
pub fn bad_argument(lua: &Lua, number: usize, function: &str, why: impl fmt::Display) -> mlua::Error {
    complain(lua, format_args!("bad argument #{number} to '{function}' ({why})"))
}

/// Returns the prefix with the line of the call of the running function, such as `user_script:3: `.
fn position(lua: &Lua) -> String {
    let at = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        let source = frame.source().short_src?.into_owned();
        Some(format!("{source}:{line}: "))
    });
    at.flatten().unwrap_or_default()
}

/// Returns the form in which a script sees a caught error: a table or a string if Rust raised it, otherwise the raised value.
///
/// # Errors
/// The script has to end, and nothing can catch that; Lua has no memory left.
pub fn shown(lua: &Lua, error: Value) -> mlua::Result<Value> {
    interrupt::check()?;
    let Value::Error(error) = error else { return Ok(error) };
    if let Some(Raised(text)) = error.downcast_ref() {
        return Ok(Value::Table(error_table(lua, text)?));
    }
    Ok(Value::String(lua.create_string(text_of(&error))?))
}

/// Returns the form in which `pcall` shows an error: for a table with an error text, that text.
///
/// # Errors
/// As [`shown`].
pub fn plain(lua: &Lua, error: Value) -> mlua::Result<Value> {
    interrupt::check()?;
    match error {
        Value::Table(table) => match table.raw_get::<Value>("err")? {
            text @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => Ok(text),
            _ => Ok(Value::Table(table)),
        },
        Value::Error(error) => Ok(Value::String(match error.downcast_ref() {
            Some(Raised(text)) => lua.create_string(text)?,
            None => lua.create_string(text_of(&error))?,
        })),
        other => Ok(other),
    }
}

/// Returns the table that `redis.pcall` returns for a failed command. Its second field says that the error was counted
/// already.
pub fn error_table(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    table.raw_set("ignore_error_stats_update", true)?;
    Ok(table)
}

/// Returns the text of an error, without the traceback that mlua adds.
pub fn text_of(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => text_of(cause),
        mlua::Error::RuntimeError(text) => without_traceback(text).to_owned(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => without_traceback(&other.to_string()).to_owned(),
    }
}

fn without_traceback(text: &str) -> &str {
    text.split_once("\nstack traceback:").map_or(text, |(text, _)| text)
}

/// An error that the script did not catch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncaught {
    /// The error's text, code word included.
    pub text: Vec<u8>,
    /// The place where the error was raised: the chunk and the line.
    pub place: Option<(String, i64)>,
    /// The error is that of a command, and was counted as such.
    pub is_counted: bool,
}

impl Uncaught {
    /// Returns an error that has no place in the script.
    pub fn plain(text: &str) -> Self {
        Self { text: format!("ERR {text}").into_bytes(), place: None, is_counted: false }
    }

    /// Returns the raised error, with the frame that raised it still on the stack, as Redis's error handler describes it.
    pub fn at_the_top(lua: &Lua, error: Value) -> Self {
        let text = match &error {
            Value::Error(error) => match error.downcast_ref() {
                Some(Raised(text)) => text.clone(),
                None => format!("ERR {}", text_of(error)).into_bytes(),
            },
            Value::Table(table) => match table.raw_get::<Value>("err") {
                Ok(Value::String(text)) => text.as_bytes().to_vec(),
                _ => b"ERR unknown error".to_vec(),
            },
            Value::Nil => b"ERR nil".to_vec(),
            Value::String(text) => [b"ERR ".as_slice(), &text.as_bytes()].concat(),
            other => format!("ERR {}", other.to_string().unwrap_or_default()).into_bytes(),
        };
        let is_counted = match &error {
            Value::Error(error) => error.downcast_ref::<Raised>().is_some(),
            Value::Table(table) => is_counted(table),
            _ => false,
        };
        Self { text, place: place(lua), is_counted }
    }
}

/// Returns whether the error in a table was counted when its command failed.
pub fn is_counted(table: &Table) -> bool {
    matches!(table.raw_get("ignore_error_stats_update"), Ok(true))
}

/// Returns the innermost calling function that belongs to a script.
fn place(lua: &Lua) -> Option<(String, i64)> {
    for level in 1..=FRAMES_MAX {
        let (source, line) = lua.inspect_stack(level, |frame| {
            let source = frame.source().source.unwrap_or_default().into_owned();
            (source, frame.current_line().map_or(-1, |line| line as i64))
        })?;
        if source.starts_with('@') {
            return Some((source, line));
        }
    }
    None
}

/// The most frames of the server's own functions between a script and the error that it caused.
const FRAMES_MAX: usize = 6;
