//! Calls that are gathered for a moment and leave as commands for many: SETs as MSET, GETs as MGET, and so on.
//!
//! From top to bottom: `handle` is what callers have; `gatherer` takes their calls in, and has one thread at a time
//! send what is gathered and hand out what was answered; `timer` looks when calls have waited long enough; `state` is
//! what it knows; `flight` is what was sent and is not answered, `gathering` what is not sent yet, in order; `split`
//! gives each caller its part of a reply; `group` is calls that become one command; `marks` knows which keys are on
//! their way; `call` reads from a request what can be done with it.
//!
//! Which commands can be merged stands in the command table. What is kept, whatever is merged: calls on one key are
//! executed in the order in which they were made through the handle. Calls on different keys may overtake each other,
//! so the replies are those that the calls would get one by one in the order in which they were made.

pub(crate) mod call;
pub(crate) mod flight;
pub(crate) mod gatherer;
pub(crate) mod gathering;
pub(crate) mod group;
pub(crate) mod handle;
pub(crate) mod marks;
pub(crate) mod split;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod timer;
