//! The Lua states of each thread: a pair for each engine on which it works.
//!
//! A state belongs to the thread that made it: a worker has its own, and so has every thread that embeds an engine. Compiled
//! scripts and loaded libraries stay in it until the engine's have changed. They are taken out of the thread's table while
//! they are used, so that nothing is borrowed while a script runs. States of engines that no longer exist are dropped at the
//! next use.
//!
//! All work with them runs on a separate stack ([`STACK_BYTES`]). Lua's need of stack is bounded only by its levels of
//! nesting, and a thread that embeds an engine cannot be expected to have so large a stack.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use corosensei::stack::DefaultStack;

use super::compiled_scripts::CompiledScripts;
use super::loaded_libraries::LoadedLibraries;
use crate::engine::scripts::Scripts;
use crate::lua::native::invocation::Words;
use crate::request::error::Error;

/// The size of the stack of scripts. Lua nests at most 200 functions of its libraries. Each of these, with the functions that
/// it calls, takes some ten kilobytes, several times as much in a build without optimisation; all texts and tables are read
/// and written to a bounded depth. Only the used part of the stack takes memory.
const STACK_BYTES: usize = 16 << 20;

/// The scripts and libraries that a thread has compiled and loaded for one engine.
#[derive(Default)]
pub struct Interpreters {
    owner: Weak<Scripts>,
    /// The state of scripts, once one has run.
    pub scripts: Option<Box<CompiledScripts>>,
    /// The state of libraries, once one was loaded.
    pub libraries: Option<Box<LoadedLibraries>>,
    /// The memory for the arguments of commands that scripts call.
    pub words: Words,
    stack: Option<DefaultStack>,
}

thread_local! {
    static ALL: RefCell<Vec<Interpreters>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with this thread's interpreters for an engine.
///
/// # Errors
/// The errors of `work`, or there is no memory for a stack.
pub fn with<R>(scripts: &Arc<Scripts>, work: impl FnOnce(&mut Interpreters) -> Result<R, Error>) -> Result<R, Error> {
    const NO_STACK: Error = Error::fixed("ERR there is no memory for the stack of scripts");
    let mut interpreters = take(scripts);
    let mut stack = match interpreters.stack.take() {
        Some(stack) => stack,
        None => DefaultStack::new(STACK_BYTES).map_err(|_| NO_STACK)?,
    };
    let result = corosensei::on_stack(&mut stack, || work(&mut interpreters));
    interpreters.stack = Some(stack);
    ALL.with_borrow_mut(|all| all.push(interpreters));
    result
}

/// Frees this thread's state of scripts.
pub fn forget_scripts(scripts: &Arc<Scripts>) {
    let mut interpreters = take(scripts);
    interpreters.scripts = None;
    ALL.with_borrow_mut(|all| all.push(interpreters));
}

fn take(scripts: &Arc<Scripts>) -> Interpreters {
    ALL.with_borrow_mut(|all| {
        let is_ours = |interpreters: &Interpreters| std::ptr::eq(interpreters.owner.as_ptr(), Arc::as_ptr(scripts));
        if let Some(index) = all.iter().position(is_ours) {
            return all.swap_remove(index);
        }
        all.retain(|interpreters| interpreters.owner.strong_count() != 0);
        Interpreters { owner: Arc::downgrade(scripts), ..Interpreters::default() }
    })
}
