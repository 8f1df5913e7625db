//! The rules by which several calls of a command become one: the form of their arguments, and the callers' parts of the
//! reply.
//!
//! A client that coalesces calls reads these rules. The command says that calls can be merged; the client decides whether
//! they are. Constants and pure functions only; any thread.

use super::Command;

/// The rule by which several calls of a command become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The command of the merged call: the same command, or its form for many keys.
    pub into: Command,
    /// The form of a call's arguments.
    pub shape: Shape,
    /// The part of the reply that each caller gets.
    pub share: Share,
}

/// The form of the arguments that a call must have to be merged. A call with other arguments is sent alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Keys; each call may name different ones.
    Keys,
    /// A key and its value; each call may name different keys.
    KeyValue,
    /// The key that all calls share, and members, fields or elements of it.
    Members,
    /// The key that all calls share, and fields with their values.
    FieldsAndValues,
    /// The key that all calls share, and scores with their members. A call with options before them is sent alone.
    ScoresAndMembers,
    /// The key that all calls share, and the number that is added to its value.
    Step(i64),
    /// The key that all calls share, and an argument with the amount; the number is added to the value that many times.
    Amount(i64),
}

/// The part of the merged call's reply that each caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The whole reply, for every caller.
    Same,
    /// One element of the reply for each caller, in order.
    Each,
    /// One element of the reply for each caller; a nil may also stand for an error that the call alone would get.
    EachOrError,
    /// The length after the last call, from which the lengths after the other calls follow.
    Length,
    /// The sum after the last call, from which the sums after the other calls follow if all amounts have the same sign.
    Sum,
    /// A count that cannot be split: only for calls with replies that no caller reads.
    Nobody,
}

impl Shape {
    /// Returns whether the merged calls must have the same key, and not only the same command.
    pub const fn shares_key(self) -> bool {
        !matches!(self, Self::Keys | Self::KeyValue)
    }
}
