//! From Lua values to JSON text.
//!
//! A table that has only positive integers as keys is an array, with nulls in its holes; if it has more holes than the
//! settings allow, it is an object or an error. Any other table is an object. The depth is bounded, because tables may
//! contain themselves. Runs on the script's thread.

use mlua::{Lua, Table, Value};

use super::bit::type_name;
use crate::lua::native::allowance::Allowance;
use crate::lua::native::errors::complain;
use crate::lua::native::numbers;

/// The greatest depth of nested tables, regardless of the settings: the stack of a thread is finite.
pub const DEPTH_MAX: i64 = 1_000;

/// The settings of JSON that a script may change.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Arrays with too many holes become objects instead of errors.
    pub converts_sparse: bool,
    /// The ratio of the greatest key to the number of elements above which an array has too many holes; 0 allows any.
    pub sparse_ratio: i64,
    /// The greatest key up to which an array never has too many holes.
    pub sparse_safe: i64,
    /// The greatest depth that is written.
    pub encode_depth_max: i64,
    /// The greatest depth that is read.
    pub decode_depth_max: i64,
    /// The number of significant digits of numbers.
    pub number_precision: i64,
    /// A setting that is kept and shown without effect: buffers are never kept here.
    pub keeps_buffer: bool,
    /// Infinity and not-a-number are accepted and written.
    pub encodes_invalid_numbers: bool,
    /// Infinity and not-a-number are written as null.
    pub writes_invalid_as_null: bool,
    /// Infinity, not-a-number and hexadecimal numbers are accepted when a text is read.
    pub decodes_invalid_numbers: bool,
    /// Arrays that are read are marked, so that empty ones are written as arrays again.
    pub marks_arrays: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1_000,
            decode_depth_max: 1_000,
            number_precision: 14,
            keeps_buffer: true,
            encodes_invalid_numbers: false,
            writes_invalid_as_null: false,
            decodes_invalid_numbers: true,
            marks_arrays: false,
        }
    }
}

/// The name under which Lua keeps the metatable that marks arrays.
const ARRAY_MARK: &str = "sleeve.json.array";

/// Returns the metatable that marks arrays which were read.
///
/// # Errors
/// Lua has no memory left.
pub fn array_mark(lua: &Lua) -> mlua::Result<Table> {
    if let Value::Table(mark) = lua.named_registry_value(ARRAY_MARK)? {
        return Ok(mark);
    }
    let mark = lua.create_table()?;
    lua.set_named_registry_value(ARRAY_MARK, &mark)?;
    Ok(mark)
}

/// Returns the text of a value.
///
/// # Errors
/// The value, or a value within it, has no form in JSON; Lua has no memory left.
pub fn encode(lua: &Lua, settings: &Settings, value: &Value) -> mlua::Result<Vec<u8>> {
    let mut encoder = Encoder { lua, settings, out: Vec::new(), allowance: Allowance::new(lua) };
    encoder.value(value, 0)?;
    Ok(encoder.out)
}

struct Encoder<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    out: Vec<u8>,
    allowance: Allowance<'a>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> mlua::Result<()> {
        self.allowance.write(self.out.len())?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(data) if data.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Table(table) => self.table(table, depth + 1)?,
            other => return Err(self.refuse(type_name(other), "type not supported")),
        }
        Ok(())
    }

    fn refuse(&self, kind: &str, why: &str) -> mlua::Error {
        complain(self.lua, format_args!("Cannot serialise {kind}: {why}"))
    }

    fn number(&mut self, number: f64) -> mlua::Result<()> {
        if number.is_finite() || self.settings.encodes_invalid_numbers {
            let text = numbers::general(number, self.settings.number_precision as usize);
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        if !self.settings.writes_invalid_as_null {
            return Err(self.refuse("number", "must not be NaN or Inf"));
        }
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        if depth > self.settings.encode_depth_max.min(DEPTH_MAX) {
            return Err(complain(self.lua, format_args!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len(table)? {
            Some(len) if len > 0 => self.array(table, len, depth),
            _ if self.is_marked(table)? => self.array(table, 0, depth),
            _ => self.object(table, depth),
        }
    }

    fn is_marked(&self, table: &Table) -> mlua::Result<bool> {
        match table.metatable() {
            Some(metatable) => Ok(metatable.to_pointer() == array_mark(self.lua)?.to_pointer()),
            None => Ok(false),
        }
    }

    /// Returns the greatest key of a table that has only positive integers as keys. Returns None if the table is an object,
    /// also because it has too many holes.
    fn array_len(&mut self, table: &Table) -> mlua::Result<Option<i64>> {
        let (mut greatest, mut count) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.allowance.write(self.out.len())?;
            let key = match pair?.0 {
                Value::Integer(key) => key,
                Value::Number(key) if key.fract() == 0.0 => key as i64,
                _ => return Ok(None),
            };
            // In the C library such a key overflows its integers, and the table becomes an object.
            if !(1..=i64::from(i32::MAX)).contains(&key) {
                return Ok(None);
            }
            greatest = greatest.max(key);
            count += 1;
        }
        let Settings { sparse_ratio, sparse_safe, converts_sparse, .. } = *self.settings;
        if sparse_ratio > 0 && greatest > sparse_ratio.saturating_mul(count) && greatest > sparse_safe {
            if !converts_sparse {
                return Err(self.refuse("table", "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(greatest))
    }

    fn array(&mut self, table: &Table, len: i64, depth: i64) -> mlua::Result<()> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::replace(&mut is_first, false) {
                self.out.push(b',');
            }
            match key {
                Value::String(key) => self.string(&key.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => return Err(self.refuse(type_name(&other), "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..0x20 | 0x7f => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }
}
