//! Each thread's Lua states, one pair for each engine that it works on.
//!
//! A state belongs to the thread that made it: a worker has its own, and so has every thread that embeds an engine.
//! Compiled scripts and loaded libraries stay in it until their generation has passed. A station is taken out while it is
//! used, so that nothing is borrowed while a script runs. States of engines that have gone are dropped at the next use.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::libraries::LibraryRoom;
use super::scene::Words;
use super::script_room::ScriptRoom;
use super::scripts::Scripts;

/// What a thread has compiled and loaded for one engine.
#[derive(Default)]
pub struct Station {
    owner: Weak<Scripts>,
    /// The state of scripts, once one has run.
    pub scripts: Option<Box<ScriptRoom>>,
    /// The state of libraries, once one was loaded.
    pub libraries: Option<Box<LibraryRoom>>,
    /// Memory for the words of commands.
    pub words: Words,
}

thread_local! {
    static STATIONS: RefCell<Vec<Station>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with this thread's station for an engine.
pub fn with<R>(scripts: &Arc<Scripts>, work: impl FnOnce(&mut Station) -> R) -> R {
    let mut station = take(scripts);
    let result = work(&mut station);
    STATIONS.with_borrow_mut(|stations| stations.push(station));
    result
}

fn take(scripts: &Arc<Scripts>) -> Station {
    STATIONS.with_borrow_mut(|stations| {
        let is_ours = |station: &Station| std::ptr::eq(station.owner.as_ptr(), Arc::as_ptr(scripts));
        if let Some(index) = stations.iter().position(is_ours) {
            return stations.swap_remove(index);
        }
        stations.retain(|station| station.owner.strong_count() != 0);
        Station { owner: Arc::downgrade(scripts), ..Station::default() }
    })
}
