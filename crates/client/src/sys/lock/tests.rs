//! Tests of the locks with several threads: no update is lost, no notification is missed, and a wait ends at its deadline.

use std::thread;
use std::time::{Duration, Instant};

use super::{Condvar, Mutex, MutexGuard, RwLock};

const THREADS: u64 = 4;
const ROUNDS: u64 = if cfg!(miri) { 50 } else { 50_000 };

/// A timeout so long that only a wake-up ends the wait.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn no_addition_of_many_threads_is_lost() {
    let count = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let mut count = count.lock();
                    let before = *count;
                    if round % 64 == 0 {
                        // The other threads get time to sleep at the mutex.
                        thread::yield_now();
                    }
                    *count = before + 1;
                }
            });
        }
    });
    assert_eq!(count.into_inner(), THREADS * ROUNDS);
}

#[test]
fn a_taken_lock_is_refused_and_lent() {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let mut guard = COUNT.lock();
    assert!(thread::scope(|scope| scope.spawn(|| COUNT.try_lock().is_none()).join().expect("it looks")));
    MutexGuard::unlocked(&mut guard, || *COUNT.try_lock().expect("it is free") += 1);
    assert_eq!(*guard, 1);
}

#[test]
fn the_lock_of_a_thread_that_panics_is_free() {
    let (mutex, shared) = (Mutex::new(0), RwLock::new(0));
    thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let (_mutex, _shared) = (mutex.lock(), shared.write());
            panic!("while it has them");
        });
        assert!(panics.join().is_err());
    });
    *mutex.lock() += 1;
    *shared.write() += 1;
    assert_eq!((*mutex.lock(), *shared.read()), (1, 1));
}

#[test]
fn each_of_two_threads_has_every_other_turn() {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    let play = |own: u64| {
        for _ in 0..ROUNDS / 10 {
            let mut turn = turn.lock();
            while *turn % 2 != own {
                changed.wait(&mut turn);
            }
            *turn += 1;
            drop(turn);
            changed.notify_one();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(0));
        scope.spawn(|| play(1));
    });
    assert_eq!(turn.into_inner(), ROUNDS / 10 * 2);
}

#[test]
fn one_notification_wakes_all_waiting_threads() {
    let (state, changed) = (Mutex::new((0, false)), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut state = state.lock();
                state.0 += 1;
                while !state.1 {
                    assert!(!changed.wait_until(&mut state, Instant::now() + LONG).timed_out());
                }
            });
        }
        // A thread that has counted itself sleeps, or is about to, once the mutex is free again.
        while state.lock().0 < THREADS {
            thread::yield_now();
        }
        state.lock().1 = true;
        changed.notify_all();
    });
}

#[test]
fn a_notification_before_the_wait_is_none_and_the_time_is_up_at_the_end() {
    let (mutex, changed) = (Mutex::new(()), Condvar::new());
    changed.notify_one();
    changed.notify_all();
    let mut guard = mutex.lock();
    for time in [Duration::ZERO, Duration::from_millis(5)] {
        let until = Instant::now() + time;
        while !changed.wait_until(&mut guard, until).timed_out() {}
        assert!(Instant::now() >= until);
    }
}

#[test]
fn a_wait_whose_time_is_up_leaves_the_lock_to_others_meanwhile() {
    let (mutex, changed) = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        let mut was_lent = mutex.lock();
        scope.spawn(|| *mutex.lock() = true);
        while !*was_lent {
            changed.wait_until(&mut was_lent, Instant::now() + Duration::from_millis(1));
        }
    });
}
