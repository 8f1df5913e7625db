//! A Lua state: it is made, sandboxed, compiles scripts and calls their functions.
//!
//! A thread has a state for scripts and one for libraries, as Redis has two. Its memory is bounded by `lua-memory-max`; a
//! state that has reached that is thrown away. The `interrupt` of a running script is checked again and again (`hook`), so
//! that a script that runs too long can be ended. Owned and used by one thread.

pub mod compiled_scripts;
pub mod interpreters;
pub mod loaded_libraries;
pub mod sandbox;
pub mod source;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlua::{Function, Lua, LuaOptions, StdLib, Value};
use sleeve_wire::request::Args;

use super::native::errors;
use super::native::errors::Uncaught;
use super::native::hook;
use super::native::interrupt;
use super::native::raw_call::{Bare, CallFailure, Given, Kept, Returned};
use sandbox::Sandbox;

/// The number of bytes by which a state may grow or shrink before the sum of all states is updated.
const WEIGHT_STEP: usize = 4096;

/// A Lua state, with the tables that scripts may reach in it.
pub struct Interpreter {
    /// The state.
    pub lua: Lua,
    /// The tables that its scripts reach.
    pub sandbox: Sandbox,
    /// The most bytes that the state may take.
    pub bytes_max: usize,
    bare: Bare,
    handler: Function,
    uncaught: Rc<RefCell<Option<Uncaught>>>,
    /// The bytes of all interpreters of the same kind; the next field is this one's share in them.
    total_bytes: Arc<AtomicUsize>,
    said_bytes: Cell<usize>,
}

impl Interpreter {
    /// Makes a new state with at most so many bytes, which are counted in `total_bytes`.
    ///
    /// # Errors
    /// The bytes do not even suffice for the state's libraries.
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
        let interpreter =
            Self { lua, sandbox, bytes_max, bare, handler, uncaught, total_bytes, said_bytes: Cell::new(0) };
        hook::set(&interpreter.lua)?;
        interpreter.lua.set_memory_limit(bytes_max)?;
        interpreter.weigh();
        Ok(interpreter)
    }

    /// Compiles a source to a function. A shebang in the first line is left out.
    ///
    /// # Errors
    /// Lua's message about the source.
    pub fn compile(&self, source: &[u8], name: &str) -> Result<Function, String> {
        let shebang = if source.starts_with(b"#!") { source.iter().position(|&byte| byte == b'\n') } else { None };
        let text = &source[shebang.unwrap_or(0)..];
        if text.first() == Some(&0x1b) {
            return Err(format!("{name}:1: unexpected symbol near 'char(27)'"));
        }
        source::compile(&self.lua, text, &format!("@{name}")).map_err(|error| errors::text_of(&error))
    }

    /// Calls the body of a library.
    ///
    /// # Errors
    /// The error that the function raised and did not catch.
    pub fn call(&self, function: &Function) -> Result<Value, Uncaught> {
        let returned = self.sandbox.xpcall.call::<(bool, Value)>((function, &self.handler));
        self.settle(returned)
    }

    /// Calls a function of a script or a library with its keys and its other arguments.
    ///
    /// # Errors
    /// The error that the function raised and did not catch.
    pub fn play(
        &self,
        function: &Kept,
        given: Given,
        keys: Args<'_>,
        args: Args<'_>,
    ) -> Result<Returned<'_>, Uncaught> {
        let returned = self.bare.call(function, given, keys, args);
        let uncaught = self.uncaught.borrow_mut().take();
        let uncaught = match returned {
            Ok(returned) => return Ok(returned),
            Err(CallFailure::Memory) => Uncaught::plain("not enough memory"),
            Err(CallFailure::Handler) => uncaught.unwrap_or_else(|| Uncaught::plain("error in error handling")),
            Err(CallFailure::Raised) => uncaught.unwrap_or_else(|| Uncaught::plain("unknown error")),
        };
        Err(truly(uncaught))
    }

    fn settle(&self, returned: mlua::Result<(bool, Value)>) -> Result<Value, Uncaught> {
        let uncaught = self.uncaught.borrow_mut().take();
        let uncaught = match returned {
            Ok((true, value)) => return Ok(value),
            Ok((false, error)) => uncaught.unwrap_or_else(|| Uncaught::at_the_top(&self.lua, error)),
            Err(error) => uncaught.unwrap_or_else(|| Uncaught::plain(&errors::text_of(&error))),
        };
        Err(truly(uncaught))
    }

    /// Updates the sum of all interpreters' memory by that of this one, to within [`WEIGHT_STEP`].
    pub fn weigh(&self) {
        let (bytes, said) = (self.lua.used_memory(), self.said_bytes.get());
        if bytes.abs_diff(said) >= WEIGHT_STEP {
            self.say(bytes);
        }
    }

    fn say(&self, bytes: usize) {
        let said = self.said_bytes.replace(bytes);
        self.total_bytes.fetch_add(bytes.wrapping_sub(said), Ordering::Relaxed);
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.say(0);
    }
}

/// Returns the error; but if the script was interrupted, the reason for that instead.
fn truly(uncaught: Uncaught) -> Uncaught {
    match interrupt::ended() {
        Some(why) => Uncaught { text: why.into_bytes(), is_counted: false, ..uncaught },
        None => uncaught,
    }
}
