//! `unpack`, and `table.insert`, `remove`, `concat`, `maxn` and `sort`, in place of Lua's own: their ranges overflow, and
//! they cannot be interrupted.
//!
//! Their results, and the order in which `sort` compares, are those of Lua 5.1. Runs on the script's thread.

use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;

use mlua::ffi::{self, lua_State, luaL_Buffer};
use mlua::{Function, Lua, Table};

use super::base::READ_ONLY;
use crate::lua::native;
use crate::lua::native::{Native, fail};

/// Puts the functions into the tables of globals and `table`. The keys of `reals` are the tables that scripts may not change.
///
/// # Errors
/// Lua has no memory left.
pub fn add(lua: &Lua, globals: &Table, table: &Table, reals: &Table) -> mlua::Result<()> {
    let functions: [(&str, Native); 4] = [("remove", remove), ("concat", concat), ("maxn", maxn), ("sort", sort)];
    // SAFETY: each function keeps to the rules for C functions; see its own comment. The closure's one upvalue is the value
    // that mlua has put on the stack.
    unsafe {
        let insert: Function = lua.exec_raw(reals, |state| ffi::lua_pushcclosure(state, insert, 1))?;
        table.raw_set("insert", insert)?;
        native::add(lua, globals, &[("unpack", unpack)])?;
        native::add(lua, table, &functions)
    }
}

/// Returns the length of the table that is the first argument.
///
/// # Safety
/// As [`fail`].
unsafe fn len(state: *mut lua_State) -> c_int {
    // SAFETY: the callers have checked that the argument is a table.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_objlen(state, 1) as c_int
    }
}

/// `unpack(list [, i [, j]])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; room for the pushed values is made first.
    unsafe {
        let last = len(state);
        let first = native::integer_or(state, 2, 1);
        let last = native::integer_or(state, 3, last);
        if first > last {
            return 0;
        }
        let count = i64::from(last) - i64::from(first) + 1;
        let Ok(count) = c_int::try_from(count) else { fail(state, TOO_MANY) };
        if ffi::lua_checkstack(state, count) == 0 {
            fail(state, TOO_MANY);
        }
        for index in first..=last {
            ffi::lua_rawgeti_(state, 1, index);
        }
        count
    }
}

const TOO_MANY: &CStr = c"too many results to unpack";

/// Raises an error if the first argument is a table that scripts may not change. Such a table is empty, hides another one and
/// has a metatable; of the functions for lists only `insert` would put a value into it all the same.
///
/// # Safety
/// As [`fail`]; the upvalue is that of [`insert`].
unsafe fn refuse_shared(state: *mut lua_State) {
    // SAFETY: two slots are used, and are free again.
    unsafe {
        if ffi::lua_getmetatable(state, 1) == 0 {
            return;
        }
        ffi::lua_pushvalue(state, 1);
        ffi::lua_rawget(state, ffi::lua_upvalueindex(1));
        if ffi::lua_type(state, -1) != ffi::LUA_TNIL {
            // The error names no place in the script, as that of `rawset`.
            ffi::lua_pushlstring_(state, READ_ONLY.as_ptr().cast(), READ_ONLY.len());
            ffi::lua_error(state);
        }
        ffi::lua_settop(state, -3);
    }
}

/// `table.insert(table, [pos,] value)`
///
/// # Safety
/// Called by Lua, with the tables that scripts may not change as the keys of its upvalue.
unsafe extern "C-unwind" fn insert(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; at most two slots more than the arguments are used.
    unsafe {
        let end = len(state).wrapping_add(1);
        refuse_shared(state);
        let place = match ffi::lua_gettop(state) {
            2 => end,
            3 => ffi::luaL_checkinteger(state, 2) as c_int,
            _ => fail(state, c"wrong number of arguments to 'insert'"),
        };
        let mut index = end.max(place);
        while index > place {
            native::spend(state, 1);
            ffi::lua_rawgeti_(state, 1, index - 1);
            ffi::lua_rawseti_(state, 1, index);
            index -= 1;
        }
        ffi::lua_rawseti_(state, 1, place);
    }
    0
}

/// `table.remove(table [, pos])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn remove(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; two slots more than the arguments are used.
    unsafe {
        let last = len(state);
        let place = native::integer_or(state, 2, last);
        if place < 1 || place > last {
            return 0;
        }
        ffi::lua_rawgeti_(state, 1, place);
        for index in place..last {
            native::spend(state, 1);
            ffi::lua_rawgeti_(state, 1, index + 1);
            ffi::lua_rawseti_(state, 1, index);
        }
        ffi::lua_pushnil(state);
        ffi::lua_rawseti_(state, 1, last);
    }
    1
}

/// `table.concat(table [, sep [, i [, j]]])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn concat(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua. The separator is an argument or has no bytes; the buffer is used as Lua's manual says.
    unsafe {
        let mut bytes = 0;
        let separator = ffi::luaL_optlstring(state, 2, c"".as_ptr(), &mut bytes);
        let end = len(state);
        let first = native::integer_or(state, 3, 1);
        let last = native::integer_or(state, 4, end);
        let mut space = MaybeUninit::<luaL_Buffer>::uninit();
        let buffer = space.as_mut_ptr();
        ffi::luaL_buffinit(state, buffer);
        for index in first..=last {
            ffi::lua_rawgeti_(state, 1, index);
            if ffi::lua_isstring(state, -1) == 0 {
                let kind = ffi::lua_typename(state, ffi::lua_type(state, -1));
                let text = c"invalid value (%s) at index %d in table for 'concat'";
                ffi::luaL_error(state, text.as_ptr(), kind, index);
            }
            native::spend(state, 1 + (bytes + ffi::lua_objlen(state, -1)) / 64);
            ffi::luaL_addvalue(buffer);
            if index != last {
                ffi::luaL_addlstring(buffer, separator, bytes);
            }
        }
        ffi::luaL_pushresult(buffer);
    }
    1
}

/// `table.maxn(table)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn maxn(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; two slots more than the argument are used.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        let mut greatest = 0.0;
        ffi::lua_pushnil(state);
        while ffi::lua_next(state, 1) != 0 {
            native::spend(state, 1);
            ffi::lua_settop(state, -2);
            if ffi::lua_type(state, -1) == ffi::LUA_TNUMBER {
                let key = ffi::lua_tonumber(state, -1);
                greatest = if key > greatest { key } else { greatest };
            }
        }
        ffi::lua_pushnumber(state, greatest);
    }
    1
}

/// `table.sort(table [, comp])`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn sort(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua. There is room for the whole depth of `sort_range`, which keeps no values on the stack
    // when it goes deeper.
    unsafe {
        let last = len(state);
        ffi::luaL_checkstack_(state, 40, c"".as_ptr());
        if ffi::lua_type(state, 2) > ffi::LUA_TNIL {
            ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        }
        ffi::lua_settop(state, 2);
        sort_range(state, 1, last);
    }
    0
}

/// Sorts a range by quicksort, with the median of three as pivot. The shorter part is sorted one level deeper, so that there
/// are few levels.
///
/// # Safety
/// Called from [`sort`].
unsafe fn sort_range(state: *mut lua_State, mut low: c_int, mut high: c_int) {
    // SAFETY: at most five slots are used at a time, all of which are free again before it goes deeper.
    unsafe {
        while low < high {
            push_two(state, low, high);
            order(state, Less::LastThanFirst, (low, high));
            if high - low == 1 {
                return;
            }
            let middle = low + (high - low) / 2;
            push_two(state, middle, low);
            if !order(state, Less::FirstThanLast, (middle, low)) {
                push_two(state, middle, high);
                order(state, Less::LastThanFirst, (middle, high));
            }
            if high - low == 2 {
                return;
            }
            ffi::lua_rawgeti_(state, 1, middle);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_rawgeti_(state, 1, high - 1);
            put_two(state, middle, high - 1);
            let place = partition(state, low, high);
            let (near, far) = if place - low < high - place {
                ((low, place - 1), (place + 1, high))
            } else {
                ((place + 1, high), (low, place - 1))
            };
            sort_range(state, near.0, near.1);
            (low, high) = far;
        }
    }
}

/// Moves the elements that are less than the pivot in front of the others; returns the pivot's new position. The pivot is on
/// top of the stack and in the table at the position before `high`. It is removed from the stack.
///
/// # Safety
/// Called from [`sort_range`].
unsafe fn partition(state: *mut lua_State, low: c_int, high: c_int) -> c_int {
    let (mut up, mut down) = (low, high - 1);
    // SAFETY: above the pivot lie at most two elements and the values of a comparison.
    unsafe {
        loop {
            loop {
                up += 1;
                ffi::lua_rawgeti_(state, 1, up);
                if !is_less(state, -1, -2) {
                    break;
                }
                if up > high {
                    fail(state, BAD_ORDER);
                }
                ffi::lua_settop(state, -2);
            }
            loop {
                down -= 1;
                ffi::lua_rawgeti_(state, 1, down);
                if !is_less(state, -3, -1) {
                    break;
                }
                if down < low {
                    fail(state, BAD_ORDER);
                }
                ffi::lua_settop(state, -2);
            }
            if down < up {
                ffi::lua_settop(state, -4);
                break;
            }
            put_two(state, up, down);
        }
        push_two(state, high - 1, up);
        put_two(state, high - 1, up);
    }
    up
}

const BAD_ORDER: &CStr = c"invalid order function for sorting";

/// The condition for a swap: which of the two elements on top of the stack has to be less than the other.
#[derive(Clone, Copy)]
enum Less {
    LastThanFirst,
    FirstThanLast,
}

/// Swaps two elements in the table if the condition holds, and removes both from the stack. `places` are their positions.
/// Returns whether they were swapped.
///
/// # Safety
/// Called from [`sort_range`].
unsafe fn order(state: *mut lua_State, less: Less, places: (c_int, c_int)) -> bool {
    // SAFETY: both elements are on the stack, and are removed.
    unsafe {
        let changes = match less {
            Less::LastThanFirst => is_less(state, -1, -2),
            Less::FirstThanLast => is_less(state, -2, -1),
        };
        if changes {
            put_two(state, places.0, places.1);
        } else {
            ffi::lua_settop(state, -3);
        }
        changes
    }
}

/// Pushes the two elements at these places.
///
/// # Safety
/// Called from [`sort_range`].
unsafe fn push_two(state: *mut lua_State, first: c_int, second: c_int) {
    // SAFETY: there is room for both.
    unsafe {
        ffi::lua_rawgeti_(state, 1, first);
        ffi::lua_rawgeti_(state, 1, second);
    }
}

/// Stores the two elements on top of the stack in the table: the last at `first`, the other one at `second`.
///
/// # Safety
/// Called from [`sort_range`].
unsafe fn put_two(state: *mut lua_State, first: c_int, second: c_int) {
    // SAFETY: both elements are on the stack.
    unsafe {
        ffi::lua_rawseti_(state, 1, first);
        ffi::lua_rawseti_(state, 1, second);
    }
}

/// Returns whether one element on the stack is less than another: by the function that is the second argument, if there is
/// one.
///
/// # Safety
/// Called from [`sort_range`], with negative indexes.
unsafe fn is_less(state: *mut lua_State, one: c_int, other: c_int) -> bool {
    // SAFETY: three slots are used, and are free again.
    unsafe {
        native::spend(state, 1);
        if ffi::lua_type(state, 2) == ffi::LUA_TNIL {
            return ffi::lua_lessthan(state, one, other) != 0;
        }
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushvalue(state, one - 1);
        ffi::lua_pushvalue(state, other - 2);
        ffi::lua_call(state, 2, 1);
        let is_less = ffi::lua_toboolean(state, -1) != 0;
        ffi::lua_settop(state, -2);
        is_less
    }
}
