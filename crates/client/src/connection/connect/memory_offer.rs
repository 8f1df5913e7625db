//! The request to a server, over its Unix socket, for shared memory through which the connection goes on.
//!
//! It is the last request of the greeting. The reply comes with a descriptor, or it is an error, from a server that knows no
//! such command or refuses it; then the connection goes on as it is. On the reactor's thread, as all connecting code.

use std::io;

use super::attempt::Attempt;
use super::rings::Rings;
use super::socket::Socket;
use crate::reactor::task_context::TaskContext;

const QUESTION: &[u8] = b"*2\r\n$6\r\nCLIENT\r\n$5\r\nRINGS\r\n";

/// The largest length of the reply, in bytes.
const REPLY_LENGTH_MAX: usize = 1024;

/// Continues through shared memory if the server hands some out.
///
/// # Errors
/// The connection cannot be used any more: it broke, the server did not answer in time, or its reply is no answer.
pub(super) async fn share_memory(
    socket: Socket,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> io::Result<Socket> {
    let watch = context.watch(&socket)?;
    if socket.send(QUESTION)? < QUESTION.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut reply = Vec::new();
    loop {
        let mut room = [0; 64];
        match Rings::receive_reply(&socket, &mut room) {
            Ok((_, Some(rings))) => {
                drop(watch);
                return Ok(socket.with(rings));
            }
            Ok((0, None)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, None)) => reply.extend_from_slice(room.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                watch.arm(false)?;
                attempt.wait(context).await?;
            }
            Err(error) => return Err(error),
        }
        if reply.starts_with(b"-") && reply.ends_with(b"\r\n") {
            drop(watch);
            return Ok(socket);
        }
        if reply.len() > REPLY_LENGTH_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "CLIENT RINGS was answered by something else"));
        }
    }
}
