//! The table `bit`: operations on 32 bits, as in the library of that name for Lua 5.1.
//!
//! Arguments are numbers modulo 2^32, results are signed. Pure functions; runs on the script's thread.

use mlua::{Lua, MultiValue, Table, Value};

use crate::lua::native::errors::bad_argument;
use crate::lua::native::numbers;

type Unary = fn(u32) -> u32;
type Binary = fn(u32, u32) -> u32;

/// Makes the table.
///
/// # Errors
/// Lua has no memory left.
pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    let unary: [(&str, Unary); 3] = [("tobit", |a| a), ("bnot", |a| !a), ("bswap", u32::swap_bytes)];
    for (name, operation) in unary {
        let function = lua.create_function(move |lua, args: MultiValue| {
            Ok(f64::from(operation(bits(lua, &args, 1, name)?).cast_signed()))
        })?;
        bit.raw_set(name, function)?;
    }
    let folded: [(&str, Binary); 3] = [("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    for (name, operation) in folded {
        let function = lua.create_function(move |lua, args: MultiValue| {
            let mut result = bits(lua, &args, 1, name)?;
            for number in 2..=args.len() {
                result = operation(result, bits(lua, &args, number, name)?);
            }
            Ok(f64::from(result.cast_signed()))
        })?;
        bit.raw_set(name, function)?;
    }
    let shifts: [(&str, Binary); 5] = [
        ("lshift", |a, n| a << n),
        ("rshift", |a, n| a >> n),
        ("arshift", |a, n| (a.cast_signed() >> n).cast_unsigned()),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, operation) in shifts {
        let function = lua.create_function(move |lua, args: MultiValue| {
            let distance = bits(lua, &args, 2, name)? & 31;
            Ok(f64::from(operation(bits(lua, &args, 1, name)?, distance).cast_signed()))
        })?;
        bit.raw_set(name, function)?;
    }
    bit.raw_set("tohex", lua.create_function(|lua, args: MultiValue| tohex(lua, &args))?)?;
    Ok(bit)
}

/// Returns argument `number` of a function as bits.
fn bits(lua: &Lua, args: &MultiValue, number: usize, function: &str) -> mlua::Result<u32> {
    let arg = args.get(number - 1);
    let value = match arg {
        Some(Value::Integer(value)) => return Ok(*value as u32),
        Some(Value::Number(value)) => Some(*value),
        Some(value @ Value::String(_)) => lua.coerce_number(value.clone())?,
        _ => None,
    };
    value.map(numbers::to_bits).ok_or_else(|| {
        let found = arg.map_or("no value", type_name);
        bad_argument(lua, number, function, format_args!("number expected, got {found}"))
    })
}

/// Returns the name of a value's type, as Lua gives it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::LightUserData(_) | Value::Error(_) => "userdata",
        other => other.type_name(),
    }
}

/// `bit.tohex(x [, digits])`; a negative number of digits gives upper-case letters.
fn tohex(lua: &Lua, args: &MultiValue) -> mlua::Result<String> {
    let value = bits(lua, args, 1, "tohex")?;
    let digits = if args.len() < 2 { 8 } else { bits(lua, args, 2, "tohex")?.cast_signed() };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok(text[8 - count..].to_owned())
}
