//! Tests of the drivers with the kernel: the guarantees on which a worker may rely, however the kernel behaves. All drivers
//! pass the same tests.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::*;
use crate::request::output::Output;

/// The size of a worker's buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// Returns a driver of each kind that the kernel permits: it may refuse io_uring.
pub(crate) fn drivers() -> impl Iterator<Item = Driver> {
    let made = DriverKind::ALL.into_iter().map(|kind| Driver::create(kind, 1).expect("a driver"));
    made.filter(|(_, refusal)| refusal.is_none()).flat_map(|(drivers, _)| drivers)
}

/// Waits until the driver has events, and takes all of them. Not every driver reports sent bytes as an event.
pub(super) fn next(driver: &mut Driver, buffer: &mut [u8]) -> Vec<Event> {
    for _ in 0..1_000 {
        let count = driver.wait(100).expect("it waits");
        let events: Vec<_> = (0..count).map(|index| driver.event(index, buffer)).collect();
        if events.iter().any(|event| !matches!(event, Event::Nothing)) {
            return events.into_iter().filter(|event| !matches!(event, Event::Nothing)).collect();
        }
    }
    panic!("nothing happens");
}

fn tcp_pair() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let far = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let near = listener.accept().expect("somebody connects").0;
    near.set_nonblocking(true).expect("it is open");
    (near.into(), far)
}

pub(super) fn unix_pair() -> (OwnedFd, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    near.set_nonblocking(true).expect("it is open");
    (near.into(), far)
}

pub(super) fn output(bytes: &[u8]) -> Output {
    let mut output = Output::default();
    output.bytes.extend_from_slice(bytes);
    output
}

/// Sends numbered pieces to a peer that begins to read when no more are taken; it gets all of them in their order.
fn all_arrives_in_order(driver: &mut Driver, socket: OwnedFd, mut peer: impl Read + Send) {
    let mut buffer = [0; 64];
    let token = driver.adopt(socket).expect("it is open");
    let (mut expected, mut number) = (Vec::new(), 0_u32);
    while driver.waiting(token) < 100_000 {
        let piece: Vec<u8> = std::iter::repeat_n(number.to_ne_bytes(), 997).flatten().collect();
        expected.extend_from_slice(&piece);
        number += 1;
        assert_ne!(driver.send(token, &mut output(&piece)), Sending::Broken);
        for index in 0..driver.wait(0).expect("it waits") {
            let event = driver.event(index, &mut buffer);
            assert!(matches!(event, Event::Sent(..) | Event::Nothing), "{:?}: {event:?}", driver.kind());
        }
    }
    let mut got = vec![0; expected.len()];
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| peer.read_exact(&mut got));
        while driver.waiting(token) != 0 || driver.unsent(token) != 0 {
            assert!(next(driver, &mut buffer).iter().all(|event| matches!(event, Event::Sent(..))));
        }
        reading.join().expect("it reads").expect("all of it");
    });
    assert!(got == expected);
    driver.close(token);
}

#[test]
fn what_a_peer_does_not_take_at_once_arrives_in_order() {
    for mut driver in drivers() {
        let (socket, peer) = tcp_pair();
        all_arrives_in_order(&mut driver, socket, peer);
        let (socket, peer) = unix_pair();
        all_arrives_in_order(&mut driver, socket, peer);
    }
}

#[test]
fn what_comes_while_a_connection_is_held_comes_afterwards_and_all_of_it() {
    for mut driver in drivers() {
        // If the buffer is smaller than the bytes that arrive at once, the rest arrives later.
        let len = if driver.kind() == DriverKind::Epoll { 10_000 } else { BUFFER_BYTES };
        let (socket, mut peer) = tcp_pair();
        let token = driver.adopt(socket).expect("it is open");
        let mut buffer = vec![0; len];
        let said: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8 ^ (number >> 8) as u8).collect();
        let mut heard = Vec::new();
        std::thread::scope(|scope| {
            let saying = scope.spawn(|| peer.write_all(&said));
            let mut round = 0;
            while heard.len() < said.len() {
                round += 1;
                driver.hold(token, round % 3 != 0);
                for index in 0..driver.wait(if round % 3 != 0 { 1 } else { 100 }).expect("it waits") {
                    match driver.event(index, &mut buffer) {
                        Event::Received(_, count) => heard.extend_from_slice(&buffer[..count]),
                        Event::Nothing => {}
                        other => panic!("{other:?}"),
                    }
                }
            }
            saying.join().expect("it speaks").expect("all of it");
        });
        assert!(heard == said);
    }
}

#[test]
fn what_is_received_apart_is_all_that_comes_up_to_the_end() {
    for mut driver in drivers() {
        let (socket, mut peer) = tcp_pair();
        driver.adopt(socket).expect("it is open");
        let mut buffer = vec![0; BUFFER_BYTES];
        let said: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8 ^ (number >> 8) as u8).collect();
        let mut heard = Vec::new();
        std::thread::scope(|scope| {
            let saying = scope.spawn(|| {
                peer.write_all(&said)?;
                peer.shutdown(Shutdown::Write)
            });
            let mut is_ended = false;
            while !is_ended {
                for event in next(&mut driver, &mut buffer) {
                    match event {
                        // Every other piece goes through the buffer; some of the others fill their room completely.
                        Event::Receivable(token) => {
                            heard.reserve_exact(if heard.len() % 2 == 0 { 1_001 } else { 4_000_000 });
                            match driver.receive_into(token, &mut heard) {
                                Event::Received(..) => driver.receive_apart(token, false),
                                event => is_ended = matches!(event, Event::Closed(_)),
                            }
                        }
                        Event::Received(token, count) => {
                            heard.extend_from_slice(&buffer[..count]);
                            driver.receive_apart(token, true);
                        }
                        Event::Closed(_) => is_ended = true,
                        other => panic!("{other:?}"),
                    }
                }
            }
            saying.join().expect("it speaks").expect("all of it");
        });
        assert!(heard == said, "{:?}", driver.kind());
    }
}

#[test]
fn a_peer_that_goes_while_it_is_held_is_told_of_and_once() {
    for mut driver in drivers() {
        for ends in [Shutdown::Write, Shutdown::Both] {
            let (socket, mut peer) = tcp_pair();
            let token = driver.adopt(socket).expect("it is open");
            let mut buffer = [0; 64];
            driver.hold(token, true);
            assert_eq!(driver.wait(0).expect("it waits"), 0);
            peer.write_all(b"unheard").expect("it is open");
            peer.shutdown(ends).expect("it is open");
            let events = next(&mut driver, &mut buffer);
            assert!(matches!(events[..], [Event::Closed(gone)] if gone == token), "{:?}: {events:?}", driver.kind());
            // When it is released, the driver reports all bytes that the connection has sent.
            driver.hold(token, false);
            let events = next(&mut driver, &mut buffer);
            assert!(matches!(events[..], [Event::Received(_, 7)]), "{:?}: {events:?}", driver.kind());
            let events = next(&mut driver, &mut buffer);
            assert!(events.iter().all(|event| matches!(event, Event::Closed(_))), "{:?}: {events:?}", driver.kind());
            driver.close(token);
        }
    }
}

/// Returns the most bytes of one connection that a driver has while the worker takes none.
fn bytes_max(driver: &Driver) -> usize {
    match driver.kind() {
        DriverKind::Tokio => tokio::BYTES_MAX,
        DriverKind::Epoll => 0,
        DriverKind::Uring => usize::from(uring::BUFFERS) * uring::BUFFER_BYTES,
    }
}

#[test]
fn a_peer_that_says_more_than_is_taken_is_made_to_wait() {
    for mut driver in drivers() {
        let (socket, mut peer) = unix_pair();
        peer.set_nonblocking(true).expect("it is open");
        let token = driver.adopt(socket).expect("it is open");
        assert_eq!(driver.wait(0).expect("it waits"), 0);
        driver.hold(token, true);
        let (mut buffer, mut said, mut heard) = ([0; 16 * 1024], 0, 0);
        let mut fill = |said: &mut usize| {
            while let Ok(count) = peer.write(&[1; 16 * 1024]) {
                *said += count;
            }
        };
        fill(&mut said);
        let room = said;
        for index in 0..driver.wait(10).expect("it waits") {
            assert!(matches!(driver.event(index, &mut buffer), Event::Nothing));
        }
        driver.hold(token, false);
        for _ in 0..1_000 {
            fill(&mut said);
            for index in 0..driver.wait(0).expect("it waits") {
                if let Event::Received(_, count) = driver.event(index, &mut buffer) {
                    heard += count;
                }
            }
        }
        // All buffers may have been filled before the bytes were put aside, and again before receiving ended.
        let most = room + 2 * bytes_max(&driver);
        assert!(said - heard <= most, "of {said} bytes {heard} were taken");
    }
}

#[test]
fn a_peer_that_says_more_than_is_taken_holds_up_nobody_else() {
    for mut driver in drivers() {
        let ((loud, mut loud_peer), (quiet, mut quiet_peer)) = (unix_pair(), unix_pair());
        loud_peer.set_nonblocking(true).expect("it is open");
        driver.adopt(loud).expect("it is open");
        let quiet = driver.adopt(quiet).expect("it is open");
        let mut buffer = [0; 16 * 1024];
        let mut is_heard = false;
        for round in 0..1_000 {
            while loud_peer.write(&[1; 16 * 1024]).is_ok() {}
            if round == 500 {
                quiet_peer.write_all(b"!").expect("it is open");
            }
            let mut told = Vec::new();
            for index in 0..driver.wait(0).expect("it waits") {
                if let Event::Received(token, _) = driver.event(index, &mut buffer) {
                    assert!(!told.contains(&token), "it is told of once a wake-up");
                    told.push(token);
                    is_heard |= token == quiet;
                }
            }
        }
        assert!(is_heard);
    }
}

#[test]
fn many_that_say_much_at_once_are_all_heard() {
    for mut driver in drivers() {
        let mut pairs: Vec<_> = (0..200).map(|_| unix_pair()).collect();
        for (_, peer) in &mut pairs {
            peer.set_nonblocking(true).expect("it is open");
            assert!(peer.write(&[1; 32 * 1024]).expect("there is room") == 32 * 1024);
        }
        let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let count = near.len();
        let tokens: Vec<_> = near.into_iter().map(|socket| driver.adopt(socket).expect("it is open")).collect();
        let (mut heard, mut buffer) = (vec![0; count], vec![0; BUFFER_BYTES]);
        while heard.iter().any(|heard| *heard < 32 * 1024) {
            for event in next(&mut driver, &mut buffer) {
                let Event::Received(token, got) = event else { panic!("{event:?}") };
                heard[tokens.iter().position(|other| *other == token).expect("one of them")] += got;
            }
        }
        drop(far);
    }
}

#[test]
fn the_token_of_a_closed_connection_is_free_after_its_wake_up() {
    for mut driver in drivers() {
        let mut buffer = [0; 64];
        let ((one, mut one_peer), (other, mut other_peer)) = (tcp_pair(), tcp_pair());
        let (one, other) = (driver.adopt(one).expect("open"), driver.adopt(other).expect("open"));
        one_peer.write_all(b"one").expect("it is open");
        other_peer.write_all(b"other").expect("it is open");
        assert!(matches!(next(&mut driver, &mut buffer)[0], Event::Received(..)));
        // By now the kernel may have reported the other connection or not.
        [one, other].into_iter().for_each(|token| driver.close(token));
        let (third, mut third_peer) = tcp_pair();
        let third = driver.adopt(third).expect("it is open");
        assert!(third != one && third != other);
        for (token, said) in [(third, "third"), (usize::MAX, "fourth")] {
            let (fourth, mut fourth_peer) = tcp_pair();
            let (token, peer) = if token == third {
                (third, &mut third_peer)
            } else {
                (driver.adopt(fourth).expect("open"), &mut fourth_peer)
            };
            peer.write_all(said.as_bytes()).expect("it is open");
            let events = next(&mut driver, &mut buffer);
            assert!(matches!(events[..], [Event::Received(told, count)] if told == token && count == said.len()));
        }
        let mut rest = Vec::new();
        assert_eq!(one_peer.read_to_end(&mut rest).expect("an end"), 0);
    }
}

#[test]
fn who_comes_is_accepted_until_nobody_listens_and_a_waker_ends_the_wait() {
    for mut driver in drivers() {
        let mut buffer = [0; 64];
        let address: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let listener = Arc::new(bind_tcp(address, 10, 0).expect("a free port"));
        let address = listener.address().expect("it is TCP");
        for _ in 0..2 {
            driver.listen(Arc::clone(&listener)).expect("it listens");
            let peers: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
            let mut accepted = 0;
            while accepted < peers.len() {
                for event in next(&mut driver, &mut buffer) {
                    let Event::Accepted(come) = event else { panic!("{event:?}") };
                    accepted += come.len();
                }
            }
            // The same listener can be listened to again at once.
            driver.stop_listening();
        }
        let _late = TcpStream::connect(address).expect("the kernel listens still");
        let waker = driver.waker();
        let waking = std::thread::spawn(move || (0..3).for_each(|_| waker.wake()));
        assert!(matches!(next(&mut driver, &mut buffer)[0], Event::Woken));
        waking.join().expect("it wakes");
        for index in 0..driver.wait(1).expect("it waits") {
            assert!(matches!(driver.event(index, &mut buffer), Event::Woken));
        }
        // A listener that is closed while it is watched must not wake the driver.
        driver.listen(Arc::clone(&listener)).expect("it listens");
        listener.close();
        for index in 0..driver.wait(1).expect("it waits") {
            assert!(matches!(driver.event(index, &mut buffer), Event::Accepted(_) | Event::Nothing));
        }
    }
}

#[test]
fn a_driver_goes_to_another_thread_with_what_it_has_not_told() {
    for mut driver in drivers() {
        let ((one, mut one_peer), (other, mut other_peer)) = (tcp_pair(), tcp_pair());
        let tokens = [driver.adopt(one).expect("it is open"), driver.adopt(other).expect("it is open")];
        let mut buffer = [0; 64];
        one_peer.write_all(b"one").expect("it is open");
        other_peer.write_all(b"two").expect("it is open");
        let mut heard = Vec::new();
        while heard.is_empty() {
            if driver.wait(100).expect("it waits") != 0
                && let Event::Received(token, 3) = driver.event(0, &mut buffer)
            {
                heard.push(token);
            }
        }
        driver.change_thread().expect("a ring");
        let hearing = std::thread::spawn(move || {
            while heard.len() < 2 {
                for event in next(&mut driver, &mut buffer) {
                    let Event::Received(token, 3) = event else { panic!("{event:?}") };
                    heard.push(token);
                }
            }
            assert_eq!(driver.send(heard[0], &mut output(b"+")), Sending::Done);
            assert_eq!(driver.flush(heard[0]), Sending::Done);
            heard
        });
        let mut heard = hearing.join().expect("it hears");
        let first = heard[0];
        heard.sort_unstable();
        assert_eq!(heard, tokens);
        let peer = if first == tokens[0] { &mut one_peer } else { &mut other_peer };
        peer.read_exact(&mut [0]).expect("it was sent");
    }
}

/// Waits until the driver has so many events, none of which has been taken.
fn wait_for(driver: &mut Driver, count: usize) {
    let mut got = 0;
    for _ in 0..1_000 {
        got = driver.wait(1).expect("it waits");
        if got == count {
            return;
        }
    }
    panic!("{:?} has {got} events and not {count}", driver.kind());
}

#[test]
fn unreported_bytes_are_dropped_by_close_and_kept_by_hold() {
    for mut driver in drivers() {
        let mut buffer = [0; 64];
        let (near, mut far): (Vec<_>, Vec<_>) = (0..4).map(|_| unix_pair()).unzip();
        let tokens: Vec<_> = near.into_iter().map(|socket| driver.adopt(socket).expect("it is open")).collect();
        for (peer, said) in far.iter_mut().zip(["first", "held", "closed", "last"]) {
            peer.write_all(said.as_bytes()).expect("it is open");
        }
        wait_for(&mut driver, 4);
        assert!(matches!(driver.event(0, &mut buffer), Event::Received(token, 5) if token == tokens[0]));
        driver.hold(tokens[1], true);
        driver.close(tokens[2]);
        assert!(matches!(driver.event(1, &mut buffer), Event::Nothing));
        assert!(matches!(driver.event(2, &mut buffer), Event::Nothing));
        assert!(matches!(driver.event(3, &mut buffer), Event::Received(token, 4) if token == tokens[3]));
        // Bytes that the peer sends in the meantime, and its end, are reported after that.
        far[1].write_all(b" back").expect("it is open");
        for index in 0..driver.wait(1).expect("it waits") {
            assert!(matches!(driver.event(index, &mut buffer), Event::Nothing));
        }
        far[1].shutdown(Shutdown::Write).expect("it is open");
        driver.hold(tokens[1], false);
        let mut heard = Vec::new();
        let mut has_ended = false;
        while !has_ended {
            for event in next(&mut driver, &mut buffer) {
                match event {
                    Event::Received(token, count) if token == tokens[1] => heard.extend_from_slice(&buffer[..count]),
                    Event::Closed(token) if token == tokens[1] => has_ended = true,
                    other => panic!("{:?}: {other:?}", driver.kind()),
                }
            }
        }
        assert_eq!(heard.escape_ascii().to_string(), "held back", "{:?}", driver.kind());
    }
}

/// Makes the kernel refuse io_uring to this thread, as it does in many containers.
fn forbid_rings() {
    let rule = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut rules = [
        // The number of the system call is the first word of a filter's input.
        rule(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        rule(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        rule(libc::BPF_RET | libc::BPF_K, 0, 0, refusal),
        rule(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    // SAFETY: both calls concern this thread alone; the program lives until the second has read it.
    let outcomes = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0),
        ]
    };
    assert_eq!(outcomes, [0, 0]);
}

#[test]
fn epoll_serves_if_the_kernel_refuses_io_uring_and_the_reason_is_kept() {
    for kind in DriverKind::ALL.into_iter().filter(|kind| *kind != DriverKind::Uring) {
        let (drivers, refusal) = Driver::create(kind, 2).expect("a driver");
        assert!(refusal.is_none() && drivers.iter().all(|driver| driver.kind() == kind));
    }
    let refused = std::thread::spawn(|| {
        forbid_rings();
        Driver::create(DriverKind::Uring, 2).expect("epoll")
    });
    let (drivers, refusal) = refused.join().expect("it ends");
    assert!(drivers.len() == 2 && drivers.iter().all(|driver| driver.kind() == DriverKind::Epoll));
    assert_eq!(refusal.and_then(|refusal| refusal.raw_os_error()), Some(libc::EPERM));
}
