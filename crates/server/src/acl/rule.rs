//! A rule as text: the errors for wrong rules, and the joining of words to rules. Pure functions; any thread.

use std::fmt;

/// The reason why a rule is refused; the texts are Redis's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleError {
    /// An unknown command or category.
    Unknown,
    /// The text is no rule at all, or a pattern with a space in it.
    Syntax,
    /// A key pattern although all keys are allowed already.
    AllKeysAlready,
    /// A channel pattern although all channels are allowed already.
    AllChannelsAlready,
    /// The removal of a password that the user does not have.
    NoSuchPassword,
    /// A number that is no possible database.
    DatabaseRange,
    /// A text that is no SHA-256 of a password.
    BadHash,
    /// `+config|get|x`: a subcommand of a subcommand.
    FirstArgument,
}

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::AllKeysAlready => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AllChannelsAlready => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::DatabaseRange => "The provided database ID is out of range",
            Self::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstArgument => "Allowing first-arg of a subcommand is not supported",
        })
    }
}

/// The initial settings of a new user or selector.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults {
    /// The user may use all channels (`acl-pubsub-default`).
    pub all_channels: bool,
}

/// Joins the words from `(` to `)` to one rule, and leaves all others as they are.
///
/// # Errors
/// The position of a word that opens a parenthesis which no word closes.
pub fn merge_selectors(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut rules: Vec<Vec<u8>> = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, word) in words.iter().enumerate() {
        open = match open {
            None if word.starts_with(b"(") && !word.ends_with(b")") => Some((at, word.to_vec())),
            None => {
                rules.push(word.to_vec());
                None
            }
            Some((start, begun)) => {
                let grown = [begun.as_slice(), b" ", word].concat();
                if word.ends_with(b")") {
                    rules.push(grown);
                    None
                } else {
                    Some((start, grown))
                }
            }
        };
    }
    open.map_or(Ok(rules), |(start, _)| Err(start))
}
