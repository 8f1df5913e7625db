//! Permissions: users, their rules, and the record of refusals.
//!
//! `commands` is the set of commands that a list of rules allows. `selector` is such a set with the keys, channels and
//! databases that go with it. `user` is a name with passwords and selectors. Each of the three is changed by one rule at a
//! time and printed as rules again. `denial` decides whether a user may run a request, and gives the reason if not;
//! `databases` finds the databases that a request touches. `users` keeps all users of an engine, `file` reads and writes them
//! as text, `log` records refusals. `rule` reads the words of one rule.
//!
//! Rules and texts are those of Redis 7.0, those about databases of Valkey 9.1; the entries of ACL LOG have the fields of
//! 7.2. A user is never changed in place: a new one replaces it, and the epoch of [`Acl`] tells sessions to look the user up
//! again. This module knows no session, no option and no clock; its callers pass the values that it needs. This file only
//! names the others. Any thread.

mod commands;
mod databases;
mod denial;
mod file;
mod log;
mod rule;
mod selector;
mod user;
mod users;

pub use databases::Databases;
pub use denial::{Denial, Reason, check, may_access_all_keys};
pub use file::save;
pub use log::{Context, Entry};
pub use rule::Defaults;
pub use selector::Selector;
pub use user::User;
pub use users::{Acl, Changed, check_line, has_space};
