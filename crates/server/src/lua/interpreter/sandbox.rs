//! The tables that a script can reach: Lua's harmless libraries, the server's own, and nothing that outlives the script.
//!
//! Redis patches its Lua so that a table can be made read-only. This Lua has no patch, so the tables that all scripts share
//! are hidden behind empty ones, which pass reads on and refuse writes: assigning a global, replacing a library's function or
//! changing a metatable fails with Redis's words. The few functions that could reach the hidden tables are replaced
//! (`prelude.lua`). This module runs no script. Runs on the thread that owns the state.

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::source;
use super::source::SOURCE_BYTES_MAX;
use crate::lua::library::base::READ_ONLY;
use crate::lua::library::bit::type_name;
use crate::lua::library::{base, bit, collector, copies, json, msgpack, protected, random, strings, structs, tables};
use crate::lua::native::errors;
use crate::lua::native::errors::{complain, raise};

/// The functions of the base library that scripts get unchanged.
const KEPT: [&str; 13] = [
    "_VERSION",
    "assert",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "next",
    "rawequal",
    "select",
    "tonumber",
    "tostring",
    "type",
    "coroutine",
];

/// The shared tables of a Lua state.
pub struct Sandbox {
    /// The table that scripts see as their globals.
    pub globals: Table,
    /// The metatable of `globals`: its `__index` is the table that scripts read.
    pub shown: Table,
    /// The table with the true globals, behind `globals`.
    pub real: Table,
    /// Lua's own `xpcall`.
    pub xpcall: Function,
    reals: Table,
    refuse: Function,
}

impl Sandbox {
    /// Sandboxes a new Lua state.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn close(lua: &Lua) -> mlua::Result<Self> {
        let open = lua.globals();
        let real = lua.create_table()?;
        let refuse = lua.create_function(|lua, _: MultiValue| Err::<(), _>(complain(lua, READ_ONLY)))?;
        let missing = lua.create_function(|lua, (_, name): (Value, Value)| Err::<Value, _>(no_global(lua, &name)))?;
        let behind = lua.create_table()?;
        behind.raw_set("__index", missing)?;
        real.set_metatable(Some(behind))?;
        let prelude = prelude(lua)?;
        let mut sandbox = Self {
            globals: lua.create_table()?,
            shown: lua.create_table()?,
            real,
            xpcall: open.get("xpcall")?,
            reals: lua.create_table()?,
            refuse,
        };
        sandbox.fill(lua, &open, &prelude)?;
        sandbox.hide_strings(lua)?;
        sandbox.hide_globals(lua)?;
        lua.set_globals(sandbox.globals.clone())?;
        Ok(sandbox)
    }

    /// Makes a table that looks like `table` and cannot be changed.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn hide(&self, lua: &Lua, table: Table) -> mlua::Result<Table> {
        let metatable = lua.create_table()?;
        metatable.raw_set("__index", &table)?;
        metatable.raw_set("__metatable", false)?;
        let proxy = lua.create_table()?;
        self.hide_behind(proxy.clone(), metatable, &table)?;
        Ok(proxy)
    }

    fn hide_behind(&self, proxy: Table, metatable: Table, table: &Table) -> mlua::Result<()> {
        metatable.raw_set("__newindex", &self.refuse)?;
        proxy.set_metatable(Some(metatable))?;
        self.reals.raw_set(proxy, table)
    }

    fn fill(&mut self, lua: &Lua, open: &Table, prelude: &Table) -> mlua::Result<()> {
        for name in KEPT {
            self.real.raw_set(name, open.raw_get::<Value>(name)?)?;
        }
        for name in ["pcall", "xpcall"] {
            self.real.raw_set(name, prelude.raw_get::<Value>(name)?)?;
        }
        base::add(lua, &self.real, &self.reals, open.raw_get("next")?)?;
        self.real.raw_set("loadstring", lua.create_function(|lua, args: MultiValue| loadstring(lua, &args))?)?;
        self.real.raw_set("load", lua.create_function(|lua, args: MultiValue| load(lua, &args))?)?;
        let coroutine: Table = open.raw_get("coroutine")?;
        coroutine.raw_set("resume", prelude.raw_get::<Value>("resume")?)?;
        let math: Table = open.raw_get("math")?;
        random::add(lua, &math)?;
        let (string, table): (Table, Table) = (open.raw_get("string")?, open.raw_get("table")?);
        strings::add(lua, &string)?;
        copies::add(lua, &string)?;
        tables::add(lua, &self.real, &table, &self.reals)?;
        collector::add(lua, &self.real)?;
        let os = lua.create_table()?;
        os.raw_set("clock", open.raw_get::<Table>("os")?.raw_get::<Value>("clock")?)?;
        let libraries = [
            ("coroutine", coroutine),
            ("math", math),
            ("os", os),
            ("string", string),
            ("table", table),
            ("bit", bit::table(lua)?),
            ("cjson", json::table(lua)?),
            ("cmsgpack", msgpack::table(lua)?),
            ("struct", structs::table(lua)?),
        ];
        for (name, library) in libraries {
            let hidden = self.hide(lua, library)?;
            self.real.raw_set(name, hidden)?;
        }
        Ok(())
    }

    /// Hides the metatable that all strings share.
    fn hide_strings(&mut self, lua: &Lua) -> mlua::Result<()> {
        let Some(strings) = lua.type_metatable::<mlua::LuaString>() else { return Ok(()) };
        let library: Table = self.real.raw_get("string")?;
        strings.raw_set("__index", library)?;
        let hidden = self.hide(lua, strings.clone())?;
        strings.raw_set("__metatable", hidden)
    }

    fn hide_globals(&mut self, lua: &Lua) -> mlua::Result<()> {
        self.shown.raw_set("__index", &self.real)?;
        let metatable = self.hide(lua, lua.create_table()?)?;
        self.shown.raw_set("__metatable", metatable)?;
        let (globals, shown, real) = (self.globals.clone(), self.shown.clone(), self.real.clone());
        self.hide_behind(globals, shown, &real)?;
        self.real.raw_set("_G", &self.globals)
    }
}

/// Returns the functions of `prelude.lua`.
fn prelude(lua: &Lua) -> mlua::Result<Table> {
    let shown = lua.create_function(errors::shown)?;
    let plain = lua.create_function(errors::plain)?;
    lua.load(include_str!("prelude.lua")).set_name("=prelude").call((shown, plain, protected::table(lua)?))
}

fn no_global(lua: &Lua, name: &Value) -> mlua::Error {
    let name = name.to_string().unwrap_or_default();
    complain(lua, format_args!("Script attempted to access nonexistent global variable '{name}'"))
}

/// Compiles a text to a function; returns it, or nil and the reason.
fn compile(lua: &Lua, source: &[u8], name: &str) -> (Value, Value) {
    let refused = |why: String| (Value::Nil, lua.create_string(why).map_or(Value::Nil, Value::String));
    if source.first() == Some(&0x1b) {
        return refused("attempt to load a binary chunk".to_owned());
    }
    match source::compile(lua, source, name) {
        Ok(function) => (Value::Function(function), Value::Nil),
        Err(error) => refused(errors::text_of(&error)),
    }
}

/// `loadstring(text [, name])`
fn loadstring(lua: &Lua, args: &MultiValue) -> mlua::Result<(Value, Value)> {
    let text = match args.front() {
        Some(value) => lua.coerce_string(value.clone())?,
        None => None,
    };
    let Some(text) = text else {
        let found = args.front().map_or("no value", type_name);
        return Err(errors::bad_argument(lua, 1, "loadstring", format_args!("string expected, got {found}")));
    };
    let name = name_of(args.get(1)).unwrap_or_else(|| text.to_string_lossy());
    Ok(compile(lua, &text.as_bytes(), &name))
}

/// `load(function [, name])`: the function gives the text piece by piece.
fn load(lua: &Lua, args: &MultiValue) -> mlua::Result<(Value, Value)> {
    let Some(Value::Function(pieces)) = args.front() else {
        let found = args.front().map_or("no value", type_name);
        return Err(errors::bad_argument(lua, 1, "load", format_args!("function expected, got {found}")));
    };
    let mut text = Vec::new();
    loop {
        match pieces.call::<Value>(())? {
            Value::Nil => break,
            Value::String(piece) if piece.as_bytes().is_empty() => break,
            Value::String(piece) => text.extend_from_slice(&piece.as_bytes()),
            _ => return Err(raise("ERR reader function must return a string")),
        }
        if text.len() > SOURCE_BYTES_MAX {
            break;
        }
    }
    Ok(compile(lua, &text, &name_of(args.get(1)).unwrap_or_else(|| "=(load)".to_owned())))
}

fn name_of(value: Option<&Value>) -> Option<String> {
    match value {
        Some(Value::String(name)) => Some(name.to_string_lossy()),
        _ => None,
    }
}
