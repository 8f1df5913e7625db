//! The check of a script's pulse while Lua's own code runs: after a number of instructions.
//!
//! One instruction may take long if it works on much memory, for instance if it joins or compares two texts of a hundred
//! megabytes. So the more memory the state takes, the fewer instructions are allowed between two checks. Memory may grow
//! within few instructions; therefore a check also follows each full round of the garbage collector, which is noticed by a
//! value without an owner when it is collected. If instructions turn out to take long all the same, the next check comes even
//! sooner. Runs on the thread of the state.

use std::cell::Cell;
use std::ffi::c_int;

use mlua::Lua;
use mlua::ffi::{self, lua_Debug, lua_State};

use super::interrupt;
use crate::host::clock;
use crate::lua::native;

/// The number of instructions between two checks in a state that takes no more than [`SMALL_KIBIBYTES`].
const INSTRUCTIONS: c_int = 10_000;
/// The least number of instructions between two checks, unless they take long.
const INSTRUCTIONS_MIN: c_int = 10;
/// The most ticks of the processor that should pass between two checks: some milliseconds.
const TICKS_MAX: u64 = 1 << 24;
/// The memory of a state up to which it counts as small.
const SMALL_KIBIBYTES: c_int = 4_096;
/// The memory of a state up to which garbage is collected less often: to go through the libraries after every hundred short
/// scripts would cost a tenth of their time.
const TINY_KIBIBYTES: c_int = 512;

thread_local! {
    /// The time of this thread's last check.
    static LOOKED_AT: Cell<u64> = const { Cell::new(0) };
}

/// Enables the check of the pulse in this state and in every coroutine of it.
///
/// # Errors
/// Lua has no memory left.
pub fn set(lua: &Lua) -> mlua::Result<()> {
    // SAFETY: mlua protects the call and has made room for the few values that are pushed. A hook is inherited by every
    // coroutine that Lua makes. Both functions keep to the rules for C functions.
    unsafe {
        lua.exec_raw((), |state| {
            ffi::lua_sethook(state, Some(on_count), ffi::LUA_MASKCOUNT, INSTRUCTIONS);
            ffi::lua_gc(state, ffi::LUA_GCSETPAUSE, pause(0));
            ffi::lua_newuserdata(state, 0);
            ffi::lua_createtable(state, 0, 1);
            ffi::lua_pushcclosure(state, on_collected, 0);
            ffi::lua_setfield(state, -2, c"__gc".as_ptr());
            ffi::lua_setmetatable(state, -2);
            ffi::lua_settop(state, -2);
        })
    }
}

/// Checks the pulse, and sets the number of instructions until the next check.
///
/// # Safety
/// Called by Lua, as a hook.
unsafe extern "C-unwind" fn on_count(state: *mut lua_State, _: *mut lua_Debug) {
    let ticks = clock::ticks().wrapping_sub(LOOKED_AT.get());
    let felt = interrupt::feel();
    // SAFETY: only numbers of the running state are set; errors may be raised in a hook.
    unsafe {
        let most = instructions(ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0));
        look_after(state, most.min(in_time(ffi::lua_gethookcount(state), ticks)));
        LOOKED_AT.set(clock::ticks());
        if felt.is_err() {
            native::end(state);
        }
    }
}

/// Returns the number of instructions until the next check in a state of so many kibibytes.
fn instructions(kibibytes: c_int) -> c_int {
    let much = f64::from(kibibytes.max(SMALL_KIBIBYTES)) / f64::from(SMALL_KIBIBYTES);
    ((f64::from(INSTRUCTIONS) / (much * much.sqrt())) as c_int).max(INSTRUCTIONS_MIN)
}

/// Returns the number of instructions that can be expected to stay within [`TICKS_MAX`], if `instructions` have taken
/// `ticks`.
fn in_time(instructions: c_int, ticks: u64) -> c_int {
    if ticks <= TICKS_MAX {
        return c_int::MAX;
    }
    let few = u64::from(instructions.unsigned_abs()).saturating_mul(TICKS_MAX) / ticks;
    c_int::try_from(few).unwrap_or(c_int::MAX).max(1)
}

/// Returns the size, in hundredths of its present one, to which a state of so many kibibytes may grow until garbage is
/// collected again.
fn pause(kibibytes: c_int) -> c_int {
    if kibibytes <= TINY_KIBIBYTES { 400 } else { 200 }
}

/// Sets the number of instructions until the next check.
///
/// # Safety
/// The state runs.
unsafe fn look_after(state: *mut lua_State, instructions: c_int) {
    // SAFETY: sets numbers of the state.
    unsafe {
        if ffi::lua_gethookcount(state) != instructions {
            ffi::lua_sethook(state, Some(on_count), ffi::LUA_MASKCOUNT, instructions);
        }
    }
}

/// Runs at the end of each round of the collector: makes the value that will notice the end of the next round, sets when that
/// begins, and has the pulse checked at the next instruction. It raises no error of a script, because Lua collects garbage
/// where no error is expected.
///
/// # Safety
/// Called by Lua, with the value that had no owner.
unsafe extern "C-unwind" fn on_collected(state: *mut lua_State) -> c_int {
    // SAFETY: a C function has 20 free slots, of which two are used; a state that has no memory for a value has none for a
    // script.
    unsafe {
        if ffi::lua_getmetatable(state, 1) != 0 {
            ffi::lua_newuserdata(state, 0);
            ffi::lua_insert(state, -2);
            ffi::lua_setmetatable(state, -2);
        }
        ffi::lua_gc(state, ffi::LUA_GCSETPAUSE, pause(ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0)));
        look_after(state, 1);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_memory_is_looked_at_more_often() {
        assert_eq!(
            [(10_000, 5), (10_000, TICKS_MAX * 10), (3, u64::MAX)].map(|(count, ticks)| in_time(count, ticks)),
            [c_int::MAX, 1_000, 1]
        );
        assert_eq!([0, 4_096, 40_960, 1 << 20, c_int::MAX].map(instructions), [10_000, 10_000, 316, 10, 10]);
    }
}
