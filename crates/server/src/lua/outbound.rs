//! From Lua to the client: what a script returns becomes a reply.
//!
//! The client's protocol decides the form; whether `true` is a boolean or 1 is decided by what the script said with
//! `redis.setresp`. A table is what its first known field says (`err`, `ok`, `double`, `map`, `set`, `big_number`,
//! `verbatim_string`) and otherwise an array up to its first hole. Scripts are foreign: depth is bounded. Runs on the
//! script's thread.

use mlua::{Table, Value};
use sleeve_wire::reply::{Protocol, Writer};

/// Tables nest this deep at most; what is deeper is an error in its place, as in Redis, where the stack of Lua bounds it.
const DEPTH_MAX: usize = 1_000;

/// Writes replies.
pub struct Sender<'a, 'b> {
    /// Where the reply goes.
    pub reply: &'a mut Writer<'b>,
    /// What the script asked for.
    pub script: Protocol,
}

impl Sender<'_, '_> {
    /// Writes a value.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn value(&mut self, value: &Value) -> mlua::Result<()> {
        self.nested(value, 0)
    }

    fn nested(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
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
        let mut values = Vec::new();
        loop {
            match table.raw_get::<Value>(values.len() + 1)? {
                Value::Nil => break,
                value => values.push(value),
            }
        }
        self.reply.array(values.len());
        values.iter().try_for_each(|value| self.nested(value, depth + 1))
    }

    fn map(&mut self, pairs: &Table, depth: usize) -> mlua::Result<()> {
        let pairs = pairs.pairs::<Value, Value>().collect::<mlua::Result<Vec<_>>>()?;
        self.reply.map(pairs.len());
        for (key, value) in &pairs {
            self.nested(key, depth + 1)?;
            self.nested(value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, members: &Table, depth: usize) -> mlua::Result<()> {
        let members = members.pairs::<Value, Value>().collect::<mlua::Result<Vec<_>>>()?;
        self.reply.set(members.len());
        members.iter().try_for_each(|(member, _)| self.nested(member, depth + 1))
    }
}

/// A number, or a string that Lua would take for one.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// A byte of a line: line ends become spaces.
fn in_line(byte: &u8) -> u8 {
    if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }
}

/// A line of a script's own.
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
        Sender { reply: &mut reply, script: resp }.value(&value).expect("memory");
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
        // Unoptimised frames are many times as large as those of a release.
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(send);
        let text = thread.expect("a thread").join().expect("it ends");
        assert!(text.ends_with("*1\\r\\n-ERR reached lua stack limit\\r\\n"));
    }
}
