//! The scripts that a thread has compiled.
//!
//! They live in one Lua state. If scripts are forgotten (SCRIPT FLUSH), the state is dropped with them. Owned and used by one
//! thread.

use std::collections::HashMap;
use std::rc::Rc;

use super::Interpreter;
use crate::engine::scripts::flags;
use crate::engine::scripts::flags::ScriptFlags;
use crate::engine::scripts::{Digest, Script, Scripts};
use crate::lua::native::raw_call::Kept;
use crate::lua::redis::api;
use crate::request::error::Error;

/// The compiled scripts of one Lua state, by digest.
pub struct CompiledScripts {
    /// The Lua state.
    pub interpreter: Interpreter,
    generation: u64,
    compiled: HashMap<Digest, Compiled>,
}

/// A script that can run.
#[derive(Clone)]
pub struct Compiled {
    /// The script's body.
    pub function: Rc<Kept>,
    /// The flags of the script's shebang; None without one.
    pub flags: Option<ScriptFlags>,
}

impl CompiledScripts {
    /// Makes a Lua state without scripts.
    ///
    /// # Errors
    /// Lua has no memory left.
    pub fn new(scripts: &Scripts, bytes_max: usize) -> Result<Self, Error> {
        let generation = scripts.generation();
        let make = || {
            let interpreter = Interpreter::new(bytes_max, &scripts.script_bytes)?;
            let redis = api::table(&interpreter.lua)?;
            let server = api::server_table(&interpreter.lua, &redis)?;
            for (name, table) in [("redis", redis), ("server", server)] {
                interpreter.sandbox.real.raw_set(name, interpreter.sandbox.hide(&interpreter.lua, table)?)?;
            }
            Ok(interpreter)
        };
        let interpreter = make().map_err(|_: mlua::Error| NO_MEMORY)?;
        Ok(Self { interpreter, generation, compiled: HashMap::new() })
    }

    /// Returns whether scripts were not forgotten since this state was made.
    pub fn is_current(&self, scripts: &Scripts) -> bool {
        self.generation == scripts.generation()
    }

    /// Returns a script that was compiled in this state.
    pub fn get(&self, digest: &Digest) -> Option<&Compiled> {
        self.compiled.get(digest)
    }

    /// Compiles a script in this state. Another thread may have loaded it into the engine.
    ///
    /// # Errors
    /// The first line or the text of the script is not valid.
    pub fn compile(&mut self, digest: Digest, source: &[u8]) -> Result<&Compiled, Error> {
        let flags = flags::of_script(source)?;
        let function = self
            .interpreter
            .compile(source, "user_script")
            .map_err(|why| Error::new(format!("ERR Error compiling script (new function): {why}")))?;
        let function = Rc::new(Kept::new(&self.interpreter.lua, function).map_err(|_| NO_MEMORY)?);
        Ok(self.compiled.entry(digest).or_insert(Compiled { function, flags }))
    }
}

/// Compiles a script in this thread's state, and enters it in the engine's scripts under its digest.
///
/// # Errors
/// The first line or the text of the script is not valid.
pub fn make_known(room: &mut CompiledScripts, scripts: &Scripts, digest: Digest, source: &[u8]) -> Result<(), Error> {
    let flags = match room.get(&digest) {
        Some(compiled) => compiled.flags,
        None => room.compile(digest, source)?.flags,
    };
    scripts.keep(digest, Script { source: source.into(), flags });
    Ok(())
}

/// The error if Lua has less memory than it needs to begin.
pub const NO_MEMORY: Error = Error::fixed("ERR not enough memory for Lua: see 'lua-memory-max'");
