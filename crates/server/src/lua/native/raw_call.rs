//! Running a function of a Lua state without mlua's wrappers.
//!
//! mlua protects every step by itself: each table that is made, each string that is pushed and each value that is kept costs
//! a protected call, and a script of three commands spent more time on that than on all else together. Here the arguments,
//! the call and the result are one protected call. Functions that are called in this way are kept in the state's registry
//! ([`Kept`]). All other uses of Lua go through mlua. Owned and used by the thread of the state.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;

use mlua::ffi::{self, lua_State};
use mlua::{IntoLua, Lua, Value};
use sleeve_wire::request::Args;

/// A value in Lua's registry, under a number.
pub struct Kept {
    /// The Lua state that holds the value. The state lives at least as long as this handle.
    lua: Lua,
    number: c_int,
}

impl Kept {
    /// Keeps a value in Lua.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn new(lua: &Lua, value: impl IntoLua) -> mlua::Result<Self> {
        let mut number = 0;
        // SAFETY: `luaL_ref` takes the value from the top of the stack, on which mlua has put only this value, and mlua
        // protects the call. Nothing with a destructor is alive in the closure.
        unsafe { lua.exec_raw::<()>(value, |state| number = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX)) }?;
        Ok(Self { lua: lua.clone(), number })
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn get(&self) -> mlua::Result<Value> {
        // SAFETY: pushes one value, for which mlua has made room.
        unsafe { self.lua.exec_raw((), |state| ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, self.number)) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // A value that cannot be given back is gone with its state.
        // SAFETY: gives back the number of `new`, once.
        _ = unsafe { self.lua.exec_raw::<()>((), |state| ffi::luaL_unref(state, ffi::LUA_REGISTRYINDEX, self.number)) };
    }
}

/// A Lua state as C sees it, with the values for a call of its functions.
pub struct Bare {
    state: *mut lua_State,
    run: Kept,
    handler: Kept,
    globals: Kept,
    /// The names of the globals KEYS and ARGV.
    names: [Kept; 2],
    /// The registry slot in which a result is left for mlua to read.
    result: Kept,
}

/// The way in which a function gets its keys and its other arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// The script finds keys and arguments in the globals KEYS and ARGV.
    Globals,
    /// The function gets keys and arguments as two tables.
    Tables,
}

/// The parts of a call. No part has a destructor, because Lua's errors jump over it.
#[derive(Clone, Copy)]
struct Job<'a> {
    function: c_int,
    globals: c_int,
    names: [c_int; 2],
    given: Given,
    keys: Args<'a>,
    args: Args<'a>,
}

/// The reason why a call has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// An error was raised, and the handler has seen it.
    Raised,
    /// Lua had no memory left.
    Memory,
    /// The handler itself failed.
    Handler,
}

impl Bare {
    /// Wraps the state of `lua`. Errors go to `handler`, and scripts see `globals`.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn new(lua: &Lua, handler: impl IntoLua, globals: impl IntoLua) -> mlua::Result<Self> {
        let mut state = ptr::null_mut();
        // SAFETY: the state is only read.
        unsafe { lua.exec_raw::<()>((), |running| state = running) }?;
        // SAFETY: `run` keeps to the rules for C functions; see there.
        let run = Kept::new(lua, unsafe { lua.create_c_function(run) }?)?;
        let (handler, globals) = (Kept::new(lua, handler)?, Kept::new(lua, globals)?);
        let names = [Kept::new(lua, "KEYS")?, Kept::new(lua, "ARGV")?];
        Ok(Self { state, run, handler, globals, names, result: Kept::new(lua, true)? })
    }

    /// Calls a function. Its result can be read until the returned value is dropped.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub fn call(
        &self,
        function: &Kept,
        given: Given,
        keys: Args<'_>,
        args: Args<'_>,
    ) -> Result<Returned<'_>, CallFailure> {
        let names = [self.names[0].number, self.names[1].number];
        let mut job = Job { function: function.number, globals: self.globals.number, names, given, keys, args };
        // SAFETY: the state lives as long as the `Kept`s here do, and this thread runs nothing else in it: scripts do not call
        // scripts. Three slots are pushed, fewer than each stack has free; none of the pushes allocates, so nothing can be
        // raised outside of the protected call. `job` is alive until that returns.
        let status = unsafe {
            ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, self.handler.number);
            ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, self.run.number);
            ffi::lua_pushlightuserdata(self.state, ptr::from_mut(&mut job).cast());
            ffi::lua_pcall(self.state, 1, 1, -3)
        };
        // The result, or the error, and the handler below it are on the stack until this is dropped.
        let returned = Returned { bare: self, stack: PhantomData };
        match status {
            ffi::LUA_OK => Ok(returned),
            ffi::LUA_ERRRUN => Err(CallFailure::Raised),
            ffi::LUA_ERRMEM => Err(CallFailure::Memory),
            _ => Err(CallFailure::Handler),
        }
    }
}

/// The result of a function, which lies on Lua's stack until this is dropped.
pub struct Returned<'b> {
    bare: &'b Bare,
    stack: PhantomData<*mut lua_State>,
}

/// A result in the form that is fastest to read.
pub enum Seen<'r> {
    /// Text.
    Bytes(&'r [u8]),
    /// A number.
    Number(f64),
    /// Any other value.
    Other(Value),
}

impl Returned<'_> {
    /// Returns the result.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn look(&self) -> mlua::Result<Seen<'_>> {
        let state = self.bare.state;
        // SAFETY: the result is on top of the stack and stays there as long as `self` is borrowed, so its bytes stay where
        // they are. Text is not converted, and a kept value replaces the one that was kept under the same number: neither
        // allocates.
        unsafe {
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => Ok(Seen::Bytes(text(state, -1))),
                ffi::LUA_TNUMBER => Ok(Seen::Number(ffi::lua_tonumber(state, -1))),
                _ => {
                    ffi::lua_pushvalue(state, -1);
                    ffi::lua_rawseti_(state, ffi::LUA_REGISTRYINDEX, self.bare.result.number);
                    self.bare.result.get().map(Seen::Other)
                }
            }
        }
    }
}

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        // SAFETY: removes the values that `call` has left: the handler, and the result or error.
        unsafe { ffi::lua_settop(self.bare.state, -3) };
    }
}

/// Returns the bytes of a string on the stack, for as long as it lies there.
///
/// # Safety
/// There is a string at `index`, and it stays there for `'s`.
pub unsafe fn text<'s>(state: *mut lua_State, index: c_int) -> &'s [u8] {
    let mut len = 0;
    // SAFETY: for a string `lua_tolstring` gives its own bytes, and how many they are.
    unsafe {
        let bytes = ffi::lua_tolstring(state, index, &mut len);
        if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes.cast(), len) }
    }
}

/// Pushes the arguments of a function and calls it. `lua_pcall` has put a [`Job`] on the stack.
///
/// # Safety
/// Called by Lua, for `Bare::call`. Errors jump out of it, so no value on its own stack has a destructor.
unsafe extern "C-unwind" fn run(state: *mut lua_State) -> c_int {
    // SAFETY: the one argument is the job, which is alive. A C function has 20 free slots, of which 4 are used. Registry
    // numbers are those of values that their owners keep.
    unsafe {
        let job = *ffi::lua_touserdata(state, 1).cast::<Job<'_>>();
        ffi::lua_settop(state, 0);
        if job.given == Given::Globals {
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, job.globals);
            for (name, words) in [(job.names[0], job.keys), (job.names[1], job.args)] {
                ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, name);
                push_strings(state, words);
                ffi::lua_rawset(state, 1);
            }
            ffi::lua_settop(state, 0);
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, job.function);
            ffi::lua_call(state, 0, 1);
        } else {
            ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, job.function);
            push_strings(state, job.keys);
            push_strings(state, job.args);
            ffi::lua_call(state, 2, 1);
        }
    }
    1
}

/// Pushes a table of strings.
///
/// # Safety
/// Called from a C function with two free slots; may raise an error.
unsafe fn push_strings(state: *mut lua_State, words: Args<'_>) {
    // SAFETY: the caller says so; a count of arguments fits.
    unsafe {
        ffi::lua_createtable(state, words.len() as c_int, 0);
        for (index, word) in words.iter().enumerate() {
            ffi::lua_pushlstring_(state, word.as_ptr().cast(), word.len());
            ffi::lua_rawseti_(state, -2, index as c_int + 1);
        }
    }
}
