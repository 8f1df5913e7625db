//! The table `cjson`: JSON for scripts, as in version 2.1 of the library of that name.
//!
//! Each table has its own settings; `cjson.new` makes a table with the default ones. The settings of a script stay for the
//! scripts after it, as in Redis. How values are written and read is in `json_encode` and `json_decode`. Runs on the script's
//! thread.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::bit::type_name;
use super::json_decode;
use super::json_encode;
use super::json_encode::Settings;
use crate::lua::native::errors::bad_argument;

type Shared = Rc<RefCell<Settings>>;

/// A function that selects one of the settings.
type Part<T> = fn(&mut Settings) -> &mut T;

/// Makes the table.
///
/// # Errors
/// Lua has no memory left.
pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let cjson = lua.create_table()?;
    let settings = Shared::default();
    add_coders(lua, &cjson, &settings)?;
    add_sparse_array(lua, &cjson, &settings)?;
    add_switches(lua, &cjson, &settings)?;
    let numbers: [(&str, Part<i64>, i64, i64); 3] = [
        ("encode_max_depth", |settings| &mut settings.encode_depth_max, 1, i32::MAX as i64),
        ("decode_max_depth", |settings| &mut settings.decode_depth_max, 1, i32::MAX as i64),
        ("encode_number_precision", |settings| &mut settings.number_precision, 1, 14),
    ];
    for (name, of, min, max) in numbers {
        let settings = Rc::clone(&settings);
        let set = move |lua: &Lua, args: MultiValue| {
            check_count(lua, &args, 1, name)?;
            set_number(lua, &args, (1, name), of(&mut settings.borrow_mut()), (min, max))
        };
        cjson.raw_set(name, lua.create_function(set)?)?;
    }
    cjson.raw_set("new", lua.create_function(|lua, _: MultiValue| table(lua))?)?;
    cjson.raw_set("null", Value::NULL)?;
    cjson.raw_set("_NAME", "cjson")?;
    cjson.raw_set("_VERSION", "2.1.0")?;
    Ok(cjson)
}

fn add_coders(lua: &Lua, cjson: &Table, settings: &Shared) -> mlua::Result<()> {
    let of_encode = Rc::clone(settings);
    let encode = move |lua: &Lua, args: MultiValue| {
        let value = lone(lua, &args, "encode")?;
        let settings = of_encode.borrow().clone();
        lua.create_string(json_encode::encode(lua, &settings, value)?)
    };
    let of_decode = Rc::clone(settings);
    let decode = move |lua: &Lua, args: MultiValue| {
        let value = lone(lua, &args, "decode")?;
        let Some(text) = lua.coerce_string(value.clone())? else {
            let found = format_args!("string expected, got {}", type_name(value)).to_string();
            return Err(bad_argument(lua, 1, "decode", found));
        };
        let settings = of_decode.borrow().clone();
        json_decode::decode(lua, &settings, &text.as_bytes())
    };
    cjson.raw_set("encode", lua.create_function(encode)?)?;
    cjson.raw_set("decode", lua.create_function(decode)?)
}

fn lone<'a>(lua: &Lua, args: &'a MultiValue, function: &str) -> mlua::Result<&'a Value> {
    match (args.front(), args.len()) {
        (Some(value), 1) => Ok(value),
        _ => Err(bad_argument(lua, 1, function, "expected 1 argument")),
    }
}

/// `cjson.encode_sparse_array([convert [, ratio [, safe]]])`
fn add_sparse_array(lua: &Lua, cjson: &Table, settings: &Shared) -> mlua::Result<()> {
    const NAME: &str = "encode_sparse_array";
    let settings = Rc::clone(settings);
    let set = move |lua: &Lua, args: MultiValue| {
        check_count(lua, &args, 3, NAME)?;
        let settings = &mut *settings.borrow_mut();
        let convert = set_switch(lua, &args, NAME, &mut settings.converts_sparse)?;
        let ends = (0, i64::from(i32::MAX));
        let ratio = set_number(lua, &args, (2, NAME), &mut settings.sparse_ratio, ends)?;
        let safe = set_number(lua, &args, (3, NAME), &mut settings.sparse_safe, ends)?;
        Ok((convert, ratio, safe))
    };
    cjson.raw_set(NAME, lua.create_function(set)?)
}

fn add_switches(lua: &Lua, cjson: &Table, settings: &Shared) -> mlua::Result<()> {
    let switches: [(&str, Part<bool>); 3] = [
        ("encode_keep_buffer", |settings| &mut settings.keeps_buffer),
        ("decode_invalid_numbers", |settings| &mut settings.decodes_invalid_numbers),
        ("decode_array_with_array_mt", |settings| &mut settings.marks_arrays),
    ];
    for (name, of) in switches {
        let settings = Rc::clone(settings);
        let set = move |lua: &Lua, args: MultiValue| {
            check_count(lua, &args, 1, name)?;
            set_switch(lua, &args, name, of(&mut settings.borrow_mut()))
        };
        cjson.raw_set(name, lua.create_function(set)?)?;
    }
    let settings = Rc::clone(settings);
    let set = move |lua: &Lua, args: MultiValue| {
        check_count(lua, &args, 1, "encode_invalid_numbers")?;
        let settings = &mut *settings.borrow_mut();
        if is_word(args.front(), b"null") {
            settings.writes_invalid_as_null = true;
        } else if args.front().is_some_and(|value| !value.is_nil()) {
            set_switch(lua, &args, "encode_invalid_numbers", &mut settings.encodes_invalid_numbers)?;
            settings.writes_invalid_as_null = false;
        }
        Ok(match (settings.writes_invalid_as_null, settings.encodes_invalid_numbers) {
            (true, _) => Value::String(lua.create_string("null")?),
            (false, on) => Value::Boolean(on),
        })
    };
    cjson.raw_set("encode_invalid_numbers", lua.create_function(set)?)
}

fn check_count(lua: &Lua, args: &MultiValue, max: usize, function: &str) -> mlua::Result<()> {
    if args.len() > max {
        return Err(bad_argument(lua, max + 1, function, "found too many arguments"));
    }
    Ok(())
}

/// Sets a switch to the first argument, if there is one; returns the present setting.
fn set_switch(lua: &Lua, args: &MultiValue, function: &str, switch: &mut bool) -> mlua::Result<bool> {
    match args.front() {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(on)) => *switch = *on,
        word if is_word(word, b"on") => *switch = true,
        word if is_word(word, b"off") => *switch = false,
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            let why = format!("invalid option '{}'", value.to_string()?);
            return Err(bad_argument(lua, 1, function, why));
        }
        Some(other) => {
            let why = format!("string expected, got {}", type_name(other));
            return Err(bad_argument(lua, 1, function, why));
        }
    }
    Ok(*switch)
}

fn is_word(value: Option<&Value>, word: &[u8]) -> bool {
    matches!(value, Some(Value::String(text)) if *text.as_bytes() == *word)
}

fn set_number(
    lua: &Lua,
    args: &MultiValue,
    (place, function): (usize, &str),
    number: &mut i64,
    (min, max): (i64, i64),
) -> mlua::Result<i64> {
    let given = match args.get(place - 1) {
        None | Some(Value::Nil) => return Ok(*number),
        Some(value) => lua.coerce_number(value.clone())?.map(|given| given as i64).ok_or_else(|| {
            let why = format!("number expected, got {}", type_name(value));
            bad_argument(lua, place, function, why)
        })?,
    };
    if given < min || given > max {
        let why = format!("expected integer between {min} and {max}");
        return Err(bad_argument(lua, place, function, why));
    }
    *number = given;
    Ok(given)
}
