//! The databases that a request touches, and those that a selector allows: `db=0,1`, `alldbs` and `resetdbs` of Valkey 9.1.
//!
//! Commands that read, write or check keys touch the selected database. SELECT, SWAPDB, MOVE and COPY touch those that they
//! name, and FLUSHALL all of them. If an argument is no valid database, the command itself refuses it. Pure functions; any
//! thread.

use std::collections::BTreeSet;

use sleeve_wire::commands::{Categories, Command, Flags, Row};
use sleeve_wire::number;
use sleeve_wire::request::Args;

use super::rule::RuleError;

/// The databases of a server, as a client sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Databases {
    /// The database that the client has selected.
    pub selected: u32,
    /// The number of databases.
    pub count: u32,
}

/// The databases that a selector allows; all of them if none are listed.
pub(super) type Allowed = Option<BTreeSet<u32>>;

/// Reads the databases of a rule `db=0,1`, from the text after its `=`.
///
/// # Errors
/// The text is no list of numbers, or one of them is out of range.
pub(super) fn parse(list: &[u8]) -> Result<BTreeSet<u32>, RuleError> {
    let one = |text: &[u8]| {
        let number =
            std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok()).ok_or(RuleError::Syntax)?;
        i32::try_from(number).ok().and_then(|number| u32::try_from(number).ok()).ok_or(RuleError::DatabaseRange)
    };
    list.split(|&byte| byte == b',').map(one).collect()
}

/// Returns the rule that makes these databases the allowed ones; empty if there are none.
pub(super) fn describe(allowed: &BTreeSet<u32>) -> Vec<u8> {
    let numbers: Vec<_> = allowed.iter().map(u32::to_string).collect();
    if numbers.is_empty() { Vec::new() } else { format!("db={}", numbers.join(",")).into_bytes() }
}

/// Returns the index of the argument that names a database which is not allowed, or 0, that of the command's name, if no
/// argument names it.
pub(super) fn first_denied(
    allowed: &BTreeSet<u32>,
    row: &'static Row,
    args: Args<'_>,
    databases: Databases,
) -> Option<usize> {
    let named = |at: usize| {
        let number = args.get(at).and_then(number::parse_i64)?;
        u32::try_from(number).ok().filter(|number| *number < databases.count)
    };
    let is_denied = |at: &usize| named(*at).is_some_and(|database| !allowed.contains(&database));
    let selected = || (!allowed.contains(&databases.selected)).then_some(0);
    match row.id {
        Command::Select => Some(1).filter(is_denied),
        Command::SwapDb if named(1).is_none() || named(2).is_none() => None,
        Command::SwapDb => [1, 2].into_iter().find(is_denied),
        Command::Move => Some(2).filter(is_denied).or_else(selected),
        Command::Copy => {
            let is_option = |at: &usize| args.get(at - 1).is_some_and(|word| word.eq_ignore_ascii_case(b"db"));
            (4..args.len()).filter(is_option).find(is_denied).or_else(selected)
        }
        Command::FlushAll => (!(0..databases.count).all(|database| allowed.contains(&database))).then_some(0),
        _ if touches_selected(row) => selected(),
        _ => None,
    }
}

/// Returns whether a command reads or writes the selected database, or might. Channels are no keys.
fn touches_selected(row: &Row) -> bool {
    let of_keys = Categories::KEYSPACE.or(Categories::READ).or(Categories::WRITE);
    row.categories.intersects(of_keys) || !row.keys.is_empty() && !row.flags.contains(Flags::PUBSUB)
}
