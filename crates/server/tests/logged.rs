//! A server with an AOF, on a disk that holds fsyncs back at a gate. Tests use it to choose the time of each fsync.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use sleeve_disk::disk::gated::{Gate, GatedDisk};
use sleeve_disk::disk::memory::MemoryDisk;
use sleeve_server::boot::{self, Server};
use sleeve_server::engine::origin::Origin;
use sleeve_server::{Config, Engine, Opt};
use sleeve_wire::frame::Scanner;

pub(crate) struct Logged {
    pub engine: Arc<Engine>,
    pub gate: GatedDisk,
    server: Server,
}

impl Logged {
    /// Starts a server with these options.
    pub(crate) fn new(options: &[(Opt, &str)]) -> Self {
        let config = Config::default();
        for &(option, value) in [(Opt::Appendonly, "yes")].iter().chain(options) {
            config.assign(option, &[value.as_bytes()]).expect("a value");
        }
        let gate = GatedDisk::gated(Arc::new(MemoryDisk::new()));
        let engine = Engine::begin(config, Origin::of_machine().on(Arc::new(gate.clone())));
        boot::load(&engine).expect("a log begins");
        let server = boot::listen(&engine, "127.0.0.1:0".parse().expect("an address")).expect("a free port");
        Self { engine, gate, server }
    }

    pub(crate) fn open(&self) -> Conversation {
        let stream = TcpStream::connect(self.server.addresses()[0]).expect("listening");
        // Only a failing test waits this long.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        Conversation { stream, received: Vec::new() }
    }

    /// Opens a connection with RESP3 and CLIENT JOURNAL ON.
    pub(crate) fn follow(&self) -> Conversation {
        let mut conversation = self.open();
        conversation.ask("HELLO 3");
        assert_eq!(conversation.ask("CLIENT JOURNAL ON"), "+OK\r\n");
        conversation.frame();
        conversation
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.gate.set(Gate::Open);
        self.engine.persistence.aof.finish(&self.engine);
    }
}

/// A connection that reads its frames, replies and messages, one by one.
pub(crate) struct Conversation {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Conversation {
    pub(crate) fn send(&mut self, text: &str) {
        assert!(self.can_send(text), "the connection was closed");
    }

    /// Sends a text. Returns false if the connection is closed.
    pub(crate) fn can_send(&mut self, text: &str) -> bool {
        self.stream.write_all(format!("{text}\r\n").as_bytes()).is_ok()
    }

    /// Reads until the connection is closed.
    pub(crate) fn until_closed(&mut self) {
        _ = self.stream.read_to_end(&mut self.received);
    }

    /// Returns the next frame, a message or a reply.
    pub(crate) fn frame(&mut self) -> String {
        self.frame_or_end().expect("the connection was closed")
    }

    /// Returns the next frame; None if the connection is closed before it arrives.
    pub(crate) fn frame_or_end(&mut self) -> Option<String> {
        loop {
            if let Some(length) = Scanner::new().scan(&self.received).expect("frames") {
                let rest = self.received.split_off(length);
                let frame = std::mem::replace(&mut self.received, rest);
                return Some(String::from_utf8_lossy(&frame).into_owned());
            }
            let mut room = vec![0; 65_536];
            match self.stream.read(&mut room) {
                Ok(count) if count != 0 => self.received.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing comes: {error}"),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
    }

    /// Returns whether unread bytes have arrived.
    pub(crate) fn is_answered(&mut self) -> bool {
        self.stream.set_nonblocking(true).expect("a socket");
        let is_there = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).expect("a socket");
        is_there || !self.received.is_empty()
    }

    pub(crate) fn ask(&mut self, text: &str) -> String {
        self.send(text);
        self.frame()
    }

    /// Reads the next frame, which has to be a message about the journal, and returns its numbers.
    pub(crate) fn told(&mut self) -> (u64, Option<u64>) {
        numbers(&self.frame())
    }
}

/// Returns the numbers in a message about the journal: the offset up to which the replies show it, and the offset up to which
/// the disk has it.
pub(crate) fn numbers(frame: &str) -> (u64, Option<u64>) {
    let numbers = frame.strip_prefix(">3\r\n$7\r\njournal\r\n:").unwrap_or_else(|| panic!("{frame}"));
    let (shown, synced) = numbers.split_once("\r\n").expect("two");
    let synced = synced.strip_prefix(':').map(|synced| synced.trim().parse().expect("a number"));
    (shown.parse().expect("a number"), synced)
}
