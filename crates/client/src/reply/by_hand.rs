//! A pipe without a connection, with bytes that the caller moves: for instruction counts, and for tests.
//!
//! It is no part of the client's public interface: its callers are in this workspace. One thread owns it.

use std::sync::{Arc, Weak};

use sleeve_wire::frame::Frame;

use crate::config::ErrorHook;
use crate::error::Error;
use crate::pipe::Pipe;
use crate::pipe::reply_reader::ReplyReader;
use crate::pipe::slot::{Completions, Driver, Flush, Handle, Source, Waiter};
use crate::resp::request::EncodedRequest;
use crate::resp::request::name::Name;

/// A driver without a connection: the caller moves the bytes.
struct Nobody;

impl Driver for Nobody {
    fn flush(&self, _waiter: Waiter) -> Flush {
        Flush::Done
    }

    fn error_hook(&self) -> Option<ErrorHook> {
        None
    }
}

/// Returns a driver that does nothing when it is asked to write.
pub(crate) fn driver() -> Arc<dyn Driver> {
    Arc::new(Nobody)
}

/// Returns a driver that is gone.
pub(crate) fn nobody() -> Weak<dyn Driver> {
    Arc::downgrade(&driver())
}

/// A pipe, its reader, and the calls that wait for replies.
#[doc(hidden)]
pub struct PipeByHand {
    pipe: Pipe,
    reader: ReplyReader,
    done: Completions,
    handles: Vec<Handle>,
}

impl Default for PipeByHand {
    fn default() -> Self {
        let mut pipe = Pipe::new(0, Source::new(nobody()));
        pipe.connect();
        Self { pipe, reader: ReplyReader::default(), done: Completions::default(), handles: Vec::new() }
    }
}

impl PipeByHand {
    /// Gathers one request.
    pub fn push(&mut self, request: &[u8]) {
        self.handles.push(self.pipe.push(0, EncodedRequest { bytes: request, name: Name::UNKNOWN }, 0));
    }

    /// Sends all gathered requests, and returns their number of bytes.
    pub fn send(&mut self) -> usize {
        let mut sent = 0;
        while let Some((bytes, written)) = self.pipe.lend() {
            let count = bytes.len() - written;
            sent += count;
            self.pipe.wrote(bytes, count);
        }
        sent
    }

    /// Takes in bytes of replies and completes the calls that they answer.
    ///
    /// # Errors
    /// The bytes are no replies, or there is no call for them.
    pub fn answer(&mut self, mut replies: &[u8]) -> Result<(), Error> {
        while !replies.is_empty() {
            let room = self.reader.room();
            let (now, later) = replies.split_at(room.len().min(replies.len()));
            room[..now.len()].copy_from_slice(now);
            replies = later;
            let whole = self.reader.filled(now.len())?;
            if !self.pipe.take(whole, &mut self.reader.pending) {
                return Err(Error::protocol("nobody has asked"));
            }
            self.reader.deliver(&mut self.done)?;
            self.done.finish();
        }
        Ok(())
    }

    /// Takes the replies that have arrived, in order, and returns the number of bytes of their texts.
    pub fn take(&mut self) -> usize {
        let answered = self.handles.iter().take_while(|handle| handle.is_done()).count();
        let taken = self.handles.drain(..answered).filter_map(|handle| handle.take().ok());
        taken
            .map(
                |payload| {
                    if let Ok(Frame::Bulk(text) | Frame::Simple(text)) = payload.frame() { text.len() } else { 0 }
                },
            )
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::PipeByHand;

    #[test]
    fn pushed_requests_are_answered_in_order_and_taken_once() {
        let mut pipe = PipeByHand::default();
        pipe.push(b"*1\r\n$1\r\nA\r\n");
        pipe.push(b"*1\r\n$1\r\nB\r\n");
        assert_eq!((pipe.take(), pipe.send(), pipe.send()), (0, 22, 0));
        pipe.answer(b"$3\r\nabc\r\n+O").expect("they are replies");
        assert_eq!((pipe.take(), pipe.take()), (3, 0));
        pipe.answer(b"K\r\n").expect("they are replies");
        assert_eq!(pipe.take(), 2);
        assert!(pipe.answer(b"+OK\r\n").is_err(), "nobody has asked");
    }
}
