//! The client's pipe: requests gathered, replies cut and handed to their callers, and taken by them.

use sleeve::PipeByHand;

use crate::counting::{bench, bench_rounds, key, request};

/// Calls that are on their way together, and how often.
const CALLS: usize = 64;
const ROUNDS: usize = 16;

/// Runs all of this file.
pub fn run() {
    let requests: Vec<Vec<u8>> = (0..CALLS).map(|number| request(&["GET", &key(number)])).collect();
    let replies = b"$16\r\n0123456789abcdef\r\n".repeat(CALLS);
    let push = |pipe: &mut PipeByHand| {
        requests.iter().for_each(|request| pipe.push(request));
        assert!(pipe.send() > 0);
    };
    let answer = |pipe: &mut PipeByHand| assert!(pipe.answer(&replies).is_ok());
    let take = |pipe: &mut PipeByHand| assert_eq!(pipe.take(), CALLS * 16);
    let mut pipe = PipeByHand::default();
    push(&mut pipe);
    let drain = |pipe: &mut PipeByHand| {
        answer(pipe);
        take(pipe);
    };
    bench_rounds("pipe/push", CALLS, ROUNDS, &mut pipe, drain, push);
    drain(&mut pipe);
    bench_rounds(
        "pipe/complete",
        CALLS,
        ROUNDS,
        &mut (&mut pipe, 0),
        |(pipe, answered)| {
            assert_eq!(pipe.take(), *answered);
            *answered = CALLS * 16;
            push(pipe);
        },
        |(pipe, _)| answer(pipe),
    );
    take(&mut pipe);
    let complete = |pipe: &mut PipeByHand| {
        push(pipe);
        answer(pipe);
    };
    bench_rounds("pipe/take", CALLS, ROUNDS, &mut pipe, complete, take);
    bench("pipe/alone", CALLS, || {
        for request in &requests {
            pipe.push(request);
            assert!(pipe.send() > 0);
            assert!(pipe.answer(b"+OK\r\n").is_ok());
            assert_eq!(pipe.take(), 2);
        }
    });
}
