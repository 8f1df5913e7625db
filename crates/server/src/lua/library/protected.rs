//! `pcall` and `xpcall` as in Lua, with a free slot for the one value that they add to the returned ones: Lua's own and
//! mlua's functions write it behind the end of the stack's room. `prelude.lua` makes the functions that a script sees of
//! these. Runs on the script's thread.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Lua, Table};

use crate::lua::native;

/// Returns both functions in a table.
///
/// # Errors
/// Lua has no memory left.
pub fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    // SAFETY: both functions keep to the rules for C functions; see their own comments.
    unsafe { native::add(lua, &table, &[("pcall", pcall), ("xpcall", xpcall)]) }?;
    Ok(table)
}

/// `pcall(f, ...)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua, with a function and its arguments on the stack.
    unsafe {
        ffi::luaL_checkany(state, 1);
        let status = ffi::lua_pcall(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET, 0);
        ffi::luaL_checkstack_(state, 1, c"too many results".as_ptr());
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_insert(state, 1);
        ffi::lua_gettop(state)
    }
}

/// `xpcall(f, handler)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn xpcall(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; the handler is put below the function.
    unsafe {
        ffi::luaL_checkany(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_insert(state, 1);
        let status = ffi::lua_pcall(state, 0, ffi::LUA_MULTRET, 1);
        ffi::luaL_checkstack_(state, 1, c"too many results".as_ptr());
        ffi::lua_pushboolean(state, c_int::from(status == ffi::LUA_OK));
        ffi::lua_replace(state, 1);
        ffi::lua_gettop(state)
    }
}
