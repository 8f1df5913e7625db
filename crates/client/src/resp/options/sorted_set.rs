//! Options of the commands on sorted sets: the condition for adding a member, the range, and the way in which sets are
//! combined.
//!
//! Each writes the words of its command in the order that the server documents. Pure data; any thread.

use crate::resp::number::Number;
use crate::resp::request::{Request, ToArg, ToArgs};

/// Options of ZADD. GEOADD takes them too, without the comparisons.
///
/// ```
/// use sleeve::AddOptions;
///
/// // A list of records: only better scores count.
/// let record = AddOptions::new().if_greater().count_changed();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    condition: Option<&'static str>,
    comparison: Option<&'static str>,
    is_changed_counted: bool,
}

impl AddOptions {
    /// Returns the defaults: adds new members, and sets the scores of present ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds only new members: a present member keeps its score.
    pub fn if_absent(mut self) -> Self {
        self.condition = Some("NX");
        self
    }

    /// Sets only the scores of present members; adds none.
    pub fn if_present(mut self) -> Self {
        self.condition = Some("XX");
        self
    }

    /// Sets the score of a present member only if the new one is greater.
    pub fn if_greater(mut self) -> Self {
        self.comparison = Some("GT");
        self
    }

    /// Sets the score of a present member only if the new one is less.
    pub fn if_less(mut self) -> Self {
        self.comparison = Some("LT");
        self
    }

    /// Counts members with a changed score in the answer, in addition to the new ones.
    pub fn count_changed(mut self) -> Self {
        self.is_changed_counted = true;
        self
    }
}

impl ToArgs for AddOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg(self.condition).arg(self.comparison).arg(self.is_changed_counted.then_some("CH"));
    }
}

/// The range of members for ZRANGE and ZRANGESTORE.
#[derive(Clone, Debug)]
pub struct RankRange {
    bounds: [String; 2],
    kind: Option<&'static str>,
    is_reverse: bool,
    limit: Option<(u64, i64)>,
}

impl RankRange {
    /// Selects the members by rank, both ends included; negative ranks count from the end.
    pub fn by_rank(start: i64, stop: i64) -> Self {
        Self::between(start, stop, None)
    }

    /// Selects the members by score. A bound is a number, `(` and a number that is not included itself, `-inf` or `+inf`.
    pub fn by_score(min: impl ToString, max: impl ToString) -> Self {
        Self::between(min, max, Some("BYSCORE"))
    }

    /// Selects the members by name, if all scores are equal. A bound is `[` or `(` (not included) and a name, `-` or `+`.
    pub fn by_name(min: impl Into<String>, max: impl Into<String>) -> Self {
        Self::between(min.into(), max.into(), Some("BYLEX"))
    }

    fn between(min: impl ToString, max: impl ToString, kind: Option<&'static str>) -> Self {
        Self { bounds: [min.to_string(), max.to_string()], kind, is_reverse: false, limit: None }
    }

    /// Returns the members from the greatest to the least. Bounds by score or name stay in their order: the lesser first.
    pub fn reverse(mut self) -> Self {
        self.is_reverse = true;
        self
    }

    /// Returns at most `count` members, or all if it is negative, after the first `skipped`; not for a range by rank.
    pub fn limit(mut self, skipped: u64, count: i64) -> Self {
        self.limit = Some((skipped, count));
        self
    }
}

impl ToArgs for RankRange {
    fn write_to(&self, request: &mut Request) {
        let [min, max] = &self.bounds;
        // For the reverse order the server wants the greater bound first; ranks then count from the other end.
        match self.is_reverse && self.kind.is_some() {
            true => request.arg(max).arg(min),
            false => request.arg(min).arg(max),
        };
        request.arg(self.kind).arg(self.is_reverse.then_some("REV"));
        request.arg(self.limit.map(|(skipped, count)| ("LIMIT", skipped, count)));
    }
}

/// One of the two ends of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankEnd {
    /// The end with the least score.
    Min,
    /// The end with the greatest score.
    Max,
}

impl ToArgs for RankEnd {
    fn write_to(&self, request: &mut Request) {
        request.word(match self {
            Self::Min => "MIN",
            Self::Max => "MAX",
        });
    }
}

impl ToArg for RankEnd {}

/// The way in which unions and intersections of sorted sets combine the scores of a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CombineOptions {
    weights: Vec<f64>,
    aggregate: Option<&'static str>,
}

impl CombineOptions {
    /// Returns the default: the sum of the scores.
    pub fn new() -> Self {
        Self::default()
    }

    /// Multiplies the scores of each set by its weight first; one weight for each key.
    pub fn weights(mut self, weights: impl IntoIterator<Item = impl Number>) -> Self {
        self.weights = weights.into_iter().map(Number::to_f64).collect();
        self
    }

    /// Takes the least of the scores.
    pub fn min(mut self) -> Self {
        self.aggregate = Some("MIN");
        self
    }

    /// Takes the greatest of the scores.
    pub fn max(mut self) -> Self {
        self.aggregate = Some("MAX");
        self
    }
}

impl ToArgs for CombineOptions {
    fn write_to(&self, request: &mut Request) {
        request.arg((!self.weights.is_empty()).then_some(("WEIGHTS", &self.weights)));
        request.arg(self.aggregate.map(|aggregate| ("AGGREGATE", aggregate)));
    }
}
