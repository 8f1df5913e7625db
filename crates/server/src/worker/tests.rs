//! Tests of several connections' requests in one wake-up, over each driver: for any request of the first connection, the
//! others lose nothing, and each gets its replies in order.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::*;
use crate::config::{Config, Opt};
use crate::messaging::mail::{Accepted, Mailbox};
use crate::net::tests::drivers;

/// The time after which a client's wait counts as a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// A worker that no thread serves yet.
struct Table {
    engine: Arc<Engine>,
    pool: Arc<WorkerPool>,
    worker: Worker,
}

impl Table {
    /// Makes a worker over each driver.
    fn each() -> impl Iterator<Item = Self> {
        drivers().map(|driver| {
            let engine = Engine::new(Config::default());
            let waker = driver.waker();
            let pool = WorkerPool::of(vec![Arc::new(Mailbox::new(move || waker.wake()))]);
            let worker = Worker::new(&engine, Arc::clone(&pool), 0, driver);
            Self { engine, pool, worker }
        })
    }

    /// Connects a client that has sent these bytes before the worker is served.
    fn guest(&mut self, said: &[u8]) -> UnixStream {
        let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
        near.set_nonblocking(true).expect("it is open");
        let (address, local_address) = ("test:0".to_owned(), "test:0".to_owned());
        let scratch = Scratch::new(&self.engine, Instant::now());
        self.worker
            .connections
            .adopt(Accepted { socket: near.into(), address, local_address, is_tls: false }, &scratch);
        far.set_read_timeout(Some(PATIENCE)).expect("a time");
        far.write_all(said).expect("there is room");
        far
    }

    /// Serves the worker with a thread while `guests` runs, and then stops it.
    fn serve(self, guests: impl FnOnce()) {
        self.worker.spawn().expect("a thread");
        guests();
        self.engine.post_stop();
        self.pool.wait();
    }
}

#[track_caller]
fn hears(guest: &mut UnixStream, expected: &[u8]) {
    let mut heard = vec![0; expected.len()];
    guest.read_exact(&mut heard).expect("a reply");
    assert!(heard == expected, "{:?}", heard[..heard.len().min(200)].escape_ascii().to_string());
}

/// Returns a request of two words.
fn echo(word: &[u8]) -> Vec<u8> {
    let mut request = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", word.len()).into_bytes();
    request.extend_from_slice(word);
    request.extend_from_slice(b"\r\n");
    request
}

/// Returns the reply to such a request.
fn echoed(word: &[u8]) -> Vec<u8> {
    echo(word)[b"*2\r\n$4\r\nECHO\r\n".len()..].to_vec()
}

#[test]
fn a_client_killed_in_the_same_wake_up_is_gone_and_others_lose_nothing() {
    for mut table in Table::each() {
        let mut killer = table.guest(b"");
        let mut guests: Vec<_> = (0..6).map(|_| table.guest(b"")).collect();
        let id = |worker: &Worker, token: usize| {
            worker.connections.sessions[token].as_ref().map_or(0, |it| it.state.client.id)
        };
        let killed: Vec<_> = [2, 4].map(|token| id(&table.worker, token)).to_vec();
        killer
            .write_all(format!("CLIENT KILL ID {}\r\nCLIENT KILL ID {}\r\n", killed[0], killed[1]).as_bytes())
            .expect("open");
        guests.iter_mut().for_each(|guest| guest.write_all(b"PING\r\n").expect("it is open"));
        table.serve(|| {
            hears(&mut killer, b":1\r\n:1\r\n");
            for (number, guest) in guests.iter_mut().enumerate() {
                if [1, 3].contains(&number) {
                    // The bytes may have been received before.
                    let mut rest = Vec::new();
                    _ = guest.read_to_end(&mut rest);
                    assert!(rest.is_empty() || rest == b"+PONG\r\n");
                } else {
                    hears(guest, b"+PONG\r\n");
                    guest.write_all(b"ECHO still\r\n").expect("it is open");
                    hears(guest, b"$5\r\nstill\r\n");
                }
            }
        });
    }
}

#[test]
fn input_beside_a_long_script_goes_with_the_worker_to_its_next_thread() {
    for mut table in Table::each() {
        table.engine.config.assign(Opt::BusyReplyThreshold, &[b"1"]).expect("a time");
        let mut script = table.guest(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\nECHO after\r\n");
        let mut allowed = table.guest(b"RESET\r\nRESET\r\n");
        let mut half = table.guest(b"*1\r\n$5\r\nRE");
        let mut large = table.guest(&[b"RESET\r\n".repeat(2_000), echo(&[b'x'; 20_000])].concat());
        let gone = table.guest(b"RESET\r\n");
        let mut killer = table.guest(b"SCRIPT KILL\r\n");
        table.serve(|| {
            hears(&mut allowed, b"+RESET\r\n+RESET\r\n");
            drop(gone);
            half.write_all(b"SET\r\n").expect("it is open");
            hears(&mut half, b"+RESET\r\n");
            hears(&mut large, &b"+RESET\r\n".repeat(2_000));
            // A driver may have reported this connection before the one with the script.
            let mut reply = [0; 5];
            while killer.read_exact(&mut reply).is_ok() && reply != *b"+OK\r\n" {
                std::thread::sleep(Duration::from_millis(10));
                _ = killer.read(&mut [0; 100]).expect("the rest of an error");
                killer.write_all(b"SCRIPT KILL\r\n").expect("it is open");
            }
            let mut text = Vec::new();
            while !text.ends_with(b"$5\r\nafter\r\n") {
                let mut byte = [0];
                script.read_exact(&mut byte).expect("an error and a reply");
                text.push(byte[0]);
            }
            assert!(text.starts_with(b"-ERR Script killed"), "{}", text.escape_ascii());
            // The client either got BUSY, or its request came after the script.
            let mut first = [0];
            large.read_exact(&mut first).expect("an answer");
            assert!([b'-', b'$'].contains(&first[0]));
        });
    }
}

#[test]
fn requests_in_pieces_are_put_together_also_beyond_one_receive() {
    for mut table in Table::each() {
        let words: Vec<Vec<u8>> = [1, 100, 4_000, 4_096, 5_000, 20_000, 70_000, 150_000]
            .map(|len| vec![b'a' + (len % 7) as u8; len])
            .to_vec();
        let requests: Vec<Vec<u8>> = words.iter().map(|word| [echo(word), echo(b"end")].concat()).collect();
        let mut guests: Vec<_> = (0..words.len()).map(|number| table.guest(&requests[number][..3 + number])).collect();
        table.serve(|| {
            let mut sent: Vec<_> = (0..words.len()).map(|number| 3 + number).collect();
            let mut step = 1;
            while (0..words.len()).any(|number| sent[number] < requests[number].len()) {
                for (number, guest) in guests.iter_mut().enumerate() {
                    let rest = &requests[number][sent[number]..];
                    let piece = rest.len().min(step * 1_009);
                    guest.write_all(&rest[..piece]).expect("it is open");
                    sent[number] += piece;
                }
                step += 3;
            }
            for (guest, word) in guests.iter_mut().zip(&words) {
                hears(guest, &[echoed(word), echoed(b"end")].concat());
            }
        });
    }
}

#[test]
fn a_client_paused_in_the_same_wake_up_goes_on_after_the_pause() {
    for mut table in Table::each() {
        let mut pausing = table.guest(b"CLIENT PAUSE 60000 WRITE\r\n");
        let mut guests: Vec<_> = (0..5).map(|_| table.guest(b"INCR n\r\nECHO a\r\nINCR n\r\n")).collect();
        table.serve(|| {
            hears(&mut pausing, b"+OK\r\n");
            guests.iter_mut().for_each(|guest| guest.write_all(b"ECHO b\r\n").expect("it is open"));
            pausing.write_all(b"CLIENT UNPAUSE\r\n").expect("it is open");
            hears(&mut pausing, b"+OK\r\n");
            for guest in &mut guests {
                let mut heard = Vec::new();
                while !heard.ends_with(b"$1\r\nb\r\n") {
                    let mut byte = [0];
                    guest.read_exact(&mut byte).expect("replies");
                    heard.push(byte[0]);
                }
                let lines = heard.split(|byte| *byte == b'\n').count();
                assert!(lines == 7 && heard[0] == b':', "{}", heard.escape_ascii());
            }
        });
    }
}

#[test]
fn clients_of_the_wake_up_that_ends_the_server_see_its_end() {
    for mut table in Table::each() {
        let mut guests = vec![table.guest(b"SHUTDOWN NOSAVE\r\n")];
        guests.extend((0..5).map(|_| table.guest(b"PING\r\nSET k v\r\n")));
        let (engine, pool) = (Arc::clone(&table.engine), Arc::clone(&table.pool));
        table.worker.spawn().expect("a thread");
        pool.wait();
        assert!(engine.failure().is_none());
        for mut guest in guests {
            let mut rest = Vec::new();
            // If the client's bytes were not received, the connection ends with a reset.
            _ = guest.read_to_end(&mut rest);
            assert!(b"+PONG\r\n+OK\r\n".starts_with(&rest), "{}", rest.escape_ascii());
        }
    }
}
