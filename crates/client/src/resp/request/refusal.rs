//! Commands that a shared connection cannot carry, and their replacements.
//!
//! All callers' commands travel on one connection, so a command that changes the connection's state or answers out of turn
//! would change or confuse every call. (Blocking commands get a connection of their own.) Typed methods never send one; this
//! is the check for `cmd`. The command table says which commands these are; the replacements are this client's. Pure
//! functions; any thread.

use sleeve_wire::commands::{OwnConnection, Row};

use super::name::Name;
use crate::error::Error;

/// Returns the reason why the command must not be sent on a connection that others use; `None` if it may be sent.
pub(crate) fn shared(row: Option<&'static Row>) -> Option<Error> {
    let row = row?;
    let instead = match row.sharing.connection? {
        OwnConnection::Database => "use client.db(n)",
        OwnConnection::Transaction => "use client.transaction()",
        OwnConnection::Watch => "use client.transaction() with conditions, or client.watch(..)",
        OwnConnection::Greeting => "say it in the URL or the configuration",
        OwnConnection::Messages => instead_of_messages(row),
        OwnConnection::Journal => "use reply.synced() or reply.replicated(n)",
        OwnConnection::Tracking => "use client.cached()",
        OwnConnection::Silence => "use forget() on the replies that are of no interest",
        OwnConnection::Written => "it is about what its own connection has written; use client.lease()",
    };
    let name = Name::of_row(row);
    Some(Error::usage(format!("{name} cannot travel on a connection that others share: {instead}")))
}

/// Returns the replacement of a command after which the server sends messages that answer no request.
fn instead_of_messages(row: &Row) -> &'static str {
    match row.full_name {
        "subscribe" => "use client.subscribe(..) or client.subscribe_async(..), which have a connection of their own",
        "psubscribe" => {
            "use client.psubscribe(..) or client.psubscribe_async(..), which have a connection of their own"
        }
        "ssubscribe" => {
            "use client.ssubscribe(..) or client.ssubscribe_async(..), which have a connection of their own"
        }
        "unsubscribe" => "use subscription.unsubscribe(..)",
        "punsubscribe" => "use subscription.punsubscribe(..)",
        "sunsubscribe" => "use subscription.sunsubscribe(..)",
        "monitor" => "no method of the client replaces it; use it in sleeve cli or redis-cli",
        _ => "it is a command of replicas, which have a connection of their own",
    }
}

/// Returns the reason why the command must not be sent on a leased connection either.
pub(crate) fn leased(row: Option<&'static Row>) -> Option<Error> {
    match row?.sharing.connection? {
        OwnConnection::Watch | OwnConnection::Written => None,
        _ => shared(row),
    }
}

#[cfg(test)]
mod tests {
    use sleeve_wire::commands::all;

    use super::*;

    fn rows(words: &str) -> Vec<Option<&'static Row>> {
        words.split(' ').map(|name| Name::of(&name.split('|').collect::<Vec<_>>()).row()).collect()
    }

    #[test]
    fn only_commands_that_disturb_other_callers_are_refused() {
        for (names, instead) in [
            ("select", "client.db(n)"),
            ("multi exec discard", "client.transaction()"),
            ("watch unwatch", "client.watch(..)"),
            ("auth hello reset quit client|capa", "the URL"),
            ("subscribe", "client.subscribe(..)"),
            ("psubscribe", "client.psubscribe_async(..)"),
            ("ssubscribe", "client.ssubscribe(..)"),
            ("unsubscribe", "subscription.unsubscribe(..)"),
            ("punsubscribe", "subscription.punsubscribe(..)"),
            ("sunsubscribe", "subscription.sunsubscribe(..)"),
            ("monitor", "redis-cli"),
            ("sync psync replconf", "of replicas"),
            ("client|reply", "forget()"),
            ("client|tracking client|caching", "client.cached()"),
            ("client|journal", "reply.synced()"),
            ("wait waitaof", "client.lease()"),
        ] {
            for row in rows(names) {
                let error = shared(row).expect("it is refused");
                assert!(error.message().contains(instead), "{error}");
            }
        }
        assert_eq!(all().iter().filter(|row| shared(Some(row)).is_some()).count(), 27);
        assert!(shared(None).is_none());
        let message = shared(Name::of(&["Client", "Reply"]).row()).map(|error| error.message().to_owned());
        assert!(message.is_some_and(|message| message.starts_with("CLIENT REPLY cannot travel")));
    }

    #[test]
    fn a_lease_takes_commands_about_its_own_connection() {
        let leases_only = |row: &&Row| shared(Some(row.id.row())).is_some() && leased(Some(row.id.row())).is_none();
        let names: Vec<&str> = all().iter().filter(leases_only).map(|row| row.full_name).collect();
        assert_eq!(names, ["unwatch", "watch", "wait", "waitaof"]);
    }
}
