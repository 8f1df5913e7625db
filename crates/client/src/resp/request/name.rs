//! The command of a request, in two bytes: the number of its row in the command table.
//!
//! One further bit says whether the reply is timed; it is kept with the name and changes nothing else about the command. The
//! compiler knows the row of a typed method; a command by name is looked up where it is begun. Errors name the command, never
//! an argument: that may be a secret. Pure functions; any thread.

use std::fmt;

use sleeve_wire::commands::{Row, all, find, find_sub};

/// A command of the table, or one that is in no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(u16);

/// The bit of a command with a timed reply.
const TIMED: u16 = 1 << 15;

impl Name {
    /// A command that is not in the table.
    pub(crate) const UNKNOWN: Self = Self(!TIMED);

    /// Returns the command that begins with these words: a subcommand with its container, or a command by itself.
    pub(crate) const fn of(words: &[&str]) -> Self {
        match words {
            [] => Self::UNKNOWN,
            [name] => Self::seek(name.as_bytes(), None),
            [name, sub, ..] => Self::seek(name.as_bytes(), Some(sub.as_bytes())),
        }
    }

    /// Returns the command as [`of`](Name::of) does, for words that are bytes.
    pub(crate) fn find(words: &[&[u8]]) -> Self {
        words.first().map_or(Self::UNKNOWN, |name| Self::seek(name, words.get(1).copied()))
    }

    const fn seek(name: &[u8], sub: Option<&[u8]>) -> Self {
        let Some(row) = find(name) else { return Self::UNKNOWN };
        if let Some(sub) = sub
            && let Some(row) = find_sub(row.id, sub)
        {
            return Self::of_row(row);
        }
        Self::of_row(row)
    }

    /// Returns whether the command is in the table.
    pub(crate) const fn is_known(self) -> bool {
        self.row().is_some()
    }

    /// Returns the command of this row.
    pub(crate) const fn of_row(row: &Row) -> Self {
        Self(row.id as u16)
    }

    /// Returns the command's row, if it is in the table.
    #[inline]
    pub(crate) const fn row(self) -> Option<&'static Row> {
        let index = (self.0 & !TIMED) as usize;
        if index < all().len() { Some(&all()[index]) } else { None }
    }

    /// Returns the same command with a timed reply.
    pub(crate) const fn timed(self) -> Self {
        Self(self.0 | TIMED)
    }

    /// Returns whether the reply is timed.
    #[inline]
    pub(crate) const fn is_timed(self) -> bool {
        self.0 & TIMED != 0
    }

    /// Returns whether the command may wait on the server.
    pub(crate) const fn may_wait(self) -> bool {
        matches!(self.row(), Some(row) if row.timeout.is_some())
    }

    /// Returns the name as a number that a slot can keep.
    #[inline]
    pub(crate) const fn number(self) -> u16 {
        self.0
    }

    /// Returns the name of a [`number`](Name::number).
    pub(crate) const fn from_number(number: u16) -> Self {
        Self(number)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some(row) => f.write_str(&row.full_name.to_ascii_uppercase().replace('|', " ")),
            None => f.write_str("a command that is not in the table"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_commands_and_its_subcommands() {
        for (words, shown) in [
            (vec!["get"], "GET"),
            (vec!["Get", "secret"], "GET"),
            (vec!["CONFIG", "set"], "CONFIG SET"),
            (vec!["DEBUG", "no-such-thing"], "DEBUG"),
            (vec!["CLIENT", "no-such-thing"], "CLIENT"),
            (vec!["MY.OWN", "secret"], "a command that is not in the table"),
            (vec![], "a command that is not in the table"),
        ] {
            let name = Name::of(&words);
            assert_eq!(name.to_string(), shown, "{words:?}");
            assert_eq!(Name::find(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()), name);
            assert_eq!(Name::from_number(name.number()), name);
            let timed = name.timed();
            assert!(timed.is_timed() && !name.is_timed());
            assert_eq!((timed.to_string(), timed.is_known()), (name.to_string(), name.is_known()));
        }
        assert!(all().len() < usize::from(Name::UNKNOWN.number()));
    }
}
