//! Tests of a link: the role changes while the primary's reply is in flight.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

use super::*;
use crate::config::Config;
use crate::engine::origin::Origin;
use crate::engine::replication::role::Address;
use crate::engine::replication::role_change;
use crate::host::simulated::{On, Task as Simulated};

/// Returns the bytes that a replica has sent since the last call.
fn sent(primary: &OwnedFd) -> String {
    let mut buffer = [0; 4_096];
    let count = recv(primary, &mut buffer, RecvFlags::empty()).map_or(0, |(count, _)| count);
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// Runs a link and answers its requests until it asks to continue the stream.
fn greet(link: &mut Simulated, primary: &OwnedFd) {
    loop {
        let asked = sent(primary);
        if asked.contains("PSYNC") {
            return;
        }
        for request in asked.split('*').skip(1) {
            let answer = if request.contains("PING") { "+PONG\r\n" } else { "+OK\r\n" };
            send(primary, answer.as_bytes(), SendFlags::NOSIGNAL).expect("it is open");
        }
        assert!(!link.resume(), "it waits for answers");
    }
}

#[test]
fn who_has_become_a_primary_takes_no_id_from_the_one_before() {
    let now = Instant { wall_us: 1_700_000_000_000_000, monotonic_us: 1_000_000_000 };
    let primary = Rc::new(RefCell::new(None));
    let end = Rc::clone(&primary);
    let on = On::begin(
        now,
        Box::new(move |_, _, _| {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            *end.borrow_mut() = Some(far);
            Ok(near)
        }),
    );
    let engine = Engine::begin(Config::default(), Origin::of_seed(1, now));
    offer(&engine);
    engine.journal.keep_backlog(1 << 20);
    role_change::follow_primary(&engine, Address { host: "primary".into(), port: 1 });
    engine.replication.role.start().expect("a task");
    let mut link = on.started().pop().expect("the link's");
    assert!(!link.resume());
    let primary = primary.borrow_mut().take().expect("it has connected");
    greet(&mut link, &primary);
    let answer = format!("+CONTINUE {}\r\n", "ab".repeat(20));
    send(&primary, answer.as_bytes(), SendFlags::NOSIGNAL).expect("it is open");
    assert!(role_change::lead(&engine, now));
    let own = engine.replication.ids.id();
    while !link.resume() {}
    assert_eq!(engine.replication.ids.id(), own);
}
