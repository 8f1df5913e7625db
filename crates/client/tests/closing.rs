//! The end of an embedded engine with a folder: after its last handle was dropped, all writes that were answered are on disk.
#![cfg(feature = "embedded")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use sleeve::Client;
use sleeve::prelude::*;

/// A folder of the test's own, which is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("sleeve-closing-{name}-{}", std::process::id())))
    }

    /// Returns the files that are being written.
    fn unfinished(&self) -> Vec<String> {
        let entries =
            std::fs::read_dir(&self.0).unwrap().chain(std::fs::read_dir(self.0.join("appendonlydir")).unwrap());
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("temp-")).collect()
    }

    fn open(&self, query: &str) -> Client {
        Client::connect(&format!("embedded://{}{query}", self.0.display())).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Acts as a client of the engine's listener, which increments a counter until it is disconnected. Returns the last count
/// that it got.
fn count_until_the_end(address: SocketAddr) -> JoinHandle<i64> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut count_once = move || {
        stream.write_all(b"INCR counter\r\n").ok()?;
        let mut reply = Vec::new();
        while !reply.ends_with(b"\r\n") {
            let mut byte = [0];
            reply.push((stream.read(&mut byte).ok()? == 1).then_some(byte[0])?);
        }
        std::str::from_utf8(&reply).ok()?.trim().strip_prefix(':')?.parse().ok()
    };
    count_once().unwrap();
    std::thread::spawn(move || std::iter::from_fn(count_once).last().unwrap_or(1))
}

#[test]
fn writes_acknowledged_by_the_listener_outlive_the_last_handle() {
    for policy in ["always", "everysec"] {
        let folder = Folder::new(policy);
        for round in 0..20 {
            let client = folder.open(&format!("?appendfsync={policy}"));
            let address = client.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let counting: Vec<_> = (0..4).map(|_| count_until_the_end(address)).collect();
            drop(client);
            let told = counting.into_iter().map(|client| client.join().unwrap()).max().unwrap();
            let counted = folder.open("").get::<i64>("counter").wait().unwrap();
            assert!(counted >= told, "{policy}, {round}: {told} were told of, {counted} are there");
        }
    }
}

#[test]
fn nobody_writes_in_a_folder_any_more_when_the_last_handle_has_gone() {
    for (begins, file) in [("BGREWRITEAOF", "temp-rewriteaof-bg-"), ("BGSAVE", "temp-")] {
        let folder = Folder::new(begins);
        let client = folder.open("?rdb-key-save-delay=100000000");
        client.cmd("MSET").arg(("a", 1, "b", 2)).send::<()>().wait().unwrap();
        client.cmd(begins).send::<String>().wait().unwrap();
        while !folder.unfinished().iter().any(|name| name.starts_with(file)) {
            std::thread::yield_now();
        }
        if begins == "BGSAVE" {
            // The rewrite that is scheduled after the snapshot does not begin either.
            client.cmd("BGREWRITEAOF").send::<String>().wait().unwrap();
        }
        drop(client);
        assert_eq!(folder.unfinished(), Vec::<String>::new(), "{begins}");
        let client = folder.open("");
        assert_eq!(client.get::<i64>("b").wait(), Ok(2));
        client.cmd("BGREWRITEAOF").send::<String>().wait().unwrap();
    }
}
