//! A link of the bus: a socket with the bytes on their way in and out, plain or under TLS.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
use sleeve_cluster::action::Priority;

use super::dial;
use super::inbox::Inbox;
use super::send_queue::SendQueue;
use crate::engine::cluster::link_gauges::LinkQueue;
use crate::net::tls::Channel;

/// The most bytes that one link receives before others have their turn.
const TURN_BYTES: usize = 256 << 10;

/// The most bytes of packets that are made ready for the socket at once. A control packet waits for no more of a message.
const READY_BYTES: usize = 64 << 10;

/// The progress of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The connection is being established.
    Connecting,
    /// The two ends exchange keys.
    Sealing,
    /// Packets are exchanged.
    Up,
}

/// A link.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    stage: Stage,
    channel: Option<Box<Channel>>,
    /// The bytes that have arrived.
    pub inbox: Inbox,
    /// The packets that wait to be sent.
    pub queue: SendQueue,
    /// The bytes that are ready for the socket, and the number of them that have left.
    ready: (Vec<u8>, usize),
    /// The poller reports when the socket can be written to.
    is_watched: bool,
    /// The bytes that wait, as they were reported last.
    gauge: LinkQueue,
    /// When the link was opened or accepted, in monotonic milliseconds.
    pub opened_ms: u64,
}

impl Link {
    /// Makes a link of a socket that is connected or, if `stage` says so, being connected. It is under TLS if there is a
    /// channel.
    pub fn new(socket: OwnedFd, stage: Stage, channel: Option<Box<Channel>>, opened_ms: u64) -> Self {
        Self {
            socket,
            stage,
            channel,
            inbox: Inbox::default(),
            queue: SendQueue::default(),
            ready: (Vec::new(), 0),
            is_watched: stage == Stage::Connecting,
            gauge: LinkQueue::default(),
            opened_ms,
        }
    }

    /// Returns the progress.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Notes that the socket of a link that is being connected can be written to.
    ///
    /// # Errors
    /// The reason why the link is not established.
    pub fn connected(&mut self) -> io::Result<()> {
        dial::finish(&self.socket)?;
        self.stage = if self.channel.is_some() { Stage::Sealing } else { Stage::Up };
        self.advance()
    }

    /// Receives the bytes that have arrived, at most those of one turn, and puts them into the inbox.
    ///
    /// # Errors
    /// The link has ended, or is broken.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut left = TURN_BYTES;
        while left > 0 {
            let received = match net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let bytes = buffer.get(..received).unwrap_or_default();
            match &mut self.channel {
                None => self.inbox.add(bytes),
                Some(channel) => self.inbox.add(channel.open(bytes)?),
            }
            if received < buffer.len() {
                break;
            }
            left = left.saturating_sub(received);
        }
        let has_ended = self.channel.as_ref().is_some_and(|channel| channel.has_ended());
        if has_ended { Err(io::ErrorKind::UnexpectedEof.into()) } else { self.advance() }
    }

    /// Puts a packet into the queue. Returns false if the link is of no use any more, because its peer takes nothing.
    pub fn put(&mut self, packet: Arc<[u8]>, priority: Priority) -> bool {
        self.queue.put(packet, priority)
    }

    /// Goes on with the exchange of keys, if that is under way.
    fn advance(&mut self) -> io::Result<()> {
        if self.stage == Stage::Sealing
            && let Some(channel) = &mut self.channel
        {
            channel.seal([], &mut self.ready.0);
            if !channel.is_handshaking() {
                self.stage = Stage::Up;
            }
        }
        Ok(())
    }

    /// Sends as much as the socket takes. Returns whether bytes are left that wait for the socket.
    ///
    /// # Errors
    /// The link is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        if self.stage == Stage::Connecting {
            return Ok(true);
        }
        loop {
            self.prepare();
            let (bytes, sent) = &mut self.ready;
            if *sent == bytes.len() {
                bytes.clear();
                bytes.shrink_to(READY_BYTES);
                *sent = 0;
                return Ok(false);
            }
            match net::send(&self.socket, bytes.get(*sent..).unwrap_or_default(), SendFlags::NOSIGNAL) {
                Ok(count) => *sent += count,
                Err(Errno::AGAIN) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes packets ready for the socket, if no bytes are left.
    fn prepare(&mut self) {
        let (bytes, sent) = &mut self.ready;
        if *sent < bytes.len() || self.stage != Stage::Up {
            return;
        }
        bytes.clear();
        *sent = 0;
        match &mut self.channel {
            None => self.queue.take(READY_BYTES, bytes),
            Some(channel) => {
                let mut plain = Vec::new();
                self.queue.take(READY_BYTES, &mut plain);
                channel.seal([plain.as_slice()], bytes);
            }
        }
    }

    /// Sets whether the poller reports that the socket can be written to. Returns false if it does so already.
    pub fn set_watched(&mut self, is_watched: bool) -> bool {
        std::mem::replace(&mut self.is_watched, is_watched) != is_watched
    }

    /// Returns the bytes that wait, if they have changed since the last call.
    pub fn changed_gauge(&mut self) -> Option<LinkQueue> {
        let unsent = self.ready.0.len() - self.ready.1;
        let gauge = LinkQueue {
            used_bytes: (self.queue.bytes() + unsent) as u64,
            allocated_bytes: (self.queue.bytes() + self.ready.0.capacity()) as u64,
        };
        let is_new = std::mem::replace(&mut self.gauge, gauge) != gauge;
        is_new.then_some(gauge)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
