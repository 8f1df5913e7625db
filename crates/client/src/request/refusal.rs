//! Commands that a shared connection cannot carry, and what to use instead.
//!
//! Everyone's commands travel on one connection, so a command that changes the connection's state or answers out of turn
//! would change or confuse everyone. (Those that wait get a connection of their own.) Typed methods never send one; this is the check for `cmd`. Facts
//! about commands are in wire's table; this is the client's own fact about sharing. Pure functions; any thread.

use crate::error::Error;

/// Why the command must not be sent on a connection that others use; `None` when it may.
pub(crate) fn shared(words: &[&[u8]]) -> Option<Error> {
    let upper: Vec<Vec<u8>> = words.iter().take(16).map(|word| word.to_ascii_uppercase()).collect();
    let name = upper.first()?.as_slice();
    let instead = match name {
        b"SELECT" => "use client.db(n)",
        b"MULTI" | b"EXEC" | b"DISCARD" => "use client.transaction()",
        b"WATCH" | b"UNWATCH" => "use client.transaction() with conditions, or client.watch(..)",
        b"AUTH" | b"HELLO" | b"RESET" | b"QUIT" => "say it in the URL or the configuration",
        b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" | b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE"
        | b"MONITOR" | b"SYNC" | b"PSYNC" | b"REPLCONF" => "it needs a connection of its own",
        b"CLIENT" if upper.get(1).is_some_and(|sub| sub == b"REPLY") => {
            "use forget() on the replies that are of no interest"
        }
        b"WAIT" | b"WAITAOF" => "it is about what its own connection has written; use client.lease()",
        _ => return None,
    };
    let name = String::from_utf8_lossy(name).into_owned();
    Some(Error::usage(format!("{name} cannot travel on a connection that others share: {instead}")))
}

/// Why the command must not be sent on a leased connection either.
pub(crate) fn leased(words: &[&[u8]]) -> Option<Error> {
    let own: &[&[u8]] = &[b"WATCH", b"UNWATCH", b"WAIT", b"WAITAOF"];
    let name = words.first()?.to_ascii_uppercase();
    if own.contains(&name.as_slice()) { None } else { shared(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_disturb_others_is_refused() {
        assert!(shared(&[b"select", b"1"]).unwrap().message().contains("client.db(n)"));
        assert!(shared(&[b"client", b"reply", b"off"]).is_some());
        assert!(shared(&[b"wait", b"1", b"0"]).is_some());
        assert!(shared(&[b"GET", b"k"]).is_none());
        assert!(leased(&[b"wait", b"1", b"0"]).is_none());
        assert!(leased(&[b"subscribe", b"k"]).is_some());
    }
}
