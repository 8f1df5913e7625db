//! Taking in what has come on a socket: for the connection's task, and for a caller that reads for itself.
//!
//! One reader at a time holds the intake's lock, and only while it reads what is there; wake-ups happen after it is released.

use std::io;

use super::Link;
use crate::connect::socket::Socket;
use crate::error::Error;
use crate::pipe::reply_reader::{Intake, Resumption};
use crate::pipe::slot::Completions;

/// Reads in a row before gathered requests are looked after again.
const READS_MAX: usize = 8;

/// Why a connection is over.
pub(crate) enum Cause {
    /// The client is gone and has its answers.
    Closed,
    /// The stream ended, or what came on it cannot be believed.
    Broken(String),
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// What was read.
pub(crate) struct Taken {
    pub(crate) replies: usize,
    /// There may be more.
    pub(crate) is_more: bool,
}

/// Reads what has come and answers who asked. A stream that has hung up is read to its end: that is not reported again.
pub(crate) fn read(link: &Link, socket: &Socket, hung_up: bool, done: &mut Completions) -> Result<Taken, Cause> {
    let mut total = 0;
    for _ in 0..READS_MAX {
        let mut intake = link.intake.lock();
        let room = intake.room();
        let room_length = room.len();
        let count = match socket.receive(room) {
            Ok(0) => return Err(Cause::Broken("the server closed it".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Taken { replies: total, is_more: false });
            }
            Err(error) => return Err(error.into()),
        };
        let broken = |error: Error| Cause::Broken(error.to_string());
        let replies = intake.filled(count).map_err(broken)?;
        if !take(link, &mut intake, replies) {
            return Err(Cause::Broken("the server sent a reply that nobody asked for".to_owned()));
        }
        total += replies;
        let resumption = intake.deliver(done).map_err(broken)?;
        drop(intake);
        if let Some(next) = resumption {
            resume(link, next);
        }
        link.finish(done);
        if count < room_length && !hung_up {
            return Ok(Taken { replies: total, is_more: false });
        }
    }
    Ok(Taken { replies: total, is_more: true })
}

/// Takes the entries that these replies belong to out of the pipe.
fn take(link: &Link, intake: &mut Intake, replies: usize) -> bool {
    let mut shared = link.shared.lock();
    shared.in_company = replies > 1;
    let enough = shared.pipe.take(replies, &mut intake.pending, &mut intake.expected);
    link.made_room(&shared);
    enough
}

/// Sends what must be sent because of a reply.
fn resume(link: &Link, next: Resumption) {
    let mut shared = link.shared.lock();
    shared.pipe.resume(next.asker, next.frames, next.database, next.request, link.now_ms());
    if !shared.is_full() {
        drop(link.write(shared));
    }
}
