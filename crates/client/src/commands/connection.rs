//! Commands about the connection, one line each.

use crate::argument::ToArg;

super::commands! {
    /// Commands about the connection and the server at its other end.
    ConnectionCommands {
        /// Waits for nothing but the way there and back; answers `PONG`.
        ping() -> String = ["PING"];
        /// Answers what it is given.
        echo<T>(message: impl ToArg) -> T = ["ECHO", message];
    }
}
