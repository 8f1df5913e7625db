//! Messages to systemd about the state of the server, as a service of type `notify` sends them.
//!
//! A message is a datagram to the socket that the environment names (sd_notify(3)); nothing is read back. If a message cannot
//! be sent, the server log has the reason, and the server continues. The messages are sent by the thread that starts the
//! server.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::config::{Config, Opt, value};
use crate::host::log;

/// The values of the option `supervised`, as positions in its list of words.
const NO: i64 = 0;
const AUTO: i64 = 2;

/// The message that the server serves clients from now on.
pub const READY: &str = "STATUS=Ready to accept connections\nREADY=1\n";
/// The message that the server is ending.
pub const STOPPING: &str = "STOPPING=1\n";

/// Returns whether a supervisor waits for this process: the option allows one, and the environment names its socket.
pub fn is_supervised(config: &Config) -> bool {
    config.number(Opt::Supervised) != NO && env::var_os("NOTIFY_SOCKET").is_some()
}

/// Sends a message to the supervisor, if the configuration and the environment state one.
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
    // A leading @ stands for a zero byte: the name is not in a file system.
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}
