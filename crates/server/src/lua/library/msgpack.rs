//! The table `cmsgpack`: MessagePack for scripts, as in version 0.4 of the library of that name.
//!
//! Whole numbers are packed as the shortest integer, others as a float if that loses nothing. Tables with the keys 1 to n are
//! packed as arrays, others as maps. A value without a form in the format is packed as nil, and so is a table at a depth of
//! more than 16. Packed bytes are not trusted: the depth is bounded and no memory is reserved for a claimed length. Format:
//! msgpack.org, without extensions and timestamps. Runs on the script's thread.

use mlua::{Lua, MultiValue, Table, Value};

use super::bit::type_name;
use crate::lua::native::allowance::Allowance;
use crate::lua::native::errors::{bad_argument, complain};

/// The greatest depth of tables that are packed; deeper ones are packed as nil.
const PACK_DEPTH_MAX: usize = 16;
/// The most values that a function of Lua returns.
const VALUES_MAX: usize = 7_900;
/// The greatest depth that is unpacked.
const UNPACK_DEPTH_MAX: usize = 1_000;

/// Makes the table.
///
/// # Errors
/// Lua has no memory left.
pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let cmsgpack = lua.create_table()?;
    cmsgpack.raw_set("pack", lua.create_function(|lua, args: MultiValue| pack(lua, &args))?)?;
    cmsgpack.raw_set("unpack", lua.create_function(|lua, args: MultiValue| unpack(lua, &args, "unpack"))?)?;
    cmsgpack.raw_set("unpack_one", lua.create_function(|lua, args: MultiValue| unpack(lua, &args, "unpack_one"))?)?;
    cmsgpack
        .raw_set("unpack_limit", lua.create_function(|lua, args: MultiValue| unpack(lua, &args, "unpack_limit"))?)?;
    cmsgpack.raw_set("_NAME", "cmsgpack")?;
    cmsgpack.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    cmsgpack.raw_set("_COPYRIGHT", "The authors of Sleeve")?;
    cmsgpack.raw_set("_DESCRIPTION", "MessagePack for Lua, written in Rust")?;
    Ok(cmsgpack)
}

fn pack(lua: &Lua, args: &MultiValue) -> mlua::Result<mlua::LuaString> {
    if args.is_empty() {
        return Err(bad_argument(lua, 0, "pack", "MessagePack pack needs input."));
    }
    let (mut out, mut allowance) = (Vec::new(), Allowance::new(lua));
    args.iter().try_for_each(|value| push(&mut out, &mut allowance, value, 0))?;
    lua.create_string(out)
}

fn push(out: &mut Vec<u8>, allowance: &mut Allowance<'_>, value: &Value, depth: usize) -> mlua::Result<()> {
    allowance.write(out.len())?;
    match value {
        Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => push_integer(out, *number),
        Value::Number(number) => push_number(out, *number),
        Value::String(text) => {
            let text = text.as_bytes();
            push_head(out, text.len(), &STRING);
            out.extend_from_slice(&text);
        }
        Value::Table(table) if depth < PACK_DEPTH_MAX => return push_table(out, allowance, table, depth),
        _ => out.push(0xc0),
    }
    Ok(())
}

/// The first bytes of a kind of value, by the place of its length: in the first byte itself, in 8 bits if there is such a
/// form, in 16 bits, in 32 bits.
struct Heads {
    short: u8,
    short_max: usize,
    eight: Option<u8>,
    sixteen: u8,
    thirty_two: u8,
}

const STRING: Heads = Heads { short: 0xa0, short_max: 31, eight: Some(0xd9), sixteen: 0xda, thirty_two: 0xdb };
const ARRAY: Heads = Heads { short: 0x90, short_max: 15, eight: None, sixteen: 0xdc, thirty_two: 0xdd };
const MAP: Heads = Heads { short: 0x80, short_max: 15, eight: None, sixteen: 0xde, thirty_two: 0xdf };

fn push_head(out: &mut Vec<u8>, len: usize, heads: &Heads) {
    if len <= heads.short_max {
        out.push(heads.short | len as u8);
    } else if let (Some(eight), Ok(len)) = (heads.eight, u8::try_from(len)) {
        out.extend_from_slice(&[eight, len]);
    } else if let Ok(len) = u16::try_from(len) {
        out.push(heads.sixteen);
        out.extend_from_slice(&len.to_be_bytes());
    } else {
        out.push(heads.thirty_two);
        out.extend_from_slice(&(len as u32).to_be_bytes());
    }
}

fn push_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => push_with(out, 0xcd, &(number as u16).to_be_bytes()),
        0x1_0000..=0xffff_ffff => push_with(out, 0xce, &(number as u32).to_be_bytes()),
        0x1_0000_0000.. => push_with(out, 0xcf, &number.to_be_bytes()),
        -32..0 => out.push(number as i8 as u8),
        -0x80..-32 => out.extend_from_slice(&[0xd0, number as i8 as u8]),
        -0x8000..-0x80 => push_with(out, 0xd1, &(number as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => push_with(out, 0xd2, &(number as i32).to_be_bytes()),
        _ => push_with(out, 0xd3, &number.to_be_bytes()),
    }
}

fn push_with(out: &mut Vec<u8>, head: u8, bytes: &[u8]) {
    out.push(head);
    out.extend_from_slice(bytes);
}

fn push_number(out: &mut Vec<u8>, number: f64) {
    let whole = number as i64;
    if whole as f64 == number && whole != i64::MAX {
        return push_integer(out, whole);
    }
    let single = number as f32;
    if f64::from(single) == number {
        push_with(out, 0xca, &single.to_be_bytes());
    } else {
        push_with(out, 0xcb, &number.to_be_bytes());
    }
}

fn push_table(out: &mut Vec<u8>, allowance: &mut Allowance<'_>, table: &Table, depth: usize) -> mlua::Result<()> {
    let (count, is_array) = shape(allowance, table)?;
    if is_array {
        push_head(out, count, &ARRAY);
        return (1..=count).try_for_each(|index| push(out, allowance, &table.raw_get(index)?, depth + 1));
    }
    push_head(out, count, &MAP);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        push(out, allowance, &key, depth + 1)?;
        push(out, allowance, &value, depth + 1)?;
    }
    Ok(())
}

/// Returns how many elements a table has, and whether its keys are the numbers from 1 to that.
fn shape(allowance: &Allowance<'_>, table: &Table) -> mlua::Result<(usize, bool)> {
    let (mut count, mut greatest, mut is_array) = (0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        allowance.read(0)?;
        count += 1;
        match pair?.0 {
            Value::Integer(key) if key > 0 => greatest = greatest.max(key as usize),
            _ => is_array = false,
        }
    }
    Ok((count, is_array && greatest == count))
}

/// `unpack(bytes)`, `unpack_one(bytes [, offset])` and `unpack_limit(bytes, limit [, offset])`.
fn unpack(lua: &Lua, args: &MultiValue, function: &'static str) -> mlua::Result<MultiValue> {
    let text = match args.front() {
        Some(value) => lua.coerce_string(value.clone())?,
        None => None,
    };
    let Some(text) = text else {
        let found = args.front().map_or("no value", type_name);
        return Err(bad_argument(lua, 1, function, format_args!("string expected, got {found}")));
    };
    let number = |place: usize| match args.get(place) {
        None | Some(Value::Nil) => Ok(None),
        Some(value) => Ok::<_, mlua::Error>(lua.coerce_number(value.clone())?.map(|number| number as i64)),
    };
    let (limit, offset) = match function {
        "unpack" => (i64::MAX, 0),
        "unpack_one" => (1, number(1)?.unwrap_or(0)),
        _ => match number(1)? {
            Some(limit) => (limit, number(2)?.unwrap_or(0)),
            None => return Err(bad_argument(lua, 2, function, "number expected, got no value")),
        },
    };
    let bytes = text.as_bytes();
    let (mut values, rest) = read_all(lua, &bytes, limit, offset)?;
    if function != "unpack" {
        let next = if rest == 0 { -1 } else { (bytes.len() - rest) as i64 };
        values.push_front(Value::Integer(next));
    }
    Ok(values)
}

fn read_all(lua: &Lua, bytes: &[u8], limit: i64, offset: i64) -> mlua::Result<(MultiValue, usize)> {
    let len = bytes.len();
    if offset < 0 || limit < 0 {
        let text = format_args!("Invalid request to unpack with offset of {offset} and limit of {len}.").to_string();
        return Err(complain(lua, text));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else {
        return Err(complain(lua, format_args!("Start offset {offset} greater than input length {len}.")));
    };
    let mut reader = Reader { lua, rest, allowance: Allowance::new(lua) };
    let mut values = MultiValue::new();
    while !reader.rest.is_empty() && (values.len() as i64) < limit {
        if values.len() == VALUES_MAX {
            return Err(complain(lua, "too many return values at once; use unpack_one or unpack_limit instead."));
        }
        match reader.value(0) {
            Ok(value) => values.push_back(value),
            Err(Wrong::Short) => return Err(complain(lua, "Missing bytes in input.")),
            Err(Wrong::Format) => return Err(complain(lua, "Bad data format in input.")),
            Err(Wrong::Deep) => {
                return Err(complain(lua, "stack overflow (in function mp_decode_to_lua_type)"));
            }
            Err(Wrong::Lua(error)) => return Err(error),
        }
    }
    Ok((values, reader.rest.len()))
}

/// The reason why packed bytes cannot be read.
enum Wrong {
    Short,
    Format,
    Deep,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    allowance: Allowance<'a>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Wrong> {
        if depth > UNPACK_DEPTH_MAX {
            return Err(Wrong::Deep);
        }
        self.allowance.read(0)?;
        let [head] = self.take_array()?;
        Ok(match head {
            0..=0x7f => Value::Number(f64::from(head)),
            0xe0..=0xff => Value::Number(f64::from(head.cast_signed())),
            0x80..=0x8f => return self.map(usize::from(head & 15), depth),
            0x90..=0x9f => return self.array(usize::from(head & 15), depth),
            0xa0..=0xbf => return self.string(usize::from(head & 31)),
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f64::from(f32::from_be_bytes(self.take_array()?))),
            0xcb => Value::Number(f64::from_be_bytes(self.take_array()?)),
            0xcc => Value::Number(f64::from(u8::from_be_bytes(self.take_array()?))),
            0xcd => Value::Number(f64::from(u16::from_be_bytes(self.take_array()?))),
            0xce => Value::Number(f64::from(u32::from_be_bytes(self.take_array()?))),
            0xcf => Value::Number(u64::from_be_bytes(self.take_array()?).cast_signed() as f64),
            0xd0 => Value::Number(f64::from(i8::from_be_bytes(self.take_array()?))),
            0xd1 => Value::Number(f64::from(i16::from_be_bytes(self.take_array()?))),
            0xd2 => Value::Number(f64::from(i32::from_be_bytes(self.take_array()?))),
            0xd3 => Value::Number(i64::from_be_bytes(self.take_array()?) as f64),
            0xc4 | 0xd9 => {
                let len = u8::from_be_bytes(self.take_array()?);
                return self.string(usize::from(len));
            }
            0xc5 | 0xda => {
                let len = u16::from_be_bytes(self.take_array()?);
                return self.string(usize::from(len));
            }
            0xc6 | 0xdb => {
                let len = self.long_len()?;
                return self.string(len);
            }
            0xdc => {
                let len = u16::from_be_bytes(self.take_array()?);
                return self.array(usize::from(len), depth);
            }
            0xdd => {
                let len = self.long_len()?;
                return self.array(len, depth);
            }
            0xde => {
                let len = u16::from_be_bytes(self.take_array()?);
                return self.map(usize::from(len), depth);
            }
            0xdf => {
                let len = self.long_len()?;
                return self.map(len, depth);
            }
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(Wrong::Format),
        })
    }

    fn long_len(&mut self) -> Result<usize, Wrong> {
        Ok(u32::from_be_bytes(self.take_array()?) as usize)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Wrong::Short)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn string(&mut self, len: usize) -> Result<Value, Wrong> {
        let (text, rest) = self.rest.split_at_checked(len).ok_or(Wrong::Short)?;
        self.rest = rest;
        self.allowance.read(len)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Value, Wrong> {
        let table = self.lua.create_table()?;
        for index in 1..=len {
            let value = self.value(depth + 1)?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, Wrong> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err(Wrong::Format),
                Value::Number(number) if number.is_nan() => return Err(Wrong::Format),
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> String {
        let lua = Lua::new();
        lua.globals().set("cmsgpack", table(&lua).expect("memory")).expect("a global");
        let hex =
            "local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end ";
        match lua.load(format!("{hex}{script}")).set_name("@t").eval::<String>() {
            Ok(text) => text,
            Err(error) => crate::lua::native::errors::text_of(&error),
        }
    }

    /// Runs a script with deep nesting on a large stack: the frames of a build without optimisation are many times as large
    /// as those of a release.
    fn run_deep(script: &'static str) -> String {
        let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(move || run(script));
        thread.expect("a thread").join().expect("it ends")
    }

    #[test]
    fn values_have_the_shortest_form() {
        for (value, packed) in [
            ("1", "01"),
            ("-1", "ff"),
            ("-33", "d0df"),
            ("200", "ccc8"),
            ("70000", "ce00011170"),
            ("-70000", "d2fffeee90"),
            ("1.5", "ca3fc00000"),
            ("0.1", "cb3fb999999999999a"),
            ("'abc'", "a3616263"),
            ("{1,2}", "920102"),
            ("{a=1}", "81a16101"),
            ("{}", "90"),
            ("nil", "c0"),
            ("true", "c3"),
            ("print", "c0"),
            ("2^53", "cf0020000000000000"),
            ("string.rep('x', 32)", &format!("d920{}", "78".repeat(32))),
        ] {
            assert_eq!(run(&format!("return hex(cmsgpack.pack({value}))")), packed, "{value}");
        }
        let deep = run("local a = {} a[1] = a return hex(cmsgpack.pack(a))");
        assert_eq!(deep, format!("{}c0", "91".repeat(16)));
    }

    #[test]
    fn packed_bytes_are_read_with_care() {
        assert_eq!(run("local a, b = cmsgpack.unpack(cmsgpack.pack(1, {x = 'y'})) return a .. b.x"), "1y");
        assert_eq!(run("return table.concat({cmsgpack.unpack_one(cmsgpack.pack(7, 8, 9), 1)}, ',')"), "2,8");
        assert_eq!(run("return table.concat({cmsgpack.unpack_limit(cmsgpack.pack(7, 8), 5)}, ',')"), "-1,7,8");
        assert_eq!(run("return cmsgpack.unpack('\\221\\255\\255\\255\\255')"), "t:1: Missing bytes in input.");
        assert_eq!(run("return cmsgpack.unpack('\\193')"), "t:1: Bad data format in input.");
        assert_eq!(run("return cmsgpack.unpack_one('a', 5)"), "t:1: Start offset 5 greater than input length 1.");
        let deep = run_deep("return cmsgpack.unpack(string.rep('\\145', 100000))");
        assert_eq!(deep, "t:1: stack overflow (in function mp_decode_to_lua_type)");
    }
}
