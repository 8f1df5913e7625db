//! Functions of Lua's base library in another form. The tables that scripts share look empty to Lua itself, because they are
//! read through a metatable so that they cannot be changed.
//!
//! `reals` maps each such table to the one behind it. Runs on the script's thread.

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::bit::type_name;
use crate::lua::native::errors::bad_argument;

/// The error for every attempt to change a shared table.
pub const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Puts the functions into the table of globals.
///
/// # Errors
/// Lua has no memory left.
pub fn add(lua: &Lua, globals: &Table, reals: &Table, next: Function) -> mlua::Result<()> {
    let behind = reals.clone();
    let step = next.clone();
    let through = lua.create_function(move |_, (proxy, key): (Table, Value)| {
        step.call::<MultiValue>((behind.raw_get::<Value>(proxy)?, key))
    })?;
    let behind = reals.clone();
    let pairs = lua.create_function(move |lua, args: MultiValue| {
        let table = table(lua, &args, "pairs")?;
        let is_shared = is_in(&behind, &table)?;
        Ok((if is_shared { through.clone() } else { next.clone() }, table))
    })?;
    globals.raw_set("pairs", pairs)?;
    let behind = reals.clone();
    let rawget = lua.create_function(move |lua, args: MultiValue| {
        let table = table(lua, &args, "rawget")?;
        let key = args.get(1).cloned().unwrap_or_default();
        match behind.raw_get::<Value>(&table)? {
            Value::Table(real) => real.raw_get::<Value>(key),
            _ => table.raw_get(key),
        }
    })?;
    globals.raw_set("rawget", rawget)?;
    let behind = reals.clone();
    let rawset = lua.create_function(move |lua, args: MultiValue| {
        let table = table(lua, &args, "rawset")?;
        refuse_shared(&behind, &table)?;
        let at = |index: usize| args.get(index).cloned().unwrap_or_default();
        table.raw_set(at(1), at(2))?;
        Ok(table)
    })?;
    globals.raw_set("rawset", rawset)?;
    let behind = reals.clone();
    let setmetatable = lua.create_function(move |lua, args: MultiValue| setmetatable(lua, &behind, &args))?;
    globals.raw_set("setmetatable", setmetatable)
}

fn setmetatable(lua: &Lua, reals: &Table, args: &MultiValue) -> mlua::Result<Table> {
    let table = table(lua, args, "setmetatable")?;
    let metatable = match args.get(1) {
        Some(Value::Table(metatable)) => Some(metatable.clone()),
        Some(Value::Nil) => None,
        _ => return Err(bad_argument(lua, 2, "setmetatable", "nil or table expected")),
    };
    refuse_shared(reals, &table)?;
    let is_locked = match table.metatable() {
        Some(present) => !present.raw_get::<Value>("__metatable")?.is_nil(),
        None => false,
    };
    if is_locked {
        return Err(crate::lua::native::errors::complain(lua, "cannot change a protected metatable"));
    }
    table.set_metatable(metatable)?;
    Ok(table)
}

fn table(lua: &Lua, args: &MultiValue, function: &str) -> mlua::Result<Table> {
    match args.front() {
        Some(Value::Table(table)) => Ok(table.clone()),
        other => {
            let found = other.map_or("no value", type_name);
            Err(bad_argument(lua, 1, function, format_args!("table expected, got {found}")))
        }
    }
}

fn is_in(reals: &Table, table: &Table) -> mlua::Result<bool> {
    Ok(!reals.raw_get::<Value>(table)?.is_nil())
}

/// Refuses to change a shared table. The error names no place in the script, as that of Redis's Lua for such a change.
fn refuse_shared(reals: &Table, table: &Table) -> mlua::Result<()> {
    if is_in(reals, table)? { Err(mlua::Error::runtime(READ_ONLY)) } else { Ok(()) }
}
