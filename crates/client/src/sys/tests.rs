//! Tests of both twins with the same calls and the same expectations, on Linux, which has the system calls of either. So the
//! portable twin is tested even if no developer has another system.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, connect, send};

use super::portable;

/// Returns whether a wait without a timeout finds the event raised.
fn is_raised(event: &impl AsFd) -> bool {
    poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&super::timespec(Duration::ZERO))) == Ok(1)
}

/// Defines the tests of a twin; each twin has types of its own.
macro_rules! twin {
    ($twin:path) => {
        use $twin as twin;

        let event = twin::Event::new().expect("an event");
        for count in [1, 2, 100_000] {
            assert!(!is_raised(&event));
            (0..count).for_each(|_| event.raise());
            assert!(is_raised(&event));
            // An event that was raised several times is cleared at once, and can be raised again.
            event.clear();
            while is_raised(&event) {
                event.clear();
            }
        }
        thread::scope(|scope| {
            scope.spawn(|| event.raise());
            let mut fds = [PollFd::new(&event, PollFlags::IN)];
            // Older systems count milliseconds in 31 bits.
            assert!(twin::timespec(Duration::MAX).tv_sec < i64::from(i32::MAX / 1000));
            assert_eq!(poll(&mut fds, Some(&twin::timespec(Duration::MAX))), Ok(1));
        });

        let (near, _far) = UnixStream::pair().expect("a pair of sockets");
        let peer = twin::peer_process(&near);
        assert!(peer.is_none_or(|peer| peer == std::process::id()));
        assert_eq!(twin::network().is_some(), twin::whereabouts().is_some());
        assert_eq!(peer.is_some(), twin::whereabouts().is_some_and(|(boot, processes)| boot != processes));

        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let stream = twin::stream(AddressFamily::INET).expect("a socket");
        let connected = connect(&stream, &listener.local_addr().expect("its address"));
        assert!(matches!(connected, Ok(()) | Err(Errno::INPROGRESS)), "{connected:?}");
        assert!(rustix::io::fcntl_getfd(&stream).expect("its flags").contains(rustix::io::FdFlags::CLOEXEC));
        assert_eq!(rustix::io::read(&stream, &mut [0; 1]), Err(Errno::AGAIN));
        assert_eq!(twin::peer_process(&stream), None);
        drop(listener.accept().expect("a connection"));
        // A closed peer causes an error, and no signal.
        while send(&stream, b"x", twin::SEND_FLAGS).is_ok() {}

        assert!(twin::CLOCK_TICK_MS > 0);
        assert!(rustix::time::clock_gettime(twin::COARSE_CLOCK).tv_sec >= 0);
    };
}

#[test]
fn the_portable_twin_works() {
    twin!(portable);
}

#[test]
fn this_systems_twin_works() {
    twin!(super);
}

#[test]
fn the_coarse_clock_and_the_exact_one_are_one_clock() {
    let before = super::clock_ms();
    assert!(super::exact_clock_ms().wrapping_sub(before) < 60_000, "both are one clock");
    let later = || super::clock_ms().wrapping_sub(before);
    while later() < 20 {
        assert!(later() < 60_000, "it goes back");
    }
    // Both clocks are read, the one that must be later first: the clock may tick in between.
    let (wide, narrow) = (super::uptime_ms(), super::clock_ms());
    assert!(narrow.wrapping_sub(wide as u32) < 60_000, "they are one clock");
    let (wide, narrow) = (super::clock_us(), super::exact_clock_ms());
    assert!(narrow.wrapping_sub((wide / 1000) as u32) < 60_000, "they are one clock");
}
