//! The decision whether a user may run a request, and the reasons for a refusal.
//!
//! If several selectors refuse, the reply names the one that passed most of the checks, as in Redis: a key or a channel
//! rather than the command, and the last such argument. Pure functions; any thread.

use std::ops::Range;

use sleeve_wire::commands::{Flags, KeyFlags, Row};
use sleeve_wire::request::Args;

use super::databases::{self, Databases};
use super::selector::Selector;
use super::user::User;

/// The permission that a user lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial {
    /// The kind of permission.
    pub reason: Reason,
    /// The index of the argument that names the key, the channel or the database.
    pub index: usize,
}

/// The kinds of permission. If several selectors refuse, the latest kind in this order is reported, because that selector
/// came closest to allowing the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The permission to use a database.
    Database,
    /// The permission to run the command.
    Command,
    /// The permission to access a key.
    Key,
    /// The permission to log in at all.
    Auth,
    /// The permission to use a channel.
    Channel,
}

impl Reason {
    /// The reasons, in their order.
    pub const ALL: [Self; 5] = [Self::Database, Self::Command, Self::Key, Self::Auth, Self::Channel];

    /// Returns the name of the reason in ACL LOG.
    pub fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Command => "command",
            Self::Key => "key",
            Self::Auth => "auth",
            Self::Channel => "channel",
        }
    }
}

impl Denial {
    /// Returns the refused object: the command's full name, or the key, the channel or the database.
    pub fn object<'a>(&self, row: &'static Row, args: Args<'a>) -> &'a [u8] {
        match self.reason {
            Reason::Command => row.full_name.as_bytes(),
            _ => args.get(self.index).unwrap_or_default(),
        }
    }

    /// Returns the sentence of a refusal, without a code word. It does not name the key or channel, because a script may have
    /// named it; the sentence for ACL DRYRUN does.
    pub fn text(&self, user: &[u8], row: &'static Row, args: Args<'_>) -> Vec<u8> {
        match self.reason {
            Reason::Database => b"No permissions to access database".to_vec(),
            Reason::Key => b"No permissions to access a key".to_vec(),
            Reason::Channel => b"No permissions to access a channel".to_vec(),
            Reason::Command | Reason::Auth => self.full_text(user, row, args),
        }
    }

    /// Returns the sentence for ACL DRYRUN, which names the key or channel too.
    pub fn full_text(&self, user: &[u8], row: &'static Row, args: Args<'_>) -> Vec<u8> {
        let (before, after): (&[u8], &[u8]) = match self.reason {
            Reason::Key => (b"access the '", b"' key"),
            Reason::Channel => (b"access the '", b"' channel"),
            Reason::Database => (b"access database ", b""),
            Reason::Command | Reason::Auth => (b"run the '", b"' command"),
        };
        [b"User ", user, b" has no permissions to ", before, self.object(row, args), after].concat()
    }
}

/// Checks that a user may run this request. `args` begins with the command's name and is as long as the row asks for.
///
/// # Errors
/// The permission that the user lacks.
pub fn check(user: &User, row: &'static Row, args: Args<'_>, databases: Databases) -> Result<(), Denial> {
    if user.is_unrestricted() {
        return Ok(());
    }
    let mut furthest = Denial { reason: Reason::Database, index: 0 };
    for selector in user.selectors() {
        match check_selector(selector, row, args, databases) {
            Ok(()) => return Ok(()),
            Err(denial) if (denial.reason, denial.index) > (furthest.reason, furthest.index) => furthest = denial,
            Err(_) => {}
        }
    }
    Err(furthest)
}

/// Returns whether some selector that allows this request also allows reading all keys: SORT with BY and GET reads keys that
/// no argument names.
pub fn may_access_all_keys(user: &User, row: &'static Row, args: Args<'_>, databases: Databases) -> bool {
    let allows = |selector: &Selector| {
        selector.allows_reading_all_keys() && check_selector(selector, row, args, databases).is_ok()
    };
    user.is_unrestricted() || user.selectors().iter().any(allows)
}

fn check_selector(selector: &Selector, row: &'static Row, args: Args<'_>, databases: Databases) -> Result<(), Denial> {
    if let Some(allowed) = &selector.databases
        && let Some(index) = databases::first_denied(allowed, row, args, databases)
    {
        return Err(Denial { reason: Reason::Database, index });
    }
    let first_argument = args.get(if row.parent.is_some() { 2 } else { 1 });
    if !row.flags.contains(Flags::NO_AUTH) && !selector.commands.allows(row, first_argument) {
        return Err(Denial { reason: Reason::Command, index: 0 });
    }
    if !selector.all_keys && !row.keys.is_empty() {
        check_keys(selector, row, args)?;
    }
    if !selector.all_channels && row.flags.contains(Flags::PUBSUB) {
        check_channels(selector, row, args)?;
    }
    Ok(())
}

fn check_keys(selector: &Selector, row: &'static Row, args: Args<'_>) -> Result<(), Denial> {
    let keys = row.key_uses(args).filter(|(_, flags)| !flags.contains(KeyFlags::NOT_KEY));
    for (index, flags) in keys {
        let key = args.get(index).unwrap_or_default();
        if !selector.allows_key(key, flags) {
            return Err(Denial { reason: Reason::Key, index });
        }
    }
    Ok(())
}

fn check_channels(selector: &Selector, row: &'static Row, args: Args<'_>) -> Result<(), Denial> {
    let (channels, is_pattern) = channels_of(row, args.len());
    for index in channels {
        if !selector.allows_channel(args.get(index).unwrap_or_default(), is_pattern) {
            return Err(Denial { reason: Reason::Channel, index });
        }
    }
    Ok(())
}

/// Returns the arguments of a request that name channels to which it publishes or subscribes, and whether they are patterns.
fn channels_of(row: &'static Row, len: usize) -> (Range<usize>, bool) {
    match row.name {
        "publish" | "spublish" => (1..2, false),
        "subscribe" | "ssubscribe" => (1..len, false),
        "psubscribe" => (1..len, true),
        _ => (0..0, false),
    }
}

#[cfg(test)]
mod tests {
    use sleeve_wire::commands;
    use sleeve_wire::request::OwnedArgs;

    use super::*;
    use crate::acl::rule::Defaults;

    fn answer(rules: &str, request: &str) -> String {
        let mut user = User::new(1, b"u", Defaults::default());
        for rule in rules.split(' ') {
            let rule = rule.replace('_', " ");
            user.apply(rule.as_bytes(), Defaults::default()).expect(&rule);
        }
        let owned = OwnedArgs::collect(request.split(' ').map(str::as_bytes));
        let args = owned.args();
        let row = commands::find(args.arg(0)).expect("a command");
        match check(&user, row, args, Databases { selected: 0, count: 16 }) {
            Ok(()) => "allowed".to_owned(),
            Err(denial) => String::from_utf8_lossy(&denial.full_text(b"u", row, args)).into_owned(),
        }
    }

    #[test]
    fn commands_and_keys_have_to_be_allowed_by_the_same_selector() {
        assert_eq!(answer("+get ~x", "get x"), "allowed");
        assert_eq!(answer("+get ~x", "get y"), "User u has no permissions to access the 'y' key");
        assert_eq!(answer("+get ~x", "set x 1"), "User u has no permissions to run the 'set' command");
        assert_eq!(answer("+get ~x (+set_~y)", "set y 1"), "allowed");
        assert_eq!(answer("+get ~x (+set_~y)", "set x 1"), "User u has no permissions to access the 'x' key");
        assert_eq!(answer("+mget ~x", "mget x y z"), "User u has no permissions to access the 'y' key");
        assert_eq!(answer("+mget ~x (+mget_~y_~x)", "mget x y z"), "User u has no permissions to access the 'z' key");
    }

    #[test]
    fn reading_and_writing_are_allowed_apart() {
        assert_eq!(answer("+@all %R~x", "get x"), "allowed");
        assert_eq!(answer("+@all %R~x", "set x 1"), "User u has no permissions to access the 'x' key");
        assert_eq!(answer("+@all %W~x", "set x 1"), "allowed");
        assert_eq!(answer("+@all %W~x", "set x 1 get"), "User u has no permissions to access the 'x' key");
        assert_eq!(answer("+@all %R~x %W~y", "copy x y"), "allowed");
        assert_eq!(answer("+@all %R~x %W~y", "copy y x"), "User u has no permissions to access the 'y' key");
        assert_eq!(answer("+@all %R~x", "type x"), "allowed");
    }

    #[test]
    fn databases_are_allowed_by_their_numbers() {
        let denied = |what: &str| format!("User u has no permissions to access database {what}");
        assert_eq!(answer("+@all ~* db=0,2", "get x"), "allowed");
        assert_eq!(answer("+@all ~* db=2", "GET x"), denied("GET"));
        for named in ["select 1", "move x 1", "copy x y db 1", "swapdb 0 1", "swapdb 1 0", "COPY x y replace DB 1"] {
            assert_eq!(answer("+@all ~* db=0,2", named), denied("1"), "{named}");
        }
        for allowed in ["select 2", "move x 2", "copy x y db 2", "swapdb 0 2", "select 99", "select x", "swapdb 1 x"] {
            assert_eq!(answer("+@all ~* db=0,2", allowed), "allowed", "{allowed}");
        }
        for (rules, request, object) in [
            ("+@all ~* db=2", "move x 2", "move"),
            ("+@all ~* db=2", "copy x y db 2", "copy"),
            ("+@all ~* db=0,1", "flushall", "flushall"),
            ("+@all ~* db=2", "eval return 0", "eval"),
            ("+@all ~* db=2", "dbsize", "dbsize"),
            ("+@all ~* resetdbs", "scan 0", "scan"),
        ] {
            assert_eq!(answer(rules, request), denied(object), "{request}");
        }
        for request in ["ping", "publish c x", "info", "multi", "script flush", "acl whoami", "spublish c x"] {
            assert_eq!(answer("+@all ~* &* resetdbs", request), "allowed", "{request}");
        }
        assert_eq!(answer("+@all ~* db=1,3 alldbs", "get x"), "allowed");
        // The selector that allows the database and not the command has passed more checks, so its refusal is reported.
        let select = "User u has no permissions to run the 'select' command";
        assert_eq!(answer("+@all ~* db=0 (~*_+get_db=1)", "select 1"), select);
        assert_eq!(answer("+@all ~* db=0 (~*_+get_db=1)", "select 2"), denied("2"));
    }

    #[test]
    fn the_way_in_needs_no_permission() {
        assert_eq!(answer("-@all", "auth u x"), "allowed");
        assert_eq!(answer("+select|0", "select 0"), "allowed");
        assert_eq!(answer("+select|0", "select 1"), "User u has no permissions to run the 'select' command");
    }
}
