//! Telling systemd how far the server is, as a service of type `notify` does.
//!
//! The message is a datagram to the socket that the environment names (sd_notify(3)); nothing is read back. A supervisor
//! that cannot be told is logged, and the server serves all the same. Called by the thread that starts the server.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::config::{Config, Opt, value};
use crate::host::log;

/// The positions of the option's words.
const NO: i64 = 0;
const AUTO: i64 = 2;

/// Clients are served from now on.
pub const READY: &str = "STATUS=Ready to accept connections\nREADY=1\n";
/// The server is ending.
pub const STOPPING: &str = "STOPPING=1\n";

/// Tells the supervisor, if there is to be one.
pub fn tell(config: &Config, message: &str) {
    let (mode, socket) = (config.number(Opt::Supervised), env::var_os("NOTIFY_SOCKET"));
    match socket {
        _ if mode == NO => {}
        Some(socket) => {
            if let Err(error) = send(&socket, message) {
                log::warning(&format!("systemd cannot be told: {}", value::reason(&error)));
            }
        }
        None if mode == AUTO || message == STOPPING => {}
        None => log::warning("systemd supervision requested, but NOTIFY_SOCKET is not set"),
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    // A leading @ stands for the zero of a name that is in no file system.
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}
