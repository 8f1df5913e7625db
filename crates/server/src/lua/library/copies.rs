//! `string.rep`, `upper`, `lower` and `reverse`, and a bound on `format`. Lua's own functions cannot be interrupted while
//! they work on huge texts.
//!
//! Their results are those of Lua 5.1 in the locale of C. A copy is written piece by piece, and the pulse is checked between
//! two pieces. Runs on the script's thread.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, Table};

use crate::lua::native;
use crate::lua::native::Native;

/// The number of bytes that are copied in the time of one unit of work.
const BYTES_A_UNIT: usize = 16;
/// The number of bytes that are written between two checks of the pulse.
const PIECE_BYTES: usize = 64 << 10;
/// The length up to which a copy is written on this thread's stack.
const SHORT_BYTES: usize = 256;
/// The most bytes of `format`'s arguments together: Lua's own function works on them without interruption, a byte at a time.
const FORMAT_BYTES_MAX: usize = 16 << 20;

/// Puts the functions into the table `string`.
///
/// # Errors
/// Lua has no memory left.
pub fn add(lua: &Lua, string: &Table) -> mlua::Result<()> {
    let functions: [(&str, Native); 4] = [("rep", rep), ("upper", upper), ("lower", lower), ("reverse", reverse)];
    // SAFETY: each function keeps to the rules for C functions; see its own comment. The closure's one upvalue is the value
    // that mlua has put on the stack.
    unsafe {
        native::add(lua, string, &functions)?;
        let own: Function = string.raw_get("format")?;
        let bounded: Function = lua.exec_raw(own, |state| ffi::lua_pushcclosure(state, format, 1))?;
        string.raw_set("format", bounded)
    }
}

/// Pushes a text of `len` bytes. `write` gets the start of the text and the number of bytes that are written already. It
/// writes at least one byte behind these and none behind the end, and returns how many.
///
/// # Safety
/// As [`native::fail`], with two free slots; `write` has no destructor.
unsafe fn push_written(state: *mut lua_State, len: usize, mut write: impl FnMut(*mut u8, usize) -> usize) {
    let mut short = [const { MaybeUninit::<u8>::uninit() }; SHORT_BYTES];
    // SAFETY: the written bytes lie in `short` or in bytes that Lua has given, which stay on the stack until Lua has copied
    // them.
    unsafe {
        let start =
            if len <= SHORT_BYTES { short.as_mut_ptr().cast() } else { ffi::lua_newuserdata(state, len).cast() };
        let mut written = 0;
        while written < len {
            let more = write(start, written);
            native::spend(state, 1 + more / BYTES_A_UNIT);
            written += more;
        }
        ffi::lua_pushlstring_(state, start.cast(), len);
    }
}

/// Pushes a copy of the first argument, each piece of which was changed by `change`.
///
/// # Safety
/// Called from a C function.
unsafe fn push_changed(state: *mut lua_State, change: fn(&mut [u8])) -> c_int {
    // SAFETY: the text is an argument, which stays where it is; the changed bytes have just been copied from it.
    unsafe {
        let text = native::bytes(state, 1);
        push_written(state, text.len(), |start, at| {
            let piece = &text[at..text.len().min(at + PIECE_BYTES)];
            let place = start.add(at);
            place.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
            change(std::slice::from_raw_parts_mut(place, piece.len()));
            piece.len()
        });
    }
    1
}

/// `string.upper(s)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn upper(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua.
    unsafe { push_changed(state, <[u8]>::make_ascii_uppercase) }
}

/// `string.lower(s)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn lower(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua.
    unsafe { push_changed(state, <[u8]>::make_ascii_lowercase) }
}

/// `string.reverse(s)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn reverse(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua; the text is an argument, which stays where it is; the reversed bytes have just been
    // copied from it.
    unsafe {
        let text = native::bytes(state, 1);
        push_written(state, text.len(), |start, at| {
            let end = text.len() - at;
            let piece = &text[end.saturating_sub(PIECE_BYTES)..end];
            let place = start.add(at);
            place.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
            std::slice::from_raw_parts_mut(place, piece.len()).reverse();
            piece.len()
        });
    }
    1
}

/// `string.rep(s, n)`
///
/// # Safety
/// Called by Lua.
unsafe extern "C-unwind" fn rep(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua. The first copy comes from the argument, which stays where it is; the others from the
    // bytes that are written, and none reaches into the bytes that it writes.
    unsafe {
        let text = native::bytes(state, 1);
        let count = ffi::luaL_checkinteger(state, 2) as c_int;
        let count = usize::try_from(count).unwrap_or(0);
        let Some(len) = text.len().checked_mul(count).filter(|&len| len <= isize::MAX as usize / 2) else {
            native::fail(state, c"resulting string too large");
        };
        push_written(state, len, |start, at| {
            let (source, there) = match text.get(at..) {
                Some(rest) if !rest.is_empty() => (rest.as_ptr(), rest.len()),
                _ => {
                    let from = at % text.len();
                    (start.add(from).cast_const(), at - from)
                }
            };
            let more = there.min(PIECE_BYTES).min(len - at);
            start.add(at).copy_from_nonoverlapping(source, more);
            more
        });
    }
    1
}

/// `string.format(format, ...)`: calls Lua's own function, which is the upvalue, if the texts are short enough.
///
/// # Safety
/// Called by Lua, with the upvalue of [`add`].
unsafe extern "C-unwind" fn format(state: *mut lua_State) -> c_int {
    // SAFETY: it was called by Lua. Lua's own function has no upvalues, so it finds all its arguments in this function's
    // frame, and names itself in its errors as if the script had called it.
    unsafe {
        let mut len = 0_usize;
        for argument in 1..=ffi::lua_gettop(state) {
            if ffi::lua_type(state, argument) == ffi::LUA_TSTRING {
                len = len.saturating_add(ffi::lua_objlen(state, argument));
            }
        }
        if len > FORMAT_BYTES_MAX {
            native::fail(state, c"resulting string too large");
        }
        native::spend(state, len / BYTES_A_UNIT);
        match ffi::lua_tocfunction(state, ffi::lua_upvalueindex(1)) {
            Some(own) => own(state),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lua::library::tables;
    use crate::lua::native::interrupt;
    use crate::lua::redis::api;

    /// Returns a Lua state with these functions, with those for tables and with `redis`.
    fn state() -> Lua {
        let lua = Lua::new();
        let globals = lua.globals();
        let (string, table) = (globals.get("string").expect("a table"), globals.get("table").expect("a table"));
        add(&lua, &string).expect("memory");
        tables::add(&lua, &globals, &table, &globals).expect("memory");
        globals.set("redis", api::table(&lua).expect("memory")).expect("memory");
        lua
    }

    #[test]
    fn the_pulse_is_felt_within_a_call_for_a_huge_text() {
        let lua = state();
        lua.load("big = ('x'):rep(2 ^ 24) part = ('x'):rep(2 ^ 22)").exec().expect("memory");
        for (script, least) in [
            ("return #('xy'):rep(2 ^ 23)", 3),
            ("return #big:rep(2)", 7),
            ("return #big:upper()", 3),
            ("return #big:lower()", 3),
            ("return #big:reverse()", 3),
            ("return #redis.sha1hex(part)", 3),
            ("return #table.concat({part, part, part, part, part, part, part, part, part})", 2),
        ] {
            let felt = interrupt::felt_during(|| lua.load(script).exec().expect("a result"));
            assert!(felt >= least, "{script}: {felt}");
        }
    }

    #[test]
    fn copies_are_those_that_lua_makes() {
        let lua = state();
        let own = Lua::new();
        for text in ["''", "'a'", "'aZ\\0[`{\\255'", "('Ab1'):rep(90)", "('Ab1'):rep(50000)"] {
            for call in
                ["upper()", "lower()", "reverse()", "rep(0)", "rep(1)", "rep(3)", "rep(-1)", "rep(2.7)", "format()"]
            {
                let script = format!("local s = {text} return s:{call}");
                let of = |lua: &Lua| lua.load(&script).eval::<mlua::LuaString>().expect("a text").as_bytes().to_vec();
                assert!(of(&lua) == of(&own), "{script}");
            }
        }
        for script in ["return string.format()", "return string.format('%d', 'x')", "return string.format('%y', 1)"] {
            let of = |lua: &Lua| lua.load(script).exec().expect_err("an error").to_string().replace('\n', " ");
            assert_eq!(of(&lua).split(" stack").next(), of(&own).split(" stack").next(), "{script}");
        }
        let refused = lua.load("return string.format(('x'):rep(2 ^ 24 + 1))").exec().expect_err("an error");
        assert!(refused.to_string().contains("resulting string too large"));
    }
}
