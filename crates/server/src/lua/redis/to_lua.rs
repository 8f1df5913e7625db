//! From a command's reply to Lua: the value that `redis.call` returns.
//!
//! The reply is in the protocol that the script has asked for, RESP2 unless it called `redis.setresp(3)`. It becomes the
//! value that Redis's documentation gives: integers and bulk strings are numbers and strings, a status is `{ok = text}`, an
//! error `{err = text}`, null `false` in RESP2 and `nil` in RESP3; doubles, maps, sets, big numbers and verbatim strings are
//! tables with one field that names them. The bytes come from this server's commands, so they are trusted. Runs on the
//! script's thread.

use mlua::{Lua, Value};
use sleeve_wire::number;

use crate::lua::native::allowance::Allowance;
use crate::lua::native::errors;

/// The greatest depth of replies; no command's reply comes near it.
const DEPTH_MAX: usize = 64;

/// Reads replies from the front of some bytes.
pub struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    allowance: Allowance<'a>,
}

impl<'a> Reader<'a> {
    /// Reads from these bytes.
    pub fn new(lua: &'a Lua, bytes: &'a [u8]) -> Self {
        Self { lua, rest: bytes, allowance: Allowance::new(lua) }
    }

    /// Reads the next reply.
    ///
    /// # Errors
    /// Lua has no memory left, or the bytes are no reply.
    pub fn value(&mut self) -> mlua::Result<Value> {
        self.nested(0)
    }

    fn nested(&mut self, depth: usize) -> mlua::Result<Value> {
        self.allowance.read(0)?;
        let line = self.line();
        let (&marker, text) = line.split_first().ok_or_else(broken)?;
        if depth > DEPTH_MAX {
            return Err(broken());
        }
        match marker {
            b':' => Ok(Value::Number(number::parse_i64(text).ok_or_else(broken)? as f64)),
            b'$' => match len(text) {
                None => Ok(Value::Boolean(false)),
                Some(len) => self.bulk(len),
            },
            b'+' => self.tagged("ok", text),
            b'-' => Ok(Value::Table(errors::error_table(self.lua, text)?)),
            b'*' => match len(text) {
                None => Ok(Value::Boolean(false)),
                Some(len) => self.array(len, depth),
            },
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(text == b"t")),
            b',' => self.double(text),
            b'(' => self.tagged("big_number", text),
            b'%' => self.map(len(text).unwrap_or(0), depth),
            b'~' => self.set(len(text).unwrap_or(0), depth),
            b'=' => self.verbatim(len(text).unwrap_or(0)),
            b'|' => {
                for _ in 0..2 * len(text).unwrap_or(0) {
                    self.nested(depth + 1)?;
                }
                self.nested(depth)
            }
            b'>' => self.array(len(text).unwrap_or(0), depth),
            _ => Err(broken()),
        }
    }

    /// Returns the bytes up to the next line end, and skips the line end.
    fn line(&mut self) -> &'a [u8] {
        let end = memchr(self.rest);
        let line = self.rest.get(..end).unwrap_or_default();
        self.rest = self.rest.get(end + 2..).unwrap_or_default();
        line
    }

    fn take(&mut self, len: usize) -> mlua::Result<&'a [u8]> {
        let bytes = self.rest.get(..len).ok_or_else(broken)?;
        self.rest = self.rest.get(len + 2..).unwrap_or_default();
        Ok(bytes)
    }

    fn bulk(&mut self, len: usize) -> mlua::Result<Value> {
        let bytes = self.take(len)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(len.min(self.rest.len()), 0)?;
        for index in 1..=len {
            let value = self.nested(depth + 1)?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let pairs = self.lua.create_table_with_capacity(0, len.min(self.rest.len()))?;
        for _ in 0..len {
            let key = self.nested(depth + 1)?;
            let value = self.nested(depth + 1)?;
            pairs.raw_set(key, value)?;
        }
        self.wrapped("map", Value::Table(pairs))
    }

    fn set(&mut self, len: usize, depth: usize) -> mlua::Result<Value> {
        let members = self.lua.create_table_with_capacity(0, len.min(self.rest.len()))?;
        for _ in 0..len {
            let member = self.nested(depth + 1)?;
            members.raw_set(member, true)?;
        }
        self.wrapped("set", Value::Table(members))
    }

    fn verbatim(&mut self, len: usize) -> mlua::Result<Value> {
        let bytes = self.take(len)?;
        let parts = self.lua.create_table_with_capacity(0, 2)?;
        parts.raw_set("format", self.lua.create_string(bytes.get(..3).unwrap_or_default())?)?;
        parts.raw_set("string", self.lua.create_string(bytes.get(4..).unwrap_or_default())?)?;
        self.wrapped("verbatim_string", Value::Table(parts))
    }

    fn double(&mut self, text: &[u8]) -> mlua::Result<Value> {
        let value = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()).ok_or_else(broken)?;
        self.wrapped("double", Value::Number(value))
    }

    fn tagged(&mut self, tag: &str, text: &[u8]) -> mlua::Result<Value> {
        let text = self.lua.create_string(text)?;
        self.wrapped(tag, Value::String(text))
    }

    fn wrapped(&mut self, tag: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(tag, value)?;
        Ok(Value::Table(table))
    }
}

/// Reads a length; returns None for the nulls of RESP2.
fn len(text: &[u8]) -> Option<usize> {
    number::parse_i64(text).and_then(|len| usize::try_from(len).ok())
}

fn memchr(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte == b'\r').unwrap_or(bytes.len())
}

#[cold]
fn broken() -> mlua::Error {
    errors::raise("ERR the reply of a command could not be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lua: &Lua, bytes: &[u8]) -> String {
        let value = Reader::new(lua, bytes).value();
        lua.globals()
            .set("v", value.unwrap_or(Value::String(lua.create_string("broken").expect("memory"))))
            .expect("a global");
        let show = "local function s(v) if type(v) ~= 'table' then return tostring(v) end local r = {} for k, w in \
                    pairs(v) do r[#r + 1] = tostring(k) .. '=' .. s(w) end table.sort(r) return '{' .. \
                    table.concat(r, ',') .. '}' end return s(v)";
        lua.load(show).eval().expect("text")
    }

    #[test]
    fn each_kind_of_reply_has_its_value() {
        let lua = Lua::new();
        let cases: [(&[u8], &str); 16] = [
            (b":5\r\n", "5"),
            (b"$3\r\na\r\n\r\n", "a\r\n"),
            (b"$-1\r\n", "false"),
            (b"*-1\r\n", "false"),
            (b"_\r\n", "nil"),
            (b"+OK\r\n", "{ok=OK}"),
            (b"-ERR x\r\n", "{err=ERR x,ignore_error_stats_update=true}"),
            (b"*3\r\n:1\r\n$-1\r\n*1\r\n:2\r\n", "{1=1,2=false,3={1=2}}"),
            (b"#t\r\n", "true"),
            (b",inf\r\n", "{double=inf}"),
            (b"(123\r\n", "{big_number=123}"),
            (b"%1\r\n$1\r\na\r\n:1\r\n", "{map={a=1}}"),
            (b"~2\r\n:1\r\n$1\r\nb\r\n", "{set={1=true,b=true}}"),
            (b"=7\r\ntxt:abc\r\n", "{verbatim_string={format=txt,string=abc}}"),
            (b"*2\r\n:1\r\n", "broken"),
            (b"", "broken"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(&lua, bytes), expected);
        }
    }
}
