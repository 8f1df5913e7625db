//! How calls of a command become one call: what their arguments have in common, and which part of the reply is whose.
//!
//! A client that gathers calls reads it. That many calls may be said in one is a fact of the commands; whether they
//! should be is the client's. Constants and pure functions only; any thread.

use super::Command;

/// How calls of a command become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The command that says all of them: itself, or its form for many.
    pub into: Command,
    /// What a call says.
    pub shape: Shape,
    /// Which part of the reply is whose.
    pub share: Share,
}

/// What a call that may be merged says behind the command's name. One that says anything else goes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Keys, whatever keys the other calls name.
    Keys,
    /// A key and its value, whatever keys the other calls name.
    KeyValue,
    /// The key that all have in common, and members, fields or elements of it.
    Members,
    /// The key that all have in common, and fields with their values.
    FieldsAndValues,
    /// The key that all have in common, and scores with their members. Options may stand before them, and such a call
    /// goes alone.
    ScoresAndMembers,
    /// The key that all have in common, to whose number this is added.
    Step(i64),
    /// The key that all have in common, and how often this is added to its number.
    Amount(i64),
}

/// Which part of the reply to the merged call is whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it is everybody's.
    Same,
    /// An element each, in order.
    Each,
    /// An element each; a nil may also stand for an error that the call alone would get.
    EachOrError,
    /// A length behind the last call, which shows those behind the others.
    Length,
    /// A sum behind the last call, which shows those behind the others where all went in the same direction.
    Sum,
    /// A count of which nobody knows whose it is: only for calls whose replies nobody reads.
    Nobody,
}

impl Shape {
    /// Whether the calls have their key in common, and not only the command.
    pub const fn shares_key(self) -> bool {
        !matches!(self, Self::Keys | Self::KeyValue)
    }
}
