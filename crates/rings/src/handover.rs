//! The handover of the memory from the server to the client over their Unix socket: a descriptor beside the bytes of a reply.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

/// Sends bytes, and with the first of them a descriptor.
///
/// # Errors
/// If the kernel does not take all of them at once, or the peer has gone.
pub fn send(socket: impl AsFd, bytes: &[u8], file: &OwnedFd) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    let files = [file.as_fd()];
    let is_pushed = ancillary.push(SendAncillaryMessage::ScmRights(&files));
    debug_assert!(is_pushed, "there is room for one");
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let count = rustix::io::retry_on_intr(|| sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, flags))?;
    if count < bytes.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(())
}

/// Receives the bytes that have arrived, and a descriptor if one came with them. Returns 0 bytes when the peer has closed.
///
/// # Errors
/// If nothing has arrived, or the connection is broken.
pub fn receive(socket: impl AsFd, room: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    // If the peer sends more than one descriptor, the kernel closes the others, so that none leaks into this process.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message =
        rustix::io::retry_on_intr(|| recvmsg(&socket, &mut [IoSliceMut::new(&mut *room)], &mut ancillary, flags))?;
    let mut file = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            file = files.into_iter().next().or(file);
        }
    }
    Ok((message.bytes, file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::memory::Memory;
    use crate::side::{Role, ends};

    #[test]
    #[cfg_attr(miri, ignore = "needs sockets")]
    fn memory_goes_over_a_socket_with_the_reply() {
        let (server, client) = UnixStream::pair().expect("a pair");
        let (memory, file) = Memory::create(4096).expect("memory");
        send(&server, b"+OK\r\n", &file).expect("there is room");
        let mut room = [0; 64];
        let (count, file) = receive(&client, &mut room).expect("it is there");
        assert_eq!(&room[..count], b"+OK\r\n");
        let (mut to_client, _) = ends(memory, Role::Server);
        let (_, mut from_server) = ends(Memory::open(&file.expect("a descriptor")).expect("memory"), Role::Client);
        assert_eq!(to_client.write(b"hello"), Ok(5));
        assert_eq!(from_server.read(&mut room), Ok(5));
        assert_eq!(&room[..5], b"hello");
        let nothing = receive(&client, &mut room).expect_err("nothing has come");
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(server);
        assert!(matches!(receive(&client, &mut room), Ok((0, None))));
    }
}
