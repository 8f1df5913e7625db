//! Options of the list commands and of SORT: ends, sides, and the extent of a search.
//!
//! Each writes the words of its command as the server documents them. Pure data; any thread.

use crate::resp::request::{Request, ToArg, ToArgs};

/// One of the two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListEnd {
    /// The end with the first element.
    Left,
    /// The end with the last element.
    Right,
}

impl ToArgs for ListEnd {
    fn write_to(&self, request: &mut Request) {
        request.word(match self {
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
        });
    }
}

impl ToArg for ListEnd {}

/// The side of an existing element on which LINSERT puts the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListSide {
    /// In front of the existing element.
    Before,
    /// Behind the existing element.
    After,
}

impl ToArgs for ListSide {
    fn write_to(&self, request: &mut Request) {
        request.word(match self {
            Self::Before => "BEFORE",
            Self::After => "AFTER",
        });
    }
}

impl ToArg for ListSide {}

/// Options of LPOS.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosOptions {
    rank: Option<i64>,
    compared_max: Option<u64>,
}

impl PosOptions {
    /// Returns the defaults: the first match in the whole list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of the match that counts as the first: 1 is the first in the list, -1 the last, from which the search
    /// then goes backwards.
    pub fn rank(mut self, rank: i64) -> Self {
        self.rank = Some(rank);
        self
    }

    /// Sets the largest number of elements that are compared; 0 for all.
    pub fn compared_max(mut self, compared_max: u64) -> Self {
        self.compared_max = Some(compared_max);
        self
    }
}

impl ToArgs for PosOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.rank.map(|rank| ("RANK", rank)));
        request.arg(self.compared_max.map(|count| ("MAXLEN", count)));
    }
}

/// Options of SORT.
///
/// ```
/// use sleeve::SortOptions;
///
/// // The three heaviest, each with its name.
/// let heaviest = SortOptions::new().by("weight_*").descending().limit(0, 3).get("#").get("name_*");
/// ```
#[derive(Clone, Debug, Default)]
pub struct SortOptions {
    by: Option<String>,
    limit: Option<(u64, i64)>,
    gets: Vec<String>,
    is_descending: bool,
    is_alpha: bool,
}

impl SortOptions {
    /// Returns the defaults: sorted by number, the least first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sorts by the values of other keys. The pattern is the name of such a key, with `*` for the element.
    pub fn by(mut self, pattern: impl Into<String>) -> Self {
        self.by = Some(pattern.into());
        self
    }

    /// Returns at most `count` elements, or all if it is negative, after the first `skipped`.
    pub fn limit(mut self, skipped: u64, count: i64) -> Self {
        self.limit = Some((skipped, count));
        self
    }

    /// Returns, instead of each element, the value of the key that this pattern names; `#` is the element itself. It can be
    /// given repeatedly.
    pub fn get(mut self, pattern: impl Into<String>) -> Self {
        self.gets.push(pattern.into());
        self
    }

    /// Sorts the greatest element first.
    pub fn descending(mut self) -> Self {
        self.is_descending = true;
        self
    }

    /// Sorts by text instead of by number.
    pub fn alpha(mut self) -> Self {
        self.is_alpha = true;
        self
    }
}

impl ToArgs for SortOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.by.as_ref().map(|pattern| ("BY", pattern)));
        request.arg(self.limit.map(|(skipped, count)| ("LIMIT", skipped, count)));
        for pattern in &self.gets {
            request.word("GET").arg(pattern);
        }
        request.arg(self.is_descending.then_some("DESC")).arg(self.is_alpha.then_some("ALPHA"));
    }
}
