//! The driver against the kernel: what a worker may rely on, whatever the kernel does meanwhile.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use super::*;

/// Waits until the driver has events, and takes the first.
fn next(driver: &mut Completion, buffer: &mut [u8]) -> Event {
    for _ in 0..1_000 {
        if driver.wait(100).expect("it waits") != 0 {
            return driver.event(buffer);
        }
    }
    panic!("nothing happens");
}

fn driver() -> Option<Completion> {
    // A kernel that gives no ring is no fault of ours.
    Completion::new().ok()
}

fn tcp_pair() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let far = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let near = listener.accept().expect("somebody connects").0;
    near.set_nonblocking(true).expect("it is open");
    (near.into(), far)
}

fn unix_pair() -> (OwnedFd, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    near.set_nonblocking(true).expect("it is open");
    (near.into(), far)
}

fn output(bytes: &[u8]) -> Output {
    let mut output = Output::default();
    output.bytes.extend_from_slice(bytes);
    output
}

/// Sends numbered pieces to a peer that begins to read when no more are taken; it gets all of them in their order.
fn all_arrives_in_order(socket: OwnedFd, mut peer: impl Read + Send) {
    let Some(mut driver) = driver() else { return };
    let mut buffer = [0; 64];
    let token = driver.adopt(socket);
    let (mut expected, mut number) = (Vec::new(), 0_u32);
    while driver.waiting(token) < 100_000 {
        let piece: Vec<u8> = std::iter::repeat_n(number.to_ne_bytes(), 997).flatten().collect();
        expected.extend_from_slice(&piece);
        number += 1;
        assert_ne!(driver.send(token, &mut output(&piece)), Sending::Broken);
        if driver.wait(0).expect("it waits") != 0 {
            assert!(matches!(driver.event(&mut buffer), Event::Sent(..)));
        }
    }
    let mut got = vec![0; expected.len()];
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| peer.read_exact(&mut got));
        while driver.waiting(token) != 0 || driver.unsent(token) != 0 {
            assert!(matches!(next(&mut driver, &mut buffer), Event::Sent(..)));
        }
        reading.join().expect("it reads").expect("all of it");
    });
    assert!(got == expected);
}

#[test]
fn what_a_peer_does_not_take_at_once_arrives_in_order() {
    let (socket, peer) = tcp_pair();
    all_arrives_in_order(socket, peer);
    let (socket, peer) = unix_pair();
    all_arrives_in_order(socket, peer);
}

#[test]
fn what_comes_while_a_connection_is_held_comes_afterwards_and_all_of_it() {
    let Some(mut driver) = driver() else { return };
    let (socket, mut peer) = tcp_pair();
    let token = driver.adopt(socket);
    let mut buffer = vec![0; 64 * 1024];
    let said: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8 ^ (number >> 8) as u8).collect();
    let mut heard = Vec::new();
    std::thread::scope(|scope| {
        let saying = scope.spawn(|| peer.write_all(&said));
        let mut round = 0;
        while heard.len() < said.len() {
            round += 1;
            let is_held = round % 3 != 0;
            driver.hold(token, is_held);
            let event = if !is_held {
                next(&mut driver, &mut buffer)
            } else if driver.wait(1).expect("it waits") != 0 {
                driver.event(&mut buffer)
            } else {
                Event::Nothing
            };
            match event {
                Event::Received(_, count) => heard.extend_from_slice(&buffer[..count]),
                Event::Nothing => {}
                other => panic!("{other:?}"),
            }
        }
        saying.join().expect("it speaks").expect("all of it");
    });
    assert!(heard == said);
}

#[test]
fn a_peer_that_says_more_than_is_taken_is_made_to_wait() {
    let Some(mut driver) = driver() else { return };
    let (socket, mut peer) = unix_pair();
    peer.set_nonblocking(true).expect("it is open");
    let token = driver.adopt(socket);
    assert_eq!(driver.wait(0).expect("it waits"), 0);
    driver.hold(token, true);
    let (mut buffer, mut said, mut heard) = ([0; buffers::BUFFER_BYTES], 0, 0);
    let mut fill = |said: &mut usize| {
        while let Ok(count) = peer.write(&[1; buffers::BUFFER_BYTES]) {
            *said += count;
        }
    };
    fill(&mut said);
    let room = said;
    assert!(driver.wait(1_000).expect("it waits") != 0);
    assert!(matches!(driver.event(&mut buffer), Event::Nothing));
    driver.hold(token, false);
    for _ in 0..1_000 {
        fill(&mut said);
        for _ in 0..driver.wait(0).expect("it waits") {
            if let Event::Received(_, count) = driver.event(&mut buffer) {
                heard += count;
            }
        }
    }
    // All buffers may have come before it was put aside, and again before receiving ended.
    let most = room + 2 * usize::from(buffers::BUFFERS) * buffers::BUFFER_BYTES;
    assert!(said - heard <= most, "of {said} bytes {heard} were taken");
}

#[test]
fn a_peer_that_says_more_than_is_taken_holds_up_nobody_else() {
    let Some(mut driver) = driver() else { return };
    let ((loud, mut loud_peer), (quiet, mut quiet_peer)) = (unix_pair(), unix_pair());
    loud_peer.set_nonblocking(true).expect("it is open");
    driver.adopt(loud);
    let quiet = driver.adopt(quiet);
    let mut buffer = [0; buffers::BUFFER_BYTES];
    for round in 0..1_000 {
        while loud_peer.write(&[1; buffers::BUFFER_BYTES]).is_ok() {}
        if round == 500 {
            quiet_peer.write_all(b"!").expect("it is open");
        }
        for _ in 0..driver.wait(0).expect("it waits") {
            if matches!(driver.event(&mut buffer), Event::Received(token, _) if token == quiet) {
                return;
            }
        }
    }
    panic!("it has not been heard");
}
