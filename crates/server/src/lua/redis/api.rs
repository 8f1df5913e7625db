//! The table `redis` of a script: running commands, making replies, digests, the log.
//!
//! Each function is made once for a Lua state; those that need the running command find it by `current_invocation`. Texts are
//! those of Redis 7. Runs on the script's thread.

use mlua::{Lua, MultiValue, Table, Value};
use sleeve_wire::reply::Protocol;

use super::call;
use super::to_lua::Reader;
use crate::acl;
use crate::context::lookahead;
use crate::context::lookahead::Found;
use crate::context::permission;
use crate::engine::scripts::{digest_in_pieces, digest_of};
use crate::host::log;
use crate::lua::native::errors::{error_table, raise};
use crate::lua::native::invocation::{Invocation, Words};
use crate::lua::native::{current_invocation, interrupt, numbers};

/// Makes the table `redis` for scripts and for functions that run.
///
/// # Errors
/// Lua has no memory left.
pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    redis.raw_set("call", call::function(lua, lua.create_function(|lua, ()| finish(lua, true))?)?)?;
    redis.raw_set("pcall", call::function(lua, lua.create_function(|lua, ()| finish(lua, false))?)?)?;
    redis.raw_set("error_reply", lua.create_function(|lua, args: MultiValue| error_reply(lua, &args))?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, args: MultiValue| status_reply(lua, &args))?)?;
    redis.raw_set("sha1hex", lua.create_function(|lua, args: MultiValue| sha1hex(lua, &args))?)?;
    redis.raw_set("setresp", lua.create_function(|_, args: MultiValue| setresp(&args))?)?;
    redis.raw_set("set_repl", lua.create_function(|_, args: MultiValue| set_repl(&args))?)?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    redis.raw_set("acl_check_cmd", lua.create_function(|_, args: MultiValue| acl_check_cmd(&args))?)?;
    for (name, value) in REPLICATION {
        redis.raw_set(name, value)?;
    }
    add_log_and_version(lua, &redis)?;
    Ok(redis)
}

/// Returns the table under Valkey's name for it, `server`, with the name of the program.
///
/// # Errors
/// Lua has no memory left.
pub fn server_table(lua: &Lua, redis: &Table) -> mlua::Result<Table> {
    let server = lua.create_table()?;
    for pair in redis.pairs::<Value, Value>() {
        let (name, value) = pair?;
        server.raw_set(name, value)?;
    }
    server.raw_set("SERVER_NAME", "sleeve")?;
    Ok(server)
}

/// Adds the functions that a library also finds while it is loaded: the log and the version.
///
/// # Errors
/// Lua has no memory left.
pub fn add_log_and_version(lua: &Lua, redis: &Table) -> mlua::Result<()> {
    redis.raw_set("log", lua.create_function(|_, args: MultiValue| write_log(&args))?)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        redis.raw_set(name, level)?;
    }
    redis.raw_set("REDIS_VERSION", crate::REDIS_VERSION)?;
    let number = crate::REDIS_VERSION.split('.').fold(0, |number, part| number << 8 | part.parse::<i64>().unwrap_or(0));
    redis.raw_set("REDIS_VERSION_NUM", number)
}

const REPLICATION: [(&str, i64); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// Returns the result of `redis.call` or `redis.pcall` in the cases that `call` leaves to this function; `raises` says which
/// of the two it is, because only `redis.call` raises an error.
fn finish(lua: &Lua, raises: bool) -> mlua::Result<Value> {
    let answered = current_invocation::with(|invocation| answer(lua, invocation));
    match answered.unwrap_or_else(|| Err(raise("ERR redis.call is only for running scripts")))? {
        Answer::Value(value) => Ok(value),
        Answer::Error(text) if raises => Err(raise(text)),
        Answer::Error(text) => Ok(Value::Table(error_table(lua, &text)?)),
    }
}

enum Answer {
    Value(Value),
    Error(Vec<u8>),
}

fn answer(lua: &Lua, invocation: &mut Invocation<'_, '_>) -> mlua::Result<Answer> {
    if let Some(text) = invocation.failure.take() {
        return Ok(Answer::Error(text));
    }
    let read = |bytes: &[u8]| match bytes.strip_prefix(b"-") {
        Some(text) => Ok(Answer::Error(text.trim_ascii_end().to_vec())),
        None => Reader::new(lua, bytes).value().map(Answer::Value),
    };
    match invocation.cx.out.plain() {
        Some(bytes) => read(bytes),
        None => {
            let mut bytes = Vec::new();
            invocation.cx.out.copy_to(&mut bytes);
            read(&bytes)
        }
    }
}

/// Puts the arguments of a call into `words`; numbers are written as in Redis.
fn gather(words: &mut Words, args: &MultiValue) -> Result<(), &'static str> {
    if args.is_empty() {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    for arg in args {
        match arg {
            Value::String(text) => {
                let text = text.as_bytes();
                if !words.has_room(text.len()) {
                    return Err("ERR the arguments of this call are too long");
                }
                words.push(&text);
            }
            Value::Integer(number) => words.push(sleeve_wire::number::Digits::new(*number).as_bytes()),
            Value::Number(number) => words.push(numbers::general(*number, 17).as_bytes()),
            _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
        }
    }
    Ok(())
}

const ONE_STRING: &str = "ERR wrong number or type of arguments";

/// `redis.error_reply(text)`: the text after a `-` has its own code word, any other gets ERR.
fn error_reply(lua: &Lua, args: &MultiValue) -> mlua::Result<Table> {
    let Some(text) = lone_string(args) else { return error_table_bare(lua, ONE_STRING.as_bytes()) };
    let text = text.as_bytes();
    let text = text.strip_prefix(b"-").unwrap_or(&text).trim_ascii_end();
    if text.contains(&b' ') {
        return error_table_bare(lua, text);
    }
    error_table_bare(lua, &[b"ERR ".as_slice(), text].concat())
}

fn error_table_bare(lua: &Lua, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string(text)?)?;
    Ok(table)
}

fn status_reply(lua: &Lua, args: &MultiValue) -> mlua::Result<Table> {
    let Some(text) = lone_string(args) else { return error_table_bare(lua, ONE_STRING.as_bytes()) };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", text)?;
    Ok(table)
}

fn lone_string(args: &MultiValue) -> Option<&mlua::LuaString> {
    match args.front() {
        Some(Value::String(text)) if args.len() == 1 => Some(text),
        _ => None,
    }
}

fn sha1hex(lua: &Lua, args: &MultiValue) -> mlua::Result<Value> {
    let mut args = args.iter();
    let (Some(arg), None) = (args.next(), args.next()) else { return Err(raise("ERR wrong number of arguments")) };
    let text = lua.coerce_string(arg.clone())?;
    let digest = match text {
        Some(text) => digest_in_pieces(&text.as_bytes(), |len| interrupt::spend(len / DIGESTED_BYTES_A_UNIT))?,
        None => digest_of(b""),
    };
    Ok(Value::String(lua.create_string(digest)?))
}

/// The number of bytes of a text that are digested in the time of one unit of work.
const DIGESTED_BYTES_A_UNIT: usize = 4;

fn setresp(args: &MultiValue) -> mlua::Result<()> {
    let mut args = args.iter();
    let (Some(arg), None) = (args.next(), args.next()) else {
        return Err(raise("ERR redis.setresp() requires one argument."));
    };
    let protocol = match whole(arg) {
        Some(2) => Protocol::Resp2,
        Some(3) => Protocol::Resp3,
        _ => return Err(raise("ERR RESP version must be 2 or 3.")),
    };
    _ = current_invocation::with(|invocation| invocation.protocol = protocol);
    Ok(())
}

/// `redis.set_repl(flags)`. The AOF and the replicas read one journal, so both get the effects or neither does.
fn set_repl(args: &MultiValue) -> mlua::Result<()> {
    let mut args = args.iter();
    let (Some(arg), None) = (args.next(), args.next()) else {
        return Err(raise("ERR redis.set_repl() requires one argument."));
    };
    match whole(arg) {
        Some(flags @ 0..=3) => {
            _ = current_invocation::with(|invocation| invocation.cx.locks.recorder.keep_record(flags != 0));
            Ok(())
        }
        _ => Err(raise("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")),
    }
}

/// Returns a number without its fraction.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        Value::Number(number) => Some(*number as i64),
        _ => None,
    }
}

/// `redis.acl_check_cmd(command, ...)`: returns whether the user may run the command.
fn acl_check_cmd(args: &MultiValue) -> mlua::Result<bool> {
    let mut words = Words::default();
    gather(&mut words, args).map_err(raise)?;
    let is_allowed =
        current_invocation::with(|invocation| match lookahead::find(&invocation.cx.engine.names, words.args()) {
            Found::Command(row) | Found::Arity(row) => {
                let cx = &invocation.cx;
                Ok(acl::check(&cx.state.login.user, row, words.args(), permission::databases(cx)).is_ok())
            }
            Found::Unknown | Found::UnknownSubcommand(_) => {
                Err(raise("ERR Invalid command passed to redis.acl_check_cmd()"))
            }
        });
    is_allowed.unwrap_or(Ok(false))
}

fn write_log(args: &MultiValue) -> mlua::Result<()> {
    let mut args = args.iter();
    let (Some(level), true) = (args.next(), args.len() > 0) else {
        return Err(raise("ERR redis.log() requires two arguments or more."));
    };
    let Some(level) = whole(level) else { return Err(raise("ERR First argument must be a number (log level).")) };
    let words = args.filter_map(|arg| match arg {
        Value::String(text) => Some(text.to_string_lossy()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Number(number) => Some(numbers::general(*number, 14)),
        _ => None,
    });
    let text = words.collect::<Vec<_>>().join(" ");
    match level {
        0 => log::debug(&text),
        1 => log::verbose(&text),
        2 => log::notice(&text),
        3 => log::warning(&text),
        _ => return Err(raise("ERR Invalid log level.")),
    }
    Ok(())
}
