//! Commands about connections, one line each.
//!
//! HELLO, AUTH, SELECT, RESET and QUIT are missing on purpose: on a connection that others share they are the client's own
//! business (its URL, its configuration, `db`, `close`).

use crate::resp::options::{ClientFilter, ClientType, PauseMode, Switch, Unblock};
use crate::resp::request::{ToArg, ToArgs};

super::commands! {
    /// Commands about this connection and others.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// use sleeve::{Client, prelude::*};
    ///
    /// let client = Client::embedded();
    /// assert_eq!(client.ping().wait()?, "PONG");
    /// assert_eq!(client.echo::<String>("hello").wait()?, "hello");
    /// # }
    /// # Ok::<(), sleeve::Error>(())
    /// ```
    ConnectionCommands {
        /// Returns the connection's name; nil if it has none.
        client_getname() -> Option<String> = ["CLIENT", "GETNAME"];
        /// Returns the help of CLIENT, in lines.
        client_help() -> Vec<String> = ["CLIENT", "HELP"];
        /// Returns the connection's id.
        client_id() -> u64 = ["CLIENT", "ID"];
        /// Returns the server's facts about the connection, on one line.
        client_info() -> String = ["CLIENT", "INFO"];
        /// Ends the connections that match the filter; returns their number.
        client_kill(filter: ClientFilter) -> u64 = ["CLIENT", "KILL", filter];
        /// Ends the connection from this address, `ip:port`.
        client_kill_address(address: impl ToArg) -> () = ["CLIENT", "KILL", address];
        /// Returns the server's facts about all connections, a line each.
        client_list() -> String = ["CLIENT", "LIST"];
        /// Returns the server's facts about the connections with these ids.
        client_list_ids(ids: impl ToArgs) -> String = ["CLIENT", "LIST", "ID", ids];
        /// Returns the server's facts about the connections of one kind.
        client_list_type(kind: ClientType) -> String = ["CLIENT", "LIST", "TYPE", kind];
        /// Sets whether the connection is exempt from eviction when memory for connections is short.
        client_no_evict(switch: Switch) -> () = ["CLIENT", "NO-EVICT", switch];
        /// Sets whether commands leave the keys' time of last use unchanged.
        client_no_touch(switch: Switch) -> () = ["CLIENT", "NO-TOUCH", switch];
        /// Holds up commands for this many milliseconds.
        client_pause(milliseconds: u64, mode: PauseMode) -> () = ["CLIENT", "PAUSE", milliseconds, mode];
        /// Tells the server about the library (`LIB-NAME`, `LIB-VER`).
        client_setinfo(attribute: impl ToArg, value: impl ToArg) -> () = ["CLIENT", "SETINFO", attribute, value];
        /// Names the connection. The name is lost when the connection is made again; a name in the URL is not.
        client_setname(name: impl ToArg) -> () = ["CLIENT", "SETNAME", name];
        /// Unblocks a connection on which a command waits; returns whether it did.
        client_unblock(id: u64, how: Unblock) -> bool = ["CLIENT", "UNBLOCK", id, how];
        /// Ends a pause.
        client_unpause() -> () = ["CLIENT", "UNPAUSE"];
        /// Returns the message itself.
        echo<T>(message: impl ToArg) -> T = ["ECHO", message];
        /// Returns `PONG`, after one round trip.
        ping() -> String = ["PING"];
        /// Sends PING with a message, and returns the message itself.
        ping_with<T>(message: impl ToArg) -> T = ["PING", message];
    }
}
