//! `collectgarbage`, by which a script can read the memory use and collect garbage, but change nothing for the scripts after
//! it.
//!
//! Lua's own function lets a script stop the garbage collector of a state that all scripts of a thread share. Runs on the
//! script's thread.

use std::ffi::{CStr, c_int};

use mlua::ffi::{self, lua_State};
use mlua::{Lua, Table};

use crate::lua::native;

/// Puts the function into the table of globals.
///
/// # Errors
/// Lua has no memory left.
pub fn add(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    // SAFETY: the function keeps to the rules for C functions; see its own comment.
    unsafe { native::add(lua, globals, &[("collectgarbage", collectgarbage)]) }
}

/// The units of work that a collection counts for each kibibyte of memory.
const UNITS_A_KIBIBYTE: usize = 64;

/// `collectgarbage([what [, number]])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn collectgarbage(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; the word is an argument or a literal, and one value is pushed.
    unsafe {
        let mut len = 0;
        let word = ffi::luaL_optlstring(state, 1, c"collect".as_ptr(), &mut len);
        let number = native::integer_or(state, 2, 0);
        match CStr::from_ptr(word).to_bytes() {
            b"collect" => {
                ffi::lua_gc(state, ffi::LUA_GCCOLLECT, 0);
                charge(state);
                ffi::lua_pushnumber(state, 0.0);
            }
            b"count" => {
                let kibibytes = f64::from(ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0));
                ffi::lua_pushnumber(state, kibibytes + f64::from(ffi::lua_gc(state, ffi::LUA_GCCOUNTB, 0)) / 1024.0);
            }
            b"step" => {
                let is_over = ffi::lua_gc(state, ffi::LUA_GCSTEP, number);
                charge(state);
                ffi::lua_pushboolean(state, is_over);
            }
            b"stop" | b"restart" => ffi::lua_pushnumber(state, 0.0),
            b"setpause" => push_setting(state, ffi::LUA_GCSETPAUSE),
            b"setstepmul" => push_setting(state, ffi::LUA_GCSETSTEPMUL),
            _ => {
                let text = ffi::lua_pushfstring(state, c"invalid option '%s'".as_ptr(), word);
                ffi::luaL_argerror(state, 1, text);
            }
        }
    }
    1
}

/// Counts the work of a collection, which depends on the memory of the state.
///
/// # Safety
/// As [`native::fail`].
unsafe fn charge(state: *mut lua_State) {
    // SAFETY: as the caller says.
    unsafe {
        let kibibytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0);
        native::spend(state, UNITS_A_KIBIBYTE * usize::try_from(kibibytes).unwrap_or(0));
    }
}

/// Pushes the present setting, which Lua returns only to a caller that sets one.
///
/// # Safety
/// Called from a C function with a free slot.
unsafe fn push_setting(state: *mut lua_State, which: c_int) {
    // SAFETY: reads a number and puts it back.
    unsafe {
        let present = ffi::lua_gc(state, which, 200);
        ffi::lua_gc(state, which, present);
        ffi::lua_pushnumber(state, f64::from(present));
    }
}
