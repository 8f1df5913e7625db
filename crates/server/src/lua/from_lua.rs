//! From Lua to the client: turns the value that a script returns into a reply.
//!
//! The client's protocol decides the form. The script's call of `redis.setresp` decides whether `true` is a boolean or 1. The
//! first known field of a table decides its kind (`err`, `ok`, `double`, `map`, `set`, `big_number`, `verbatim_string`); any
//! other table is an array up to its first hole. Scripts are not trusted: the depth and the number of values are bounded,
//! because tables may contain themselves. Runs on the script's thread.

use mlua::ffi;
use mlua::{Lua, Table, Value};
use sleeve_wire::reply::{Protocol, Writer};

use super::native::allowance::Allowance;
use super::native::interrupt;

/// The greatest depth of nested tables. A deeper value is replaced by an error, as in Redis, where Lua's stack is the bound.
const DEPTH_MAX: usize = 1_000;

/// The most values of a reply, unless Lua's memory can hold more: a value in a table takes [`PLACE_BYTES`], and a reply with
/// more values than memory can hold has some of them several times.
const VALUES_MAX: usize = 1 << 24;
const PLACE_BYTES: usize = 16;

/// The writer of a script's value as a reply.
pub struct Sender<'a, 'b> {
    reply: &'a mut Writer<'b>,
    script: Protocol,
    lua: &'a Lua,
    allowance: Allowance<'a>,
    /// The length of the output before the reply.
    start: usize,
    values_left: usize,
}

impl<'a, 'b> Sender<'a, 'b> {
    /// Begins a reply in the writer `reply`, for a script that has asked for the protocol `script`.
    pub fn new(reply: &'a mut Writer<'b>, script: Protocol, lua: &'a Lua) -> Self {
        let start = reply.out.len();
        let values_left = VALUES_MAX.max(lua.used_memory() / PLACE_BYTES);
        Self { reply, script, lua, allowance: Allowance::new(lua), start, values_left }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// The script has to end; there is no memory left for the reply; or the reply has too many values.
    pub fn value(&mut self, value: &Value) -> mlua::Result<()> {
        self.nested(value, 0)
    }

    fn nested(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        if self.reply.is_full() {
            return Ok(());
        }
        self.allowance.write(self.reply.out.len() - self.start)?;
        let Some(left) = self.values_left.checked_sub(1) else {
            return Err(mlua::Error::runtime("the reply of the script has too many values"));
        };
        self.values_left = left;
        if depth > DEPTH_MAX {
            self.reply.error("ERR reached lua stack limit");
            return Ok(());
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(*number as i64),
            Value::Boolean(value) if self.script == Protocol::Resp3 => self.reply.boolean(*value),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => return self.table(table, depth),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        if let Value::String(text) = table.raw_get("err")? {
            self.reply.error(text.as_bytes());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            push_line(self.reply.out, b'+', &text.as_bytes());
            return Ok(());
        }
        if let Some(number) = number(&table.raw_get("double")?) {
            self.reply.double(number);
            return Ok(());
        }
        if let Value::Table(pairs) = table.raw_get("map")? {
            return self.map(&pairs, depth);
        }
        if let Value::Table(members) = table.raw_get("set")? {
            return self.set(&members, depth);
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            match self.reply.protocol {
                Protocol::Resp3 => push_line(self.reply.out, b'(', &digits.as_bytes()),
                Protocol::Resp2 => self.reply.bulk(&digits.as_bytes().iter().map(in_line).collect::<Vec<_>>()),
            }
            return Ok(());
        }
        if let Value::Table(parts) = table.raw_get("verbatim_string")?
            && let (Value::String(text), Value::String(format)) = (parts.raw_get("string")?, parts.raw_get("format")?)
        {
            let mut letters = [b' '; 3];
            letters.iter_mut().zip(format.as_bytes().iter()).for_each(|(letter, byte)| *letter = *byte);
            self.reply.verbatim(&letters, &text.as_bytes());
            return Ok(());
        }
        self.array(table, depth)
    }

    fn array(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
        let len = self.array_len(table)?;
        self.reply.array(len);
        (1..=len).try_for_each(|index| self.nested(&table.raw_get(index)?, depth + 1))
    }

    fn map(&mut self, pairs: &Table, depth: usize) -> mlua::Result<()> {
        let len = self.pairs_len(pairs)?;
        self.reply.map(len);
        for pair in pairs.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.nested(&key, depth + 1)?;
            self.nested(&value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, members: &Table, depth: usize) -> mlua::Result<()> {
        let len = self.pairs_len(members)?;
        self.reply.set(len);
        members.pairs::<Value, Value>().try_for_each(|pair| self.nested(&pair?.0, depth + 1))
    }

    /// Returns how many elements a table has before its first hole.
    fn array_len(&self, table: &Table) -> mlua::Result<usize> {
        let mut len = 0;
        // SAFETY: mlua has put only the table on the stack, and protects the call. One slot more is used, and nothing
        // allocates.
        unsafe {
            self.lua.exec_raw::<()>(table, |state| {
                loop {
                    ffi::lua_rawgeti_(state, 1, len + 1);
                    let is_hole = ffi::lua_type(state, -1) == ffi::LUA_TNIL;
                    ffi::lua_settop(state, 1);
                    if is_hole || interrupt::spend(1).is_err() {
                        break;
                    }
                    len += 1;
                }
                ffi::lua_settop(state, 0);
            })
        }?;
        interrupt::check()?;
        Ok(len as usize)
    }

    /// Returns how many keys a table has.
    fn pairs_len(&self, table: &Table) -> mlua::Result<usize> {
        let mut len = 0;
        // SAFETY: as above; two slots more are used.
        unsafe {
            self.lua.exec_raw::<()>(table, |state| {
                ffi::lua_pushnil(state);
                while ffi::lua_next(state, 1) != 0 && interrupt::spend(1).is_ok() {
                    ffi::lua_settop(state, -2);
                    len += 1;
                }
                ffi::lua_settop(state, 0);
            })
        }?;
        interrupt::check()?;
        Ok(len)
    }
}

/// Reads a number, or a string that Lua would convert to one.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// Returns a byte as it stands in a simple string or an error: line ends become spaces.
fn in_line(byte: &u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }
}

/// Writes a simple string or an error with a script's text.
fn push_line(out: &mut Vec<u8>, marker: u8, text: &[u8]) {
    out.push(marker);
    out.extend(text.iter().map(in_line));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlua::Lua;

    fn send(script: &str, protocol: Protocol, resp: Protocol) -> String {
        let lua = Lua::new();
        let value: Value = lua.load(script).eval().expect("a value");
        let mut bytes = Vec::new();
        let mut reply = Writer::new(&mut bytes, protocol);
        Sender::new(&mut reply, resp, &lua).value(&value).expect("memory");
        bytes.escape_ascii().to_string()
    }

    #[test]
    fn each_kind_of_value_has_its_reply() {
        use Protocol::{Resp2, Resp3};
        for (script, two, three) in [
            (
                "{1, 2.9, 'a', false, nil, 5}",
                "*4\\r\\n:1\\r\\n:2\\r\\n$1\\r\\na\\r\\n$-1\\r\\n",
                "*4\\r\\n:1\\r\\n:2\\r\\n$1\\r\\na\\r\\n_\\r\\n",
            ),
            ("{err = 'a\\r\\nb'}", "-a  b\\r\\n", "-a  b\\r\\n"),
            ("{ok = 'fine'}", "+fine\\r\\n", "+fine\\r\\n"),
            ("{double = 3.5}", "$3\\r\\n3.5\\r\\n", ",3.5\\r\\n"),
            ("{map = {a = 1}}", "*2\\r\\n$1\\r\\na\\r\\n:1\\r\\n", "%1\\r\\n$1\\r\\na\\r\\n:1\\r\\n"),
            ("{set = {a = true}}", "*1\\r\\n$1\\r\\na\\r\\n", "~1\\r\\n$1\\r\\na\\r\\n"),
            ("{big_number = '12'}", "$2\\r\\n12\\r\\n", "(12\\r\\n"),
            ("{big_number = '1\\r\\n2'}", "$4\\r\\n1  2\\r\\n", "(1  2\\r\\n"),
            ("{verbatim_string = {string = 'a', format = 'txt'}}", "$1\\r\\na\\r\\n", "=5\\r\\ntxt:a\\r\\n"),
            ("function() end", "$-1\\r\\n", "_\\r\\n"),
        ] {
            let script = format!("return {script}");
            assert_eq!((send(&script, Resp2, Resp2), send(&script, Resp3, Resp2)), (two.to_owned(), three.to_owned()));
        }
        assert_eq!(send("return true", Resp3, Resp2), ":1\\r\\n");
        assert_eq!(send("return true", Resp3, Resp3), "#t\\r\\n");
        assert_eq!(send("return true", Resp2, Resp3), ":1\\r\\n");
    }

    #[test]
    fn a_table_in_itself_ends() {
        let send = || send("local a = {} a[1] = a return a", Protocol::Resp2, Protocol::Resp2);
        // The stack frames of a build without optimisation are many times as large as those of a release.
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(send);
        let text = thread.expect("a thread").join().expect("it ends");
        assert!(text.ends_with("*1\\r\\n-ERR reached lua stack limit\\r\\n"));
    }
}
