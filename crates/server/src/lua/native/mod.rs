//! The common part of functions that Lua calls: their arguments and errors, the invocation to which they belong, and the
//! pulse by which a script can be interrupted while they work.
//!
//! [`Native`] functions bypass mlua; `raw_call` gives the reason. An error of Lua jumps out of them, so no value on their own
//! stack may have a destructor. Runs on the script's thread.

pub mod allowance;
pub mod current_invocation;
pub mod errors;
pub mod hook;
pub mod interrupt;
pub mod invocation;
pub mod numbers;
pub mod pattern;
pub mod raw_call;

use std::ffi::{CStr, c_int};

use mlua::ffi::{self, lua_State};
use mlua::{Lua, Table};

/// A function as Lua calls it.
pub type Native = unsafe extern "C-unwind" fn(*mut lua_State) -> c_int;

/// Puts functions into a table.
///
/// # Errors
/// Lua has no memory left.
///
/// # Safety
/// They keep to the rules for C functions.
pub unsafe fn add(lua: &Lua, table: &Table, functions: &[(&str, Native)]) -> mlua::Result<()> {
    for &(name, native) in functions {
        // SAFETY: as the caller says.
        let function = unsafe { lua.create_c_function(native) }?;
        table.raw_set(name, function)?;
    }
    Ok(())
}

/// Raises an error that begins with the place in the script where the running function was called.
///
/// # Safety
/// Called from a C function; no destructor on its stack is run.
#[cold]
pub unsafe fn fail(state: *mut lua_State, text: &CStr) -> ! {
    // SAFETY: two values are pushed, for which Lua keeps room where errors are raised, and become one.
    unsafe {
        ffi::luaL_where(state, 1);
        ffi::lua_pushstring_(state, text.as_ptr());
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}

/// Raises the error that ends a script after its pulse has stopped.
///
/// # Safety
/// As [`fail`].
#[cold]
pub unsafe fn end(state: *mut lua_State) -> ! {
    // SAFETY: as the caller says.
    unsafe {
        ffi::lua_pushstring_(state, interrupt::ENDED.as_ptr());
        ffi::lua_error(state)
    }
}

/// Counts work that was done; if the script has to end, raises the error that ends it.
///
/// # Safety
/// As [`fail`].
pub unsafe fn spend(state: *mut lua_State, units: usize) {
    if interrupt::spend(units).is_err() {
        // SAFETY: as the caller says.
        unsafe { end(state) }
    }
}

/// Reads the bytes of an argument that is a string, or a number, which becomes one.
///
/// # Safety
/// As [`fail`]; the argument stays on the stack for `'s`.
pub unsafe fn bytes<'s>(state: *mut lua_State, argument: c_int) -> &'s [u8] {
    let mut len = 0;
    // SAFETY: Lua returns the bytes of the argument, and how many they are.
    unsafe {
        let start = ffi::luaL_checklstring(state, argument, &mut len);
        std::slice::from_raw_parts(start.cast(), len)
    }
}

/// Reads an argument as a C integer, cut to its 32 bits as Lua cuts it; returns `absent` if there is no argument.
///
/// # Safety
/// As [`fail`].
pub unsafe fn integer_or(state: *mut lua_State, argument: c_int, absent: c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe { ffi::luaL_optinteger(state, argument, absent as ffi::lua_Integer) as c_int }
}
