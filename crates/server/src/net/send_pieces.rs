//! Sending an output piece by piece, on the calling thread.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, SendAncillaryBuffer, SendFlags};

use super::event::Sending;
use crate::request::output::Output;

/// Sends until all bytes have been sent or the kernel takes no more.
#[inline]
pub fn send_pieces(socket: &OwnedFd, output: &mut Output) -> Sending {
    while !output.is_empty() {
        let sent = match output.plain() {
            Some(bytes) => net::send(socket, bytes, SendFlags::NOSIGNAL),
            None => net::sendmsg(socket, &output.pieces(), &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL),
        };
        match sent {
            Ok(count) => output.advance(count),
            Err(Errno::AGAIN) => return Sending::Waiting(output.len()),
            Err(Errno::INTR) => {}
            Err(_) => return Sending::Broken,
        }
    }
    Sending::Done
}
