//! Tests of rings over each driver, with a client that keeps to the rules and with one that does not.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread;

use sleeve_rings::handover;
use sleeve_rings::memory::Memory;
use sleeve_rings::ring::{HEAD_WORDS, Reader, Words, Writer};
use sleeve_rings::side::{Role, ends};

use super::super::Driver;
use super::super::tests::{drivers, next, output, unix_pair};
use super::*;
use crate::net::Sending;

/// The client's side of a pair, which sleeps in reads of its socket.
struct Peer {
    socket: UnixStream,
    memory: Memory,
    writer: Writer<Memory>,
    reader: Reader<Memory>,
}

impl Peer {
    /// Creates a connection that shares memory, and its peer.
    fn of(driver: &mut Driver) -> (Token, Self) {
        let (near, socket) = unix_pair();
        let token = driver.adopt(near).expect("it is open");
        driver.share_memory(token, Memory::create(RING_BYTES).expect("there is memory")).expect("nothing waits");
        let (count, file) = handover::receive(&socket, &mut [0; 8]).expect("it has come");
        let memory = Memory::open(&file.expect("a descriptor")).expect("memory");
        assert_eq!(count, HANDOVER.len());
        let (writer, reader) = ends(memory.clone(), Role::Client);
        (token, Self { socket, memory, writer, reader })
    }

    fn ring(&mut self) {
        // The driver may have closed the connection.
        _ = self.socket.write_all(b"!");
    }

    /// Writes all of the bytes, and sleeps while there is no room.
    fn say(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.writer.write(bytes).expect("the driver keeps to the rules");
            bytes = &bytes[count..];
            if self.writer.must_ring() {
                self.ring();
            }
            if !bytes.is_empty() && self.writer.wait_for_room().expect("the driver keeps to the rules") {
                self.socket.read_exact(&mut [0]).expect("it rings");
            }
        }
    }

    /// Reads so many bytes, and sleeps while there are none.
    fn hear(&mut self, count: usize) -> Vec<u8> {
        let mut heard = vec![0; count];
        let mut got = 0;
        while got < count {
            got += self.reader.read(&mut heard[got..]).expect("the driver keeps to the rules");
            if self.reader.must_ring() {
                self.ring();
            }
            if got < count && self.reader.fall_asleep().expect("the driver keeps to the rules") {
                self.socket.read_exact(&mut [0]).expect("it rings");
                self.reader.wake_up();
            }
        }
        heard
    }

    /// Writes a number into a word of the memory.
    fn plant(&self, word: usize, number: u64) {
        self.memory.words()[word].store(number, Ordering::SeqCst);
    }
}

fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn what_is_longer_than_a_ring_comes_in_order_both_ways() {
    for mut driver in drivers() {
        let (token, mut peer) = Peer::of(&mut driver);
        let said = numbers(500_000);
        let expected = said.clone();
        let peer = thread::spawn(move || {
            peer.say(&said);
            peer.hear(said.len())
        });
        let (mut heard, mut buffer, mut round) = (Vec::new(), vec![0; 10_000], 0);
        while heard.len() < expected.len() {
            round += 1;
            driver.hold(token, round % 3 == 0);
            for index in 0..driver.wait(if round % 3 == 0 { 0 } else { 100 }).expect("it waits") {
                match driver.event(index, &mut buffer) {
                    Event::Received(who, count) if who == token => heard.extend_from_slice(&buffer[..count]),
                    Event::Nothing => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!(heard == expected);
        driver.hold(token, false);
        let mut sending = Sending::Done;
        for piece in expected.chunks(70_001) {
            sending = driver.send(token, &mut output(piece));
        }
        assert!(matches!(sending, Sending::Waiting(_)), "{sending:?}");
        while driver.waiting(token) != 0 {
            for event in next(&mut driver, &mut buffer) {
                assert!(matches!(event, Event::Sent(who, _) if who == token), "{event:?}");
            }
        }
        assert!(peer.join().expect("it does not panic") == expected);
        driver.close(token);
    }
}

#[test]
fn who_is_silent_is_not_looked_at_and_rings() {
    for mut driver in drivers() {
        let (token, mut peer) = Peer::of(&mut driver);
        let mut buffer = [0; 64];
        for _ in 0..20 {
            while driver.shared.as_mut().is_some_and(|shared| !shared.are_all_asleep()) {
                assert_eq!(driver.wait(1).expect("it waits"), 0);
            }
            peer.say(b"good morning");
            let events = next(&mut driver, &mut buffer);
            assert!(matches!(events[..], [Event::Received(who, 12)] if who == token), "{events:?}");
            assert_eq!(&buffer[..12], b"good morning");
        }
        assert_eq!(driver.send(token, &mut output(b"hello")), Sending::Done);
        driver.queue(token, &Arc::new(b", all".to_vec()));
        assert_eq!(driver.take_queued(), [token]);
        assert_eq!(driver.send_queued(token), Sending::Done);
        let mut outputs = [(token, output(b" of you"))];
        driver.send_together(&mut outputs);
        assert!(outputs[0].1.is_empty());
        assert_eq!(peer.hear(17), b"hello, all of you");
    }
}

#[test]
fn what_was_said_before_the_end_is_told_before_it() {
    for mut driver in drivers() {
        let (token, mut peer) = Peer::of(&mut driver);
        let mut buffer = [0; 4];
        peer.say(b"farewell");
        drop(peer);
        let mut events = Vec::new();
        while !events.iter().any(|event| matches!(event, Event::Closed(_))) {
            events.extend(next(&mut driver, &mut buffer));
        }
        assert!(
            matches!(events[..], [Event::Received(_, 4), Event::Received(_, 4), Event::Closed(who)] if who == token),
            "{:?}: {events:?}",
            driver.kind()
        );
        for index in 0..driver.wait(1).expect("it waits") {
            assert!(matches!(driver.event(index, &mut buffer), Event::Nothing), "it is told once");
        }
        driver.close(token);

        let (token, mut peer) = Peer::of(&mut driver);
        driver.hold(token, true);
        peer.say(b"unheard");
        drop(peer);
        let events = next(&mut driver, &mut buffer);
        assert!(matches!(events[..], [Event::Closed(who)] if who == token), "{:?}: {events:?}", driver.kind());
        driver.hold(token, false);
        let events = next(&mut driver, &mut buffer);
        assert!(matches!(events[..], [Event::Received(_, 4)]), "{:?}: {events:?}", driver.kind());
        driver.close(token);
    }
}

#[test]
fn replies_are_read_behind_the_end_of_the_connection() {
    for mut driver in drivers() {
        let (token, mut peer) = Peer::of(&mut driver);
        assert_eq!(driver.send(token, &mut output(b"last words")), Sending::Done);
        driver.close(token);
        // Some drivers release the socket with their next wait.
        driver.wait(0).expect("it waits");
        assert_eq!(peer.hear(10), b"last words");
        assert_eq!(peer.socket.read(&mut [0; 8]).expect("its end"), 0);
    }
}

/// The positions of the words that the client writes, in the heads of the two rings.
const CLIENT_WRITTEN: usize = 0;
const CLIENT_TAKEN: usize = HEAD_WORDS + RING_BYTES / 8 + 8;

#[test]
fn positions_that_cannot_be_end_the_connection() {
    for mut driver in drivers() {
        let mut buffer = [0; 64];
        for number in [RING_BYTES as u64 + 1, u64::MAX] {
            let (token, mut peer) = Peer::of(&mut driver);
            peer.plant(CLIENT_WRITTEN, number);
            peer.ring();
            let events = next(&mut driver, &mut buffer);
            assert!(matches!(events[..], [Event::Closed(who)] if who == token), "{events:?}");
            driver.close(token);

            let (token, peer) = Peer::of(&mut driver);
            peer.plant(CLIENT_TAKEN, number);
            let sent = driver.send(token, &mut output(&vec![7; RING_BYTES + 1]));
            assert_eq!(sent, Sending::Broken);
            driver.close(token);
        }
    }
}

#[test]
fn who_writes_on_behind_the_end_of_its_socket_is_not_heard_for_ever() {
    for mut driver in drivers() {
        let (token, mut peer) = Peer::of(&mut driver);
        let mut buffer = [0; 512];
        peer.socket.shutdown(std::net::Shutdown::Write).expect("it is open");
        let (mut heard, mut is_over) = (0, false);
        while !is_over {
            heard += peer.writer.write(&[b'x'; 512]).expect("the driver keeps to the rules");
            assert!(heard <= 4 * RING_BYTES, "{:?}", driver.kind());
            for index in 0..driver.wait(10).expect("it waits") {
                is_over |= matches!(driver.event(index, &mut buffer), Event::Closed(who) if who == token);
            }
        }
        driver.close(token);
    }
}
