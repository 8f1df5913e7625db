//! The table `struct`: values to and from the bytes of C structures, as in Roberto Ierusalimschy's library 0.2.
//!
//! A format is a row of letters: `>` `<` byte order, `!n` alignment, `b` `h` `l` `T` `i` with sizes, `f` `d`, `s` (ended by a
//! zero), `cn` (of that many bytes), `x` (a zero), a space (nothing). Formats and bytes are not trusted: every position is
//! checked. Runs on the script's thread.

use mlua::{Lua, MultiValue, Table, Value};

use super::bit::type_name;
use crate::lua::native::allowance::Allowance;
use crate::lua::native::errors::{bad_argument, complain};
use crate::lua::native::interrupt;

/// The widest integer, in bytes.
const INTEGER_BYTES_MAX: usize = 32;
/// The most values that a function of Lua returns.
const VALUES_MAX: usize = 7_900;
/// The alignment that `!` without a number means.
const ALIGNMENT_MAX: usize = 8;

/// Makes the table.
///
/// # Errors
/// Lua has no memory left.
pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let structs = lua.create_table()?;
    structs.raw_set("pack", lua.create_function(|lua, args: MultiValue| pack(lua, &args))?)?;
    structs.raw_set("unpack", lua.create_function(|lua, args: MultiValue| unpack(lua, &args))?)?;
    structs.raw_set("size", lua.create_function(|lua, args: MultiValue| size(lua, &args))?)?;
    Ok(structs)
}

/// A format, which is read letter by letter.
struct Format<'a> {
    lua: &'a Lua,
    /// The name of the function, for errors.
    function: &'static str,
    rest: &'a [u8],
    is_little: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, function: &'static str, text: &'a [u8]) -> Self {
        Self { lua, function, rest: text, is_little: cfg!(target_endian = "little"), alignment: 1 }
    }

    /// Reads the next letter that stands for a value, with its size; applies those that change the format.
    fn next(&mut self) -> mlua::Result<Option<(u8, usize)>> {
        while let Some((&letter, rest)) = self.rest.split_first() {
            interrupt::spend(1)?;
            self.rest = rest;
            match letter {
                b' ' => {}
                b'>' => self.is_little = false,
                b'<' => self.is_little = true,
                b'!' => {
                    let alignment = self.number(ALIGNMENT_MAX)?;
                    if !alignment.is_power_of_two() {
                        return Err(complain(self.lua, format_args!("alignment {alignment} is not a power of 2")));
                    }
                    self.alignment = alignment;
                }
                b'b' | b'B' | b'x' => return Ok(Some((letter, 1))),
                b'h' | b'H' => return Ok(Some((letter, 2))),
                b'f' => return Ok(Some((letter, 4))),
                b'l' | b'L' | b'T' | b'd' => return Ok(Some((letter, 8))),
                b'c' => return Ok(Some((letter, self.number(1)?))),
                b's' => return Ok(Some((letter, 0))),
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > INTEGER_BYTES_MAX {
                        let limit = INTEGER_BYTES_MAX;
                        let text = format!("integral size {size} is larger than limit of {limit}");
                        return Err(complain(self.lua, text));
                    }
                    return Ok(Some((letter, size)));
                }
                // As in the C library, `struct.size` ignores letters without a meaning.
                _ if self.function == "size" => {}
                other => {
                    let why = format!("invalid format option '{}'", char::from(other));
                    return Err(bad_argument(self.lua, 1, self.function, why));
                }
            }
        }
        Ok(None)
    }

    /// Reads the number that comes next, or returns `default` if there is none.
    fn number(&mut self, default: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let add = |number: usize, digit: &u8| {
            number.checked_mul(10)?.checked_add(usize::from(digit - b'0')).filter(|&number| number <= i32::MAX as usize)
        };
        digits.iter().try_fold(0, add).ok_or_else(|| complain(self.lua, "integral size overflow"))
    }

    /// Returns how many bytes are left out so that a value of this size is aligned.
    fn padding(&self, at: usize, letter: u8, size: usize) -> usize {
        if size == 0 || letter == b'c' {
            return 0;
        }
        let size = size.min(self.alignment);
        if size.is_power_of_two() { (size - (at & (size - 1))) & (size - 1) } else { 0 }
    }
}

fn format_of(lua: &Lua, args: &MultiValue, function: &str) -> mlua::Result<mlua::LuaString> {
    string(lua, args, 1, function)
}

fn string(lua: &Lua, args: &MultiValue, number: usize, function: &str) -> mlua::Result<mlua::LuaString> {
    let arg = args.get(number - 1);
    let text = match arg {
        Some(value) if !value.is_nil() => lua.coerce_string(value.clone())?,
        _ => None,
    };
    let found = arg.map_or("no value", type_name);
    text.ok_or_else(|| bad_argument(lua, number, function, format_args!("string expected, got {found}")))
}

fn number(lua: &Lua, args: &MultiValue, place: usize, function: &str) -> mlua::Result<f64> {
    let arg = args.get(place - 1);
    let number = match arg {
        Some(value) if !value.is_nil() => lua.coerce_number(value.clone())?,
        _ => None,
    };
    let found = arg.map_or("nil", type_name);
    number.ok_or_else(|| bad_argument(lua, place, function, format_args!("number expected, got {found}")))
}

/// `struct.pack(format, ...)`
fn pack(lua: &Lua, args: &MultiValue) -> mlua::Result<mlua::LuaString> {
    let text = format_of(lua, args, "pack")?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, "pack", &text);
    let (mut out, mut allowance) = (Vec::new(), Allowance::new(lua));
    let mut arg = 2;
    while let Some((letter, size)) = format.next()? {
        allowance.write(out.len())?;
        out.resize(out.len() + format.padding(out.len(), letter, size), 0);
        match letter {
            b'x' => out.push(0),
            b'f' => push_bytes(&mut out, &(number(lua, args, arg, "pack")? as f32).to_le_bytes(), format.is_little),
            b'd' => push_bytes(&mut out, &number(lua, args, arg, "pack")?.to_le_bytes(), format.is_little),
            b'c' | b's' => {
                let value = string(lua, args, arg, "pack")?;
                let value = value.as_bytes();
                let len = if size == 0 { value.len() } else { size };
                let Some(start) = value.get(..len) else {
                    return Err(bad_argument(lua, arg + 1, "pack", "string too short"));
                };
                out.extend_from_slice(start);
                if letter == b's' {
                    out.push(0);
                }
            }
            _ => {
                let value = number(lua, args, arg, "pack")?;
                push_bytes(&mut out, &integer_bytes(value)[..size], format.is_little);
            }
        }
        arg += usize::from(letter != b'x');
    }
    lua.create_string(out)
}

/// Returns the bytes of a whole number as the C library makes them, the least first: a negative number is extended by its
/// sign, others have 64 bits.
fn integer_bytes(value: f64) -> [u8; INTEGER_BYTES_MAX] {
    let low = if value < 0.0 { value as i64 as u64 } else { value as u64 };
    let mut bytes = [0; INTEGER_BYTES_MAX];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes
}

fn push_bytes(out: &mut Vec<u8>, little: &[u8], is_little: bool) {
    if is_little {
        out.extend_from_slice(little);
    } else {
        out.extend(little.iter().rev());
    }
}

/// `struct.unpack(format, bytes [, place])`: returns the values, and the position at which the next value would begin.
fn unpack(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let text = format_of(lua, args, "unpack")?;
    let text = text.as_bytes();
    let data = string(lua, args, 2, "unpack")?;
    let data = data.as_bytes();
    let place = if args.get(2).is_none_or(Value::is_nil) { 1.0 } else { number(lua, args, 3, "unpack")? };
    if (0.0..1.0).contains(&place) {
        return Err(bad_argument(lua, 3, "unpack", "offset must be 1 or greater"));
    }
    let too_short = || bad_argument(lua, 2, "unpack", "data string too short");
    // A position below 1, or NaN, counts as behind the end.
    let mut at = if place >= 1.0 { place as usize - 1 } else { usize::MAX };
    let mut format = Format::new(lua, "unpack", &text);
    let (mut values, allowance) = (MultiValue::new(), Allowance::new(lua));
    while let Some((letter, mut size)) = format.next()? {
        if values.len() == VALUES_MAX {
            return Err(complain(lua, "stack overflow (too many results)"));
        }
        at = at.saturating_add(format.padding(at, letter, size));
        if letter == b'c' && size == 0 {
            let Some(len) = values.pop_back().and_then(|value| value.as_f64().filter(|len| *len >= 0.0)) else {
                return Err(complain(lua, "format 'c0' needs a previous size"));
            };
            size = len as usize;
        }
        let rest = data.get(at..).ok_or_else(too_short)?;
        let bytes = rest.get(..size).ok_or_else(too_short)?;
        match letter {
            b'x' => {}
            b'c' => values.push_back(Value::String(lua.create_string(bytes)?)),
            b's' => {
                let Some(len) = rest.iter().position(|&byte| byte == 0) else {
                    return Err(complain(lua, "unfinished string in data"));
                };
                allowance.read(len)?;
                values.push_back(Value::String(lua.create_string(&rest[..len])?));
                size = len + 1;
            }
            _ => values.push_back(Value::Number(read_number(letter, bytes, format.is_little))),
        }
        at += size;
    }
    values.push_back(Value::Number(at as f64 + 1.0));
    Ok(values)
}

fn read_number(letter: u8, bytes: &[u8], is_little: bool) -> f64 {
    let mut low = [0; 8];
    let place = |index: usize| if is_little { index } else { bytes.len() - 1 - index };
    (0..bytes.len().min(8)).for_each(|index| low[index] = bytes[place(index)]);
    let bits = u64::from_le_bytes(low);
    match letter {
        b'f' => f64::from(f32::from_bits(bits as u32)),
        b'd' => f64::from_bits(bits),
        _ if letter.is_ascii_uppercase() => bits as f64,
        _ => {
            let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
            ((bits << unused).cast_signed() >> unused) as f64
        }
    }
}

/// `struct.size(format)`
fn size(lua: &Lua, args: &MultiValue) -> mlua::Result<f64> {
    let text = format_of(lua, args, "size")?;
    let text = text.as_bytes();
    let mut format = Format::new(lua, "size", &text);
    let mut at = 0_usize;
    while let Some((letter, size)) = format.next()? {
        at += format.padding(at, letter, size);
        match (letter, size) {
            (b's', _) => return Err(bad_argument(lua, 1, "size", "option 's' has no fixed size")),
            (b'c', 0) => return Err(bad_argument(lua, 1, "size", "option 'c0' has no fixed size")),
            _ => at = at.saturating_add(size),
        }
        if at > i32::MAX as usize {
            return Err(bad_argument(lua, 1, "size", "size overflow"));
        }
    }
    Ok(at as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> String {
        let lua = Lua::new();
        lua.globals().set("struct", table(&lua).expect("memory")).expect("a global");
        let hex =
            "local function hex(s) return (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) end ";
        match lua.load(format!("{hex}{script}")).set_name("@t").eval::<String>() {
            Ok(text) => text,
            Err(error) => crate::lua::native::errors::text_of(&error),
        }
    }

    #[test]
    fn values_are_laid_out_as_the_format_says() {
        for (script, packed) in [
            ("'>I2h', 258, -2", "0102fffe"),
            ("'<i4x', 1", "0100000000"),
            ("'!4bi', 1, 2", "0100000002000000"),
            ("'s', 'ab'", "616200"),
            ("'c1', 'ab'", "61"),
            ("'>d', 1.5", "3ff8000000000000"),
            ("'>f', 1.5", "3fc00000"),
        ] {
            assert_eq!(run(&format!("return hex(struct.pack({script}))")), packed, "{script}");
        }
        assert_eq!(run("return table.concat({struct.unpack('>I2hs', '\\1\\2\\255\\254ab\\0')}, ',')"), "258,-2,ab,8");
        assert_eq!(run("return table.concat({struct.unpack('bc0', '\\2xyz')}, ',')"), "xy,4");
        assert_eq!(run("return table.concat({struct.unpack('b', 'abc', 3)}, ',')"), "99,4");
        assert_eq!(run("return tostring(struct.size('!8bd'))"), "16");
    }

    #[test]
    fn formats_and_bytes_are_checked() {
        for (script, why) in [
            ("struct.pack('z', 1)", "bad argument #1 to 'pack' (invalid format option 'z')"),
            ("struct.pack('i33', 1)", "integral size 33 is larger than limit of 32"),
            ("struct.pack('i99999999999', 1)", "integral size overflow"),
            ("struct.pack('!3i', 1)", "alignment 3 is not a power of 2"),
            ("struct.pack('c5', 'abc')", "bad argument #3 to 'pack' (string too short)"),
            ("struct.unpack('i', 'abc')", "bad argument #2 to 'unpack' (data string too short)"),
            ("struct.unpack('c0', 'abc')", "format 'c0' needs a previous size"),
            ("struct.unpack('s', 'abc')", "unfinished string in data"),
            ("struct.unpack('i', 'abcd', 2^60)", "bad argument #2 to 'unpack' (data string too short)"),
            ("struct.unpack('i', 'abcd', 0)", "bad argument #3 to 'unpack' (offset must be 1 or greater)"),
        ] {
            assert_eq!(run(&format!("return {script}")), format!("t:1: {why}"), "{script}");
        }
    }
}
