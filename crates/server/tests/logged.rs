//! An engine with a log on a disk whose syncs wait at a gate, served at a port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sleeve_disk::disk::gated::GatedDisk;
use sleeve_disk::disk::real::RealDisk;
use sleeve_disk::log::{Folder, Options};
use sleeve_server::boot::Server;
use sleeve_server::config::table::find;
use sleeve_server::{Config, Engine};
use sleeve_wire::frame::Scanner;

pub(crate) struct Logged {
    pub engine: Arc<Engine>,
    pub gate: GatedDisk,
    server: Server,
    folder: PathBuf,
}

impl Logged {
    /// One with these options.
    pub(crate) fn new(options: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sleeve-logged-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let config = Config::default();
        let own = [("dir", folder.to_str().expect("a name")), ("appendonly", "yes")];
        for (name, value) in own.iter().chain(options) {
            let (row, _) = find(name.as_bytes()).expect("an option");
            config.assign(row.option, &[value.as_bytes()]).expect("a value");
        }
        let engine = Engine::new(config);
        let gate = GatedDisk::new(Arc::new(RealDisk));
        let name = "appendonly.aof".to_owned();
        let options = Options { folder: engine.log_folder(), name, checksums: true, timestamps: false, salt: 1 };
        let log = Folder::open(Arc::new(gate.clone()), options, std::process::id()).expect("an empty folder");
        engine.write_first_base(log.wait(0).expect("a log")).expect("a base");
        let server = engine.listen("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        Self { engine, gate, server, folder }
    }

    pub(crate) fn open(&self) -> Conversation {
        let stream = TcpStream::connect(self.server.addresses()[0]).expect("listening");
        // Only a test that fails waits for so long.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
        Conversation { stream, received: Vec::new() }
    }

    /// As `open`, speaking RESP3 and following the journal.
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
        self.gate.set(sleeve_disk::disk::gated::Gate::Open);
        self.engine.end_log();
        std::fs::remove_dir_all(&self.folder).expect("it was there");
    }
}

/// A connection whose frames are read one by one.
pub(crate) struct Conversation {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Conversation {
    pub(crate) fn send(&mut self, text: &str) {
        self.stream.write_all(format!("{text}\r\n").as_bytes()).expect("connected");
    }

    /// The next frame, a message or a reply.
    pub(crate) fn frame(&mut self) -> String {
        loop {
            if let Some(length) = Scanner::new().scan(&self.received).expect("frames") {
                let rest = self.received.split_off(length);
                let frame = std::mem::replace(&mut self.received, rest);
                return String::from_utf8_lossy(&frame).into_owned();
            }
            let mut room = vec![0; 65_536];
            let count = self.stream.read(&mut room).expect("a frame");
            assert_ne!(count, 0, "the connection was closed");
            self.received.extend_from_slice(&room[..count]);
        }
    }

    pub(crate) fn ask(&mut self, text: &str) -> String {
        self.send(text);
        self.frame()
    }

    /// What a message about the journal says, which has to come next.
    pub(crate) fn told(&mut self) -> (u64, Option<u64>) {
        numbers(&self.frame())
    }
}

/// What a message about the journal says: how much the replies show, and how much of it the disk has.
pub(crate) fn numbers(frame: &str) -> (u64, Option<u64>) {
    let numbers = frame.strip_prefix(">3\r\n$7\r\njournal\r\n:").unwrap_or_else(|| panic!("{frame}"));
    let (shown, synced) = numbers.split_once("\r\n").expect("two");
    let synced = synced.strip_prefix(':').map(|synced| synced.trim().parse().expect("a number"));
    (shown.parse().expect("a number"), synced)
}
