//! Tests of the rules of order, against every interleaving that two connections can give, and against rules of which one is
//! missing.

use std::collections::VecDeque;

use super::order::Order;
use super::touch::Touch;
use crate::pipe::testing::Dice;

/// The rule that is missing in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Large calls leave at once, without a fence.
    Fences,
    /// Only large calls take the lane; calls on the same keys do not follow them.
    Following,
    /// A call is forgotten when its caller has got a timeout error.
    Lateness,
}

#[derive(Clone, Copy)]
enum Sent {
    Call(usize),
    /// A call that took the lane, with its number there.
    OnLane(usize, u64),
    Fence,
}

/// A connection: the calls that were sent and are not executed, and those that were executed and are not answered.
#[derive(Default)]
struct Connection {
    sent: VecDeque<Sent>,
    executed: VecDeque<Sent>,
}

impl Connection {
    fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.executed.is_empty()
    }
}

/// One caller, two connections and a server.
struct World {
    dice: Dice,
    without: Without,
    order: Order<usize>,
    shared: Connection,
    lane: Connection,
    /// The keys that each call touches, and whether it is large.
    calls: Vec<(Touch, bool)>,
    /// The calls in the order in which they were executed.
    history: Vec<usize>,
}

fn conflict(one: &Touch, other: &Touch) -> bool {
    match (one, other) {
        (Touch::Nothing, _) | (_, Touch::Nothing) => false,
        (Touch::Everything, _) | (_, Touch::Everything) => true,
        (Touch::Keys(one), Touch::Keys(other)) => one.iter().any(|key| other.contains(key)),
    }
}

impl World {
    fn new(seed: u64, without: Without) -> Self {
        let (order, shared, lane, calls, history) = Default::default();
        Self { dice: Dice::new(seed), without, order, shared, lane, calls, history }
    }

    fn call(&mut self) {
        let key = |dice: &mut Dice| dice.roll(4) as u64;
        let touch = match self.dice.roll(12) {
            0 => Touch::Nothing,
            1 => Touch::Everything,
            2 | 3 => Touch::Keys(vec![key(&mut self.dice), key(&mut self.dice)]),
            _ => Touch::Keys(vec![key(&mut self.dice)]),
        };
        let is_large = self.dice.roll(3) == 0;
        let call = self.calls.len();
        self.calls.push((touch.clone(), is_large));
        let takes_lane = match self.without {
            Without::Following => is_large,
            _ => self.order.takes_lane(&touch, is_large),
        };
        if !takes_lane {
            return self.shared.sent.push_back(Sent::Call(call));
        }
        let is_clear = self.without == Without::Fences || self.shared.is_idle();
        self.order.enter(call, touch, is_clear);
        self.work();
    }

    fn work(&mut self) {
        while let Some((number, call)) = self.order.next_ready() {
            self.lane.sent.push_back(Sent::OnLane(call, number));
        }
        if self.order.begin_fence().is_some() {
            self.shared.sent.push_back(Sent::Fence);
        }
    }

    fn execute(&mut self, on_lane: bool) {
        let connection = if on_lane { &mut self.lane } else { &mut self.shared };
        if let Some(sent) = connection.sent.pop_front() {
            if let Sent::Call(call) | Sent::OnLane(call, _) = sent {
                self.history.push(call);
            }
            connection.executed.push_back(sent);
        }
    }

    fn answer(&mut self, on_lane: bool) {
        let connection = if on_lane { &mut self.lane } else { &mut self.shared };
        match connection.executed.pop_front() {
            Some(Sent::OnLane(_, number)) => self.order.answered(number),
            Some(Sent::Fence) => self.order.pass_fence(),
            Some(Sent::Call(_)) | None => {}
        }
        self.work();
    }

    /// Times out a call on the lane, which may still be executed.
    fn time_out(&mut self) {
        let Some(place) = self.lane.sent.len().checked_sub(1).map(|last| self.dice.roll(last + 1)) else { return };
        if let Some(Sent::OnLane(_, number)) = self.lane.sent.get(place) {
            match self.without {
                Without::Lateness => self.order.gone(*number),
                _ => self.order.timed_out(*number),
            }
        }
    }

    /// Loses the shared connection, with the calls that have left on it and were not executed.
    fn lose_shared(&mut self) {
        let lost = self.shared.sent.drain(..).chain(self.shared.executed.drain(..));
        if lost.filter(|sent| matches!(sent, Sent::Fence)).count() > 0 {
            self.order.lose_fence();
        }
        self.work();
    }

    fn run(mut self) -> Self {
        for _ in 0..120 {
            match self.dice.roll(20) {
                0..8 => self.call(),
                8..11 => self.execute(false),
                11..13 => self.execute(true),
                13..16 => self.answer(false),
                16..18 => self.answer(true),
                18 => self.time_out(),
                _ if self.dice.roll(4) == 0 => self.lose_shared(),
                _ => {}
            }
        }
        while !(self.shared.is_idle() && self.lane.is_idle()) {
            for on_lane in [true, false] {
                self.execute(on_lane);
                self.answer(on_lane);
            }
        }
        self
    }

    /// Returns two calls of which the later one was executed first, although the rules forbid it.
    fn violation(&self) -> Option<(usize, usize)> {
        let places = self.history.iter().enumerate();
        places
            .flat_map(|(place, &first)| self.history.iter().skip(place + 1).map(move |&then| (then, first)))
            .filter(|(earlier, later)| earlier < later)
            .find(|&(earlier, later)| {
                let ((touch, _), (other, is_large)) = (&self.calls[earlier], &self.calls[later]);
                // A large call overtakes no other call, of any key.
                conflict(touch, other) || (*is_large && *other != Touch::Nothing)
            })
    }
}

#[test]
fn calls_on_one_key_keep_their_order_and_large_calls_overtake_none() {
    for seed in 0..3000 {
        let world = World::new(seed, Without::Nothing).run();
        assert_eq!(world.violation(), None, "seed {seed}: executed {:?}", world.history);
        assert!(world.order.has_all_left() && (world.order.is_empty() || world.order.has_late()), "seed {seed}");
    }
}

#[test]
fn each_rule_is_needed() {
    for (without, name) in
        [(Without::Fences, "fences"), (Without::Following, "following"), (Without::Lateness, "lateness")]
    {
        let violations = (0..3000).filter(|&seed| World::new(seed, without).run().violation().is_some()).count();
        assert!(violations > 0, "without {name} nothing goes wrong, so it is not tested");
    }
}

#[test]
fn a_late_call_is_over_when_a_later_one_is_answered_or_none_is_left() {
    let key = || Touch::Keys(vec![1]);
    let mut order = Order::default();
    for call in 0..3 {
        order.enter(call, key(), true);
    }
    while order.next_ready().is_some() {}
    order.timed_out(0);
    assert!(order.takes_lane(&key(), false));
    order.answered(1);
    assert!(!order.has_late() && order.len() == 1, "the first is over with the second");
    order.timed_out(2);
    assert!(order.takes_lane(&key(), false) && order.has_late());
    order.settle();
    assert!(order.is_empty() && !order.takes_lane(&key(), false));
}

#[test]
fn a_fence_stands_for_those_that_waited_when_it_was_sent() {
    let mut order = Order::default();
    order.enter("a", Touch::Everything, false);
    assert_eq!(order.begin_fence(), Some(&"a"));
    order.enter("b", Touch::Everything, true);
    assert_eq!(order.begin_fence(), None, "one at a time");
    order.pass_fence();
    assert_eq!(order.next_ready(), Some((0, "a")));
    assert_eq!(order.next_ready(), None, "the other has to wait for the next");
    assert_eq!(order.begin_fence(), Some(&"b"));
    order.lose_fence();
    assert_eq!(order.begin_fence(), Some(&"b"), "it is sent again");
    assert_eq!(order.fail_fence(), ["b"]);
    order.answered(0);
    assert!(order.is_empty());
}
