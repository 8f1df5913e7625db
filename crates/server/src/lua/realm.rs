//! One Lua state: made, closed in, compiling, calling.
//!
//! A thread has a realm for scripts and one for libraries, as Redis has two. Memory is bounded by `lua-memory-max`; a realm
//! in which that was reached is thrown away. Every so many instructions the `pulse` of the running script is felt, which
//! is how a script that runs too long is ended. Owned and used by one thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Value, VmState};
use sleeve_wire::request::Args;

use super::bare::{Bare, Broken, Given, Kept, Returned};
use super::base::READ_ONLY;
use super::pulse;
use super::raised::{self, Uncaught};
use super::sandbox::Sandbox;

/// Instructions of Lua between two looks at the clock.
const PULSE_INSTRUCTIONS: u32 = 100_000;
/// By how many bytes a state grows or shrinks before others are told.
const WEIGHT_STEP: usize = 4096;

/// See the file's head.
pub struct Realm {
    /// The state.
    pub lua: Lua,
    /// What its scripts reach.
    pub sandbox: Sandbox,
    bare: Bare,
    handler: Function,
    uncaught: Rc<RefCell<Option<Uncaught>>>,
    /// The bytes of all realms of its kind, and how many of them have been said to be this one's.
    total_bytes: Arc<AtomicUsize>,
    said_bytes: Cell<usize>,
}

impl Realm {
    /// A new state with at most so many bytes, which are part of `total_bytes`.
    ///
    /// # Errors
    /// The bytes do not even suffice for its libraries.
    pub fn new(bytes_max: usize, total_bytes: &Arc<AtomicUsize>) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let sandbox = Sandbox::close(&lua)?;
        let uncaught = Rc::new(RefCell::new(None));
        let caught = Rc::clone(&uncaught);
        let handler = lua.create_function(move |lua, error: Value| {
            *caught.borrow_mut() = Some(Uncaught::at_the_top(lua, error));
            Ok(())
        })?;
        let total_bytes = Arc::clone(total_bytes);
        let bare = Bare::new(&lua, &handler, &sandbox.real)?;
        let realm = Self { lua, sandbox, bare, handler, uncaught, total_bytes, said_bytes: Cell::new(0) };
        realm.feel_pulse(PULSE_INSTRUCTIONS)?;
        realm.lua.set_memory_limit(bytes_max)?;
        realm.weigh();
        Ok(realm)
    }

    fn feel_pulse(&self, instructions: u32) -> mlua::Result<()> {
        let triggers = HookTriggers::new().every_nth_instruction(instructions);
        self.lua.set_global_hook(triggers, |lua, _| {
            pulse::feel().map_err(|text| {
                // A script may catch this and go on; then the next instruction raises it again.
                let again = HookTriggers::new().every_nth_instruction(1);
                _ = lua.set_global_hook(again, |_, _| pulse::feel().map(|()| VmState::Continue).map_err(raised::raise));
                raised::raise(text)
            })?;
            Ok(VmState::Continue)
        })
    }

    /// A function of this source, whose first line is left out when it is a shebang.
    ///
    /// # Errors
    /// What Lua says of the text.
    pub fn compile(&self, source: &[u8], name: &str) -> Result<Function, String> {
        let shebang = if source.starts_with(b"#!") { source.iter().position(|&byte| byte == b'\n') } else { None };
        let text = &source[shebang.unwrap_or(0)..];
        if text.first() == Some(&0x1b) {
            return Err(format!("{name}:1: unexpected symbol near 'char(27)'"));
        }
        let chunk = self.lua.load(text).set_name(format!("@{name}")).set_mode(ChunkMode::Text);
        chunk.into_function().map_err(|error| raised::text_of(&error))
    }

    /// Calls the body of a library.
    ///
    /// # Errors
    /// What the function raised and did not catch.
    pub fn call(&self, function: &Function) -> Result<Value, Uncaught> {
        let returned = self.sandbox.xpcall.call::<(bool, Value)>((function, &self.handler));
        self.settle(returned)
    }

    /// Calls a function of a script or a library with its keys and its other arguments.
    ///
    /// # Errors
    /// What the function raised and did not catch.
    pub fn play(
        &self,
        function: &Kept,
        given: Given,
        keys: Args<'_>,
        args: Args<'_>,
    ) -> Result<Returned<'_>, Uncaught> {
        let returned = self.bare.call(function, given, keys, args);
        let uncaught = self.uncaught.borrow_mut().take();
        let is_changed = self.bare.is_any_filled(&self.sandbox.hidden) && self.sandbox.was_changed();
        match returned {
            Ok(returned) if !is_changed => Ok(returned),
            Ok(_) => Err(Uncaught::plain(READ_ONLY)),
            Err(Broken::Memory) => Err(Uncaught::plain("not enough memory")),
            Err(Broken::Handler) => Err(uncaught.unwrap_or_else(|| Uncaught::plain("error in error handling"))),
            Err(Broken::Raised) => Err(uncaught.unwrap_or_else(|| Uncaught::plain("unknown error"))),
        }
    }

    fn settle(&self, returned: mlua::Result<(bool, Value)>) -> Result<Value, Uncaught> {
        let uncaught = self.uncaught.borrow_mut().take();
        match returned {
            Ok((true, value)) if !self.sandbox.was_changed() => Ok(value),
            Ok((true, _)) => Err(Uncaught::plain(READ_ONLY)),
            Ok((false, error)) => Err(uncaught.unwrap_or_else(|| Uncaught::at_the_top(&self.lua, error))),
            Err(error) => Err(uncaught.unwrap_or_else(|| Uncaught::plain(&raised::text_of(&error)))),
        }
    }

    /// Makes ready for the next script after one that was ended.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn recover(&self) -> mlua::Result<()> {
        self.feel_pulse(PULSE_INSTRUCTIONS)
    }

    /// Has the bytes of all realms tell what this one takes, to within [`WEIGHT_STEP`].
    pub fn weigh(&self) {
        let (bytes, said) = (self.lua.used_memory(), self.said_bytes.get());
        self.bare.pace(bytes);
        if bytes.abs_diff(said) >= WEIGHT_STEP {
            self.say(bytes);
        }
    }

    fn say(&self, bytes: usize) {
        let said = self.said_bytes.replace(bytes);
        self.total_bytes.fetch_add(bytes.wrapping_sub(said), Ordering::Relaxed);
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        self.say(0);
    }
}
