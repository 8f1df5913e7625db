//! Tasks from outside: turns, times, wakers, panics, and the thread that comes and goes; and the poller of other systems.

use std::io;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::poller::poll;
use super::state::Readiness;
use super::task_context::TaskContext;
use super::{TaskWaker, start};

/// Runs a task to its end, and returns its result.
pub(crate) fn run<R: Send + 'static, F: Future<Output = R> + 'static>(
    task: impl FnOnce(TaskContext) -> F + Send + 'static,
) -> R {
    let (sender, receiver) = channel();
    let work = async move |context| sender.send(task(context).await).expect("the test waits");
    start(TaskWaker::new().expect("a reactor"), work, |_| {}).expect("a thread");
    receiver.recv().expect("it ends")
}

/// Starts a task beside the one that a test is about: it ends when it is woken, and reports its end.
fn neighbour() -> (TaskWaker, Receiver<()>) {
    let (ending, ended) = channel();
    let task_waker = TaskWaker::new().expect("a reactor");
    let waits = async move |context: TaskContext| {
        while !context.wait(None).await.woken {}
        ending.send(()).expect("the test waits");
    };
    start(task_waker, waits, |_| {}).expect("a thread");
    (task_waker, ended)
}

#[test]
#[cfg_attr(miri, ignore = "needs an event descriptor")]
fn a_task_that_panics_is_reported_and_harms_no_other_task() {
    let (sender, receiver) = channel();
    let (other, gone_on) = neighbour();
    let on_panic = move |why: &str| sender.send(why.to_owned()).expect("the test waits");
    start(TaskWaker::new().expect("a reactor"), async |_| panic!("on purpose"), on_panic).expect("a thread");
    assert_eq!(receiver.recv().expect("it is told"), "on purpose");
    other.wake();
    gone_on.recv().expect("it goes on");
}

#[test]
#[cfg_attr(miri, ignore = "needs an event descriptor")]
fn values_of_a_task_may_panic_when_dropped_without_harm_to_others() {
    struct Panicking;

    impl Drop for Panicking {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }

    let (other, gone_on) = neighbour();
    let panicking = Panicking;
    let (ending, ended) = channel();
    let ends = async move |_| ending.send(()).expect("the test waits");
    start(TaskWaker::new().expect("a reactor"), ends, move |_| drop(panicking)).expect("a thread");
    ended.recv().expect("it ends");
    other.wake();
    gone_on.recv().expect("it goes on");
}

#[test]
#[cfg_attr(miri, ignore = "needs an event descriptor")]
fn a_wait_for_a_past_time_leaves_other_tasks_their_turns() {
    let since = Instant::now();
    let (sender, receiver) = channel();
    let busy = async move |context: TaskContext| {
        // The loop is bounded, so that this task ends even if the other task never gets a turn.
        for _ in 0..1_000_000 {
            assert_eq!(context.wait(Some(since)).await, Readiness::default());
            if receiver.try_recv().is_ok() {
                return;
            }
        }
        panic!("the other had no turn");
    };
    let (telling, told) = channel();
    let on_panic = move |why: &str| telling.send(why.to_owned()).expect("the test waits");
    start(TaskWaker::new().expect("a reactor"), busy, on_panic).expect("a thread");
    run(async move |_| _ = sender.send(()));
    assert_eq!(told.recv().ok(), None);
}

#[test]
#[cfg_attr(miri, ignore = "needs an event descriptor")]
fn times_come_in_their_order_and_may_be_moved() {
    let waited = run(async |context| {
        let since = Instant::now();
        let at = |ms| Some(since + Duration::from_millis(ms));
        // A waker ends a wait before its deadline, which then no longer counts.
        context.task_waker().wake();
        assert_eq!(context.wait(at(60_000)).await, Readiness::WOKEN);
        for ms in [1, 3, 2, 20] {
            assert_eq!(context.wait(at(ms)).await, Readiness::default());
            assert!(since.elapsed() >= Duration::from_millis(ms));
        }
        context.yield_now().await;
        since.elapsed()
    });
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[test]
#[cfg_attr(miri, ignore = "needs sockets")]
fn bytes_on_a_stream_and_its_end_are_reported() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("it does not block");
    let (sender, receiver) = channel();
    let reader = std::thread::spawn(move || {
        run(async move |context| {
            let watch = context.watch(&ours).expect("it is watched");
            let mut came = Vec::new();
            loop {
                let mut room = [0; 2];
                match (&ours).read(&mut room) {
                    Ok(0) => return came,
                    Ok(count) => came.extend_from_slice(&room[..count]),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        sender.send(()).expect("the test listens");
                        watch.arm(false).expect("it is watched");
                        context.wait(None).await;
                    }
                }
            }
        })
    });
    for word in [b"ab", b"cd"] {
        receiver.recv().expect("it waits");
        theirs.write_all(word).expect("it is sent");
    }
    drop(theirs);
    while receiver.recv().is_ok() {}
    assert_eq!(reader.join().expect("it ends"), b"abcd");
}

/// Returns the events of each number that a wait of no time reports.
fn found(poller: &poll::Poller) -> Vec<(u64, Readiness)> {
    let mut events = poll::Events::new();
    poller.wait(&mut events, Some(Duration::ZERO)).expect("it does not fail");
    let mut found: Vec<_> = events.drain().collect();
    found.sort_by_key(|(number, _)| *number);
    found
}

#[test]
#[cfg_attr(miri, ignore = "needs sockets")]
fn the_poller_of_other_systems_reports_each_thing_once_for_each_wait() {
    let poller = poll::Poller::new().expect("an event");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let far: OwnedFd = listener.accept().expect("a connection").0.into();
    let nothing = Readiness::default();
    poller.add(&far, 7).expect("it is entered");
    assert_eq!(found(&poller), [(7, Readiness { writable: true, ..nothing })]);
    assert_eq!(found(&poller), []);
    near.write_all(b"x").expect("it is sent");
    let came = [(7, Readiness { readable: true, ..nothing })];
    poller.wait(&mut poll::Events::new(), None).expect("it comes");
    for _ in 0..2 {
        poller.arm(&far, 7, true, false).expect("it is entered");
        assert_eq!(found(&poller), came);
        assert_eq!(found(&poller), []);
    }
    poller.arm(&far, 7, true, true).expect("it is entered");
    assert_eq!(found(&poller), [(7, Readiness { readable: true, writable: true, ..nothing })]);
    poller.arm(&far, 7, true, false).expect("it is entered");
    poller.disarm(&far, 7).expect("it is entered");
    assert_eq!(found(&poller), []);
    poller.arm(&far, 7, false, false).expect("it is entered");
    poller.remove(&far.as_fd());
    assert_eq!(found(&poller), []);
    // The poller is woken before the wait, so it does not wait, and reports the wake-up once.
    poller.wake();
    poller.wait(&mut poll::Events::new(), None).expect("it is woken");
    assert_eq!(found(&poller), []);
}
