//! `redis.call` and `redis.pcall` as Lua calls them.
//!
//! Nearly every call is handled here without mlua; `raw_call` gives the reason. Arguments are taken from Lua's stack, and the
//! usual replies are pushed onto it. An error, or a reply of another kind, is left to a function of mlua, which finds it in
//! the invocation. Runs on the script's thread.

use std::ffi::c_int;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};
use sleeve_wire::number::{self, Digits};

use crate::engine::keyspace::turns::Widened;
use crate::lua::native;
use crate::lua::native::invocation::{Invocation, Words};
use crate::lua::native::{current_invocation, interrupt, numbers, raw_call};
use crate::request::error::Error;

/// Makes the function that scripts call. If there is an error or an unusual reply, `otherwise` is called without arguments
/// and answers instead.
///
/// # Errors
/// Lua has no memory left.
pub fn function(lua: &Lua, otherwise: Function) -> mlua::Result<Function> {
    // SAFETY: the closure's one upvalue is the value that mlua has put on the stack; `call` keeps to the rules for C
    // functions.
    unsafe { lua.exec_raw(otherwise, |state| ffi::lua_pushcclosure(state, call, 1)) }
}

/// Runs a command and pushes its reply, or leaves an error or an unusual reply to the function in the upvalue.
///
/// # Safety
/// Called by Lua, with the function for other answers as upvalue. Errors jump out of it, so while it touches Lua's stack no
/// value on its own stack has a destructor.
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: a C function has 20 free slots beside its arguments, of which one is used here; see the two functions.
    unsafe {
        let ran = run(state);
        native::spend(state, ran.units);
        if ran.is_good && push_reply(state) {
            return 1;
        }
        ffi::lua_settop(state, 0);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_call(state, 0, 1);
    }
    1
}

/// The outcome of a call.
#[derive(Clone, Copy, Default)]
struct Ran {
    is_good: bool,
    /// The work of the call, in units.
    units: usize,
}

/// The number of the processor's ticks in a unit of work, roughly.
const TICKS_A_UNIT: u64 = 8;

/// Runs the command that the arguments on the stack form.
///
/// # Safety
/// Called from a C function. Raises no error.
unsafe fn run(state: *mut lua_State) -> Ran {
    let ran = current_invocation::with(|invocation| {
        invocation.begin_call();
        // SAFETY: as the caller says.
        let gathered = unsafe { gather(state, &mut invocation.words) };
        let outcome = match gathered {
            Err(text) => Err(text.into()),
            // A panic in a command must not unwind through Lua; it is resumed when Lua has returned.
            Ok(()) => panic::catch_unwind(AssertUnwindSafe(|| run_gathered(invocation))).unwrap_or_else(|panic| {
                invocation.panic = Some(panic);
                Err(b"ERR the command failed".to_vec())
            }),
        };
        let ticks = outcome.as_ref().copied().unwrap_or(0);
        invocation.failure = outcome.err();
        Ran { is_good: invocation.failure.is_none(), units: (ticks / TICKS_A_UNIT) as usize }
    });
    ran.unwrap_or_default()
}

/// Runs the command, and returns how many ticks that took.
fn run_gathered(invocation: &mut Invocation<'_, '_>) -> Result<u64, Vec<u8>> {
    let ran = invocation.find().and_then(|row| {
        if invocation.needs_others(row) {
            lock_others(invocation)?;
        }
        invocation.run(row)
    });
    ran.map_err(|error| {
        invocation.cx.counters.errors_replied.add(1);
        invocation.cx.engine.observe.stats.count_error(error.code());
        error.text().to_vec()
    })
}

/// The time after which a script that waits for the end of others checks its pulse.
const WAIT: Duration = Duration::from_millis(10);

/// Takes all shards beside that of the script's slot. The script is noted as one that needs them, so it takes them at once
/// when it runs again.
#[cold]
fn lock_others(invocation: &mut Invocation<'_, '_>) -> Result<(), Error> {
    current_invocation::look_at_script(|script| script.engine.scripts.note_wide(script.name));
    loop {
        match invocation.cx.locks.widen_within(WAIT) {
            Widened::Done => return Ok(()),
            Widened::Late => interrupt::feel().map_err(|_| Error::fixed("ERR The script has to end"))?,
            // Each of the two would wait for the end of the other.
            Widened::Refused => {
                return Err(Error::fixed(
                    "TRYAGAIN This script and another one have both turned out to need keys or commands beyond their slot",
                ));
            }
        }
    }
}

/// Puts the arguments of a call into `words`; numbers are written as in Redis.
///
/// # Safety
/// Called from a C function. Raises no error: no argument is converted in its place.
unsafe fn gather(state: *mut lua_State, words: &mut Words) -> Result<(), &'static str> {
    // SAFETY: all indexes are those of arguments; text is copied while it lies on the stack.
    unsafe {
        let count = ffi::lua_gettop(state);
        if count == 0 {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        for index in 1..=count {
            match ffi::lua_type(state, index) {
                ffi::LUA_TSTRING => {
                    let text = raw_call::text(state, index);
                    if !words.has_room(text.len()) {
                        return Err("ERR the arguments of this call are too long");
                    }
                    words.push(text);
                }
                ffi::LUA_TNUMBER => push_number(words, ffi::lua_tonumber(state, index)),
                _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
            }
        }
    }
    Ok(())
}

fn push_number(words: &mut Words, number: f64) {
    /// 2 to the power of 63, the first number that does not fit into 64 bits.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number) {
        words.push(Digits::new(number as i64).as_bytes());
    } else {
        words.push(numbers::general(number, 17).as_bytes());
    }
}

/// Pushes the reply in the invocation's output. Returns false, and pushes nothing, if it is an unusual one.
///
/// # Safety
/// Called from a C function. May raise an error.
unsafe fn push_reply(state: *mut lua_State) -> bool {
    let reply =
        current_invocation::with(|invocation| invocation.cx.out.plain().map(|bytes| (bytes.as_ptr(), bytes.len())))
            .flatten();
    let Some((start, len)) = reply else { return false };
    // SAFETY: the output is the invocation's, which is not touched until the next call of a script's function, and that is after
    // this one has returned or an error has jumped out of it.
    unsafe {
        let bytes = std::slice::from_raw_parts(start, len);
        let top = ffi::lua_gettop(state);
        let is_whole = push_value(state, bytes, DEPTH_MAX).is_some_and(<[u8]>::is_empty);
        if !is_whole {
            ffi::lua_settop(state, top);
        }
        is_whole
    }
}

/// The number of values of an array between two checks of the pulse.
const VALUES_A_LOOK: c_int = 4_096;
/// The greatest depth of arrays in usual replies; each level takes two of Lua's slots.
const DEPTH_MAX: usize = 4;

/// Pushes the first value of a reply and returns the bytes after it; None if it is an unusual one.
///
/// # Safety
/// Called from a C function with two slots free for each level. May raise an error.
unsafe fn push_value(state: *mut lua_State, bytes: &[u8], depth: usize) -> Option<&[u8]> {
    let (&kind, rest) = bytes.split_first()?;
    let end = rest.iter().position(|&byte| byte == b'\r')?;
    let (line, rest) = (rest.get(..end)?, rest.get(end + 2..)?);
    // SAFETY: the caller says so; lengths are those of slices.
    unsafe {
        match kind {
            b':' => ffi::lua_pushnumber(state, number::parse_i64(line)? as f64),
            b'$' | b'*' if line == b"-1" => ffi::lua_pushboolean(state, 0),
            b'$' => {
                let len = usize::try_from(number::parse_i64(line)?).ok()?;
                let text = rest.get(..len)?;
                ffi::lua_pushlstring_(state, text.as_ptr().cast(), len);
                return rest.get(len + 2..);
            }
            b'+' => {
                ffi::lua_createtable(state, 0, 1);
                ffi::lua_pushlstring_(state, c"ok".as_ptr(), 2);
                ffi::lua_pushlstring_(state, line.as_ptr().cast(), line.len());
                ffi::lua_rawset(state, -3);
            }
            b'*' if depth > 0 => {
                let count = c_int::try_from(number::parse_i64(line)?).ok()?;
                // Each value has at least four bytes: the reserved size is no mere claim.
                ffi::lua_createtable(state, count.min((rest.len() / 4) as c_int), 0);
                let mut rest = rest;
                for index in 1..=count {
                    if index % VALUES_A_LOOK == 0 {
                        native::spend(state, VALUES_A_LOOK as usize);
                    }
                    rest = push_value(state, rest, depth - 1)?;
                    ffi::lua_rawseti_(state, -2, index);
                }
                return Some(rest);
            }
            _ => return None,
        }
    }
    Some(rest)
}
