//! Calls that are gathered for a moment and leave as commands for many: SETs as MSET, GETs as MGET, and so on.
//!
//! From top to bottom: `handle` is the callers' side. `gatherer` takes their calls in, and has one thread at a time send the
//! gathered calls and hand out the answers. `timer` checks whether calls have waited for the delay. `state` is the gatherer's
//! state. `flight` has the calls that were sent and are not answered, `gathering` those that are not sent yet, in order.
//! `split` gives each caller its part of a reply. `group` is the calls that become one command. `marks` knows which keys are
//! in flight. `call` reads from a request how it can be handled.
//!
//! The command table says which commands can be merged. One order is kept, merged or not: calls on one key are executed in
//! the order in which they were made through the handle. Calls on different keys may overtake each other, so the replies are
//! those that the calls would get one by one in the order in which they were made.

pub(crate) mod call;
pub(crate) mod flight;
pub(crate) mod gatherer;
pub(crate) mod gathering;
pub(crate) mod group;
pub(crate) mod handle;
pub(crate) mod marks;
pub(crate) mod options;
mod split;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod timer;
