//! Both ends of a slot, in every order and at the same time. Run under Miri, it finds races and lost memory.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Wake;
use std::thread;

use sleeve_wire::frame::Frame;

use super::super::testing::source;
use super::*;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn each_answer_goes_to_its_own_handle_in_any_order() {
    let mut source = source();
    let (targets, handles): (Vec<_>, Vec<_>) = (0..600).map(|_| source.pair(Name::UNKNOWN)).unzip();
    drop(source);
    let mut done = Completions::default();
    for (index, target) in targets.into_iter().enumerate().rev() {
        target.complete(Payload::of(format!(":{index}\r\n").as_bytes()), &mut done);
    }
    for (index, handle) in handles.into_iter().enumerate() {
        let payload = handle.take().ok().unwrap();
        assert_eq!(payload.frame(), Ok(Frame::Integer(index as i64)));
    }
}

#[test]
fn neighbours_of_one_task_share_one_wake_up() {
    let mut source = source();
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let (targets, mut handles): (Vec<_>, Vec<_>) = (0..10).map(|_| source.pair(Name::UNKNOWN)).unzip();
    for handle in &mut handles {
        assert!(handle.poll_ready(&mut context, true).is_pending());
        assert!(handle.poll_ready(&mut context, true).is_pending());
    }
    let mut done = Completions::default();
    for target in targets {
        target.complete(Payload::of(b"+OK\r\n"), &mut done);
    }
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    done.finish();
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(handles.iter().all(Handle::is_done));
}

#[test]
fn a_target_that_is_dropped_answers() {
    let (target, mut handle) = source().pair(Name::UNKNOWN);
    let count = Arc::new(Count::default());
    assert!(handle.poll_ready(&mut Context::from_waker(&Waker::from(count.clone())), true).is_pending());
    drop(target);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert!(handle.take().ok().unwrap().frame().is_err());
}

#[test]
fn a_task_is_called_and_waits_again() {
    let (target, mut handle) = source().pair(Name::UNKNOWN);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    assert!(target.call().is_none(), "nobody waits");
    assert!(handle.poll_ready(&mut Context::from_waker(&waker), false).is_pending());
    assert!(target.call().is_none(), "a thread cannot be called");
    for calls in 1..3 {
        assert!(handle.poll_ready(&mut Context::from_waker(&waker), true).is_pending());
        target.call().expect("a task waits").wake();
        assert_eq!(count.0.load(Ordering::SeqCst), calls);
        assert!(target.call().is_none(), "it is called already");
    }
    let mut done = Completions::default();
    target.complete(Payload::of(b"+OK\r\n"), &mut done);
    done.finish();
    // The task was called, so it polls again anyway, and need not be woken by the answer.
    assert_eq!(count.0.load(Ordering::SeqCst), 2);
    assert!(handle.is_done());
}

#[test]
fn only_errors_of_forgotten_commands_are_reported() {
    let mut source = source();
    let mut done = Completions::default();
    for (reply, reported) in [(&b"+OK\r\n"[..], 0), (b"-ERR no\r\n", 1)] {
        let (target, handle) = source.pair(Name::UNKNOWN);
        assert!(handle.forget().is_none());
        target.complete(Payload::of(reply), &mut done);
        assert_eq!(done.finish().len(), reported);
        let (target, handle) = source.pair(Name::UNKNOWN);
        drop(handle);
        target.complete(Payload::of(reply), &mut done);
        assert_eq!(done.finish().len(), 0);
    }
}

/// Lets both ends act at the same time, in every way that there is. Run under Miri, it finds races and lost memory.
#[test]
fn both_ends_may_act_at_the_same_time() {
    let rounds = if cfg!(miri) { 40 } else { 20_000 };
    let mut source = source();
    let (targets, handles): (Vec<_>, Vec<_>) = (0..rounds).map(|_| source.pair(Name::UNKNOWN)).unzip();
    drop(source);
    let answering = thread::spawn(move || {
        let mut done = Completions::default();
        let mut errors = 0;
        for (index, target) in targets.into_iter().enumerate() {
            let long = format!("-ERR {}\r\n", "x".repeat(index % 80));
            if index % 3 != 0
                && let Some(waker) = target.call()
            {
                waker.wake();
            }
            target.complete(Payload::of(long.as_bytes()), &mut done);
            if index % 7 == 0 {
                errors += done.finish().len();
            }
        }
        errors + done.finish().len()
    });
    let mut heard = 0;
    let mut forgotten = 0;
    for (index, mut handle) in handles.into_iter().enumerate() {
        let waker = Waker::from(Arc::new(Count::default()));
        let mut context = Context::from_waker(&waker);
        match index % 5 {
            0 => drop(handle),
            1 => forgotten += usize::from(handle.forget().is_none()),
            2 => {
                let _ = handle.poll_ready(&mut context, index % 2 == 0);
                drop(handle);
            }
            3 => {
                let _ = handle.poll_ready(&mut context, true);
                forgotten += usize::from(handle.forget().is_none());
            }
            _ => {
                while handle.poll_ready(&mut context, true).is_pending() {
                    thread::yield_now();
                }
                heard += usize::from(handle.take().ok().unwrap().frame().is_err());
            }
        }
    }
    assert_eq!(answering.join().unwrap(), forgotten);
    assert_eq!(heard, rounds / 5);
}

#[test]
fn short_and_long_replies_read_back() {
    for length in [0usize, 1, 9, 10, 21, 22, 23, 24, 29, 30, 31, 99, 100, 5000] {
        let text = vec![b'x'; length];
        let mut frame = format!("${length}\r\n").into_bytes();
        frame.extend_from_slice(&text);
        frame.extend_from_slice(b"\r\n");
        assert_eq!(Payload::of(&frame).frame(), Ok(Frame::Bulk(&text)));
        assert_eq!(Payload::shared(&frame).clone().frame(), Ok(Frame::Bulk(&text)));
    }
}

#[test]
fn an_error_reply_is_an_error() {
    let error = Payload::of(b"-WRONGTYPE no\r\n").into_error().unwrap();
    assert_eq!(error.code(), Some("WRONGTYPE"));
    assert!(Payload::of(b"+OK\r\n").into_error().is_none());
}

#[test]
fn a_payload_takes_half_a_cache_line() {
    assert_eq!(size_of::<Payload>(), 32);
}
