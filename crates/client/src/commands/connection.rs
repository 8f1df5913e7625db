//! Commands about connections, one line each.
//!
//! HELLO, AUTH, SELECT, RESET and QUIT are missing on purpose: on a connection that others share they are the client's own
//! business (its URL, its configuration, `db`, `close`).

use crate::request::{ToArg, ToArgs};
use crate::values::options::{ClientFilter, ClientType, PauseMode, Switch, Unblock};

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
        /// The name that was given to the connection, nil without one.
        client_getname() -> Option<String> = ["CLIENT", "GETNAME"];
        /// Returns the help of CLIENT, in lines.
        client_help() -> Vec<String> = ["CLIENT", "HELP"];
        /// The connection's number.
        client_id() -> u64 = ["CLIENT", "ID"];
        /// Returns the server's facts about the connection, on one line.
        client_info() -> String = ["CLIENT", "INFO"];
        /// Ends the connections that the filter means; answers how many.
        client_kill(filter: ClientFilter) -> u64 = ["CLIENT", "KILL", filter];
        /// Ends the connection from this address, `ip:port`.
        client_kill_address(address: impl ToArg) -> () = ["CLIENT", "KILL", address];
        /// Returns the server's facts about all connections, a line each.
        client_list() -> String = ["CLIENT", "LIST"];
        /// Returns the server's facts about the connections with these numbers.
        client_list_ids(ids: impl ToArgs) -> String = ["CLIENT", "LIST", "ID", ids];
        /// Returns the server's facts about the connections of one kind.
        client_list_type(kind: ClientType) -> String = ["CLIENT", "LIST", "TYPE", kind];
        /// Whether the connection is spared when memory for connections is short.
        client_no_evict(switch: Switch) -> () = ["CLIENT", "NO-EVICT", switch];
        /// Whether commands leave the keys' time of last use alone.
        client_no_touch(switch: Switch) -> () = ["CLIENT", "NO-TOUCH", switch];
        /// Holds up commands for this many milliseconds.
        client_pause(milliseconds: u64, mode: PauseMode) -> () = ["CLIENT", "PAUSE", milliseconds, mode];
        /// Tells the server about the library (`LIB-NAME`, `LIB-VER`).
        client_setinfo(attribute: impl ToArg, value: impl ToArg) -> () = ["CLIENT", "SETINFO", attribute, value];
        /// Names the connection. It is forgotten when the connection is made again: a name in the URL is not.
        client_setname(name: impl ToArg) -> () = ["CLIENT", "SETNAME", name];
        /// Ends the wait of a connection that a command blocks; answers whether it did.
        client_unblock(id: u64, how: Unblock) -> bool = ["CLIENT", "UNBLOCK", id, how];
        /// Ends a pause.
        client_unpause() -> () = ["CLIENT", "UNPAUSE"];
        /// Answers the message itself.
        echo<T>(message: impl ToArg) -> T = ["ECHO", message];
        /// Waits for nothing but the way there and back; answers `PONG`.
        ping() -> String = ["PING"];
        /// As `ping`, but answers the message itself.
        ping_with<T>(message: impl ToArg) -> T = ["PING", message];
    }
}
