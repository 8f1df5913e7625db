//! The errors of the commands.

use std::borrow::Cow;
use std::fmt;

/// The text of an error without its code, which is ERR, as in Redis 7.0.
#[derive(Clone, PartialEq, Eq)]
pub struct Refusal(Cow<'static, [u8]>);

impl Refusal {
    /// A number that is no slot.
    pub const NO_SLOT: Self = Self::fixed("Invalid or out of range slot");
    /// The node that is to get a slot is a replica.
    pub const TARGET_IS_REPLICA: Self = Self::fixed("Target node is not a master");

    /// Returns an error with a text that is known when the program is built.
    pub const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// Returns an error with a text that ends with a word of the client. A zero byte ends the word, as in Redis.
    pub fn naming(text: &str, word: &[u8]) -> Self {
        let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
        Self(Cow::Owned([text.as_bytes(), word].concat()))
    }

    /// Returns the error for a node that is not known.
    pub fn unknown_node(name: &[u8]) -> Self {
        Self::naming("Unknown node ", name)
    }

    /// Returns the text.
    pub fn text(&self) -> &[u8] {
        &self.0
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({:?})", String::from_utf8_lossy(&self.0))
    }
}
