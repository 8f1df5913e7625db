//! The rules by which several calls of a command become one: the form of their arguments, and the callers' parts of the
//! reply.
//!
//! A client that coalesces calls reads these rules. The command says that calls can be merged; the client decides whether
//! they are. Constants and pure functions only; any thread.

use super::Command;

/// The rule by which several calls of a command become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The command that says all of them: itself, or its form for many.
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
    /// The key that all have in common, and members, fields or elements of it.
    Members,
    /// The key that all have in common, and fields with their values.
    FieldsAndValues,
    /// The key that all have in common, and scores with their members. Options may stand before them, and such a call
    /// goes alone.
    ScoresAndMembers,
    /// The key that all calls share, and the number that is added to its value.
    Step(i64),
    /// The key that all have in common, and how often this is added to its number.
    Amount(i64),
}

/// The part of the merged call's reply that each caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The whole reply, for every caller.
    Same,
    /// An element each, in order.
    Each,
    /// An element each; a nil may also stand for an error that the call alone would get.
    EachOrError,
    /// A length behind the last call, which shows those behind the others.
    Length,
    /// A sum behind the last call, which shows those behind the others where all went in the same direction.
    Sum,
    /// A count that cannot be split: only for calls with replies that no caller reads.
    Nobody,
}

impl Shape {
    /// Returns whether the calls have their key in common, and not only the command.
    pub const fn shares_key(self) -> bool {
        !matches!(self, Self::Keys | Self::KeyValue)
    }
}
