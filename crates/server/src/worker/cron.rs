//! The periodic work of a worker: its share of the background work, timeouts of blocked clients, ends of pauses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Worker;
use crate::engine::replication::primary;
use crate::execute::scratch::Scratch;
use crate::host::clock;
use crate::host::clock::Instant;
use crate::session::Session;

impl Worker {
    /// Runs the background work between two waits, and measures its time.
    pub(super) fn tick(self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        let (began, counters) = (clock::ticks(), Arc::clone(&scratch.counters));
        let ticked = self.work_in_background(scratch);
        counters.background_ticks.add(clock::ticks().saturating_sub(began));
        ticked
    }

    fn work_in_background(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        let engine = Arc::clone(&self.engine);
        let now = scratch.now;
        self.connections.driver.accept_again();
        let period_ms = 1_000 / u64::from(engine.config.rounds_a_second(engine.clients.list.len()));
        let is_stopped = engine.debug.pauses_cron.load(Ordering::Relaxed);
        if !is_stopped {
            engine.sample(now);
            engine.persistence.snapshots.follow_file_rules(&engine, now);
            primary::replication_cron(&engine, now);
        }
        let expiry_in_ms = match self.is_wanted() {
            true if !is_stopped => self.expiry.step(scratch.thread_context()),
            _ => period_ms,
        };
        self.next_tick_ms = now.monotonic_ms() + expiry_in_ms.min(period_ms);
        if engine.clients.pause.is_begun() {
            if engine.clients.pause.held(now.monotonic_ms()).is_none() {
                self = self.resume(scratch)?;
            } else {
                let pause_left_ms = engine.clients.pause.until_ms().saturating_sub(now.monotonic_ms()).max(1);
                self.next_tick_ms = self.next_tick_ms.min(now.monotonic_ms() + pause_left_ms);
            }
        } else if self.connections.sessions.iter().flatten().any(|session| session.is_paused()) {
            self = self.resume(scratch)?;
        }
        if !is_stopped {
            self.look_after_clients(scratch);
        }
        Some(self)
    }

    /// Checks the clients that wait, their memory and, once a second, their time limits.
    fn look_after_clients(&mut self, scratch: &mut Scratch) {
        let now = scratch.now;
        if self.connections.gate.followers.take_late() {
            self.connections.tell_synced();
            self.connections.send_queued(scratch);
        }
        self.connections.weigh_all(scratch);
        if now.monotonic_ms() >= self.next_idle_check_ms {
            self.next_idle_check_ms = now.monotonic_ms() + 1_000;
            self.connections.close_idle(scratch);
            self.connections.close_unread(scratch);
            self.connections.give_back();
        }
    }

    /// Follows the wanted number of workers: takes its share of the background work. If the worker is not wanted any more,
    /// returns false once it has had no clients since its last tick, so that no sent bytes are still on their way to the
    /// kernel.
    fn is_wanted(&mut self) -> bool {
        let workers = self.pool.wanted();
        if self.number < workers {
            self.is_done = false;
            self.expiry.share_with(workers);
            return true;
        }
        let is_free = self.connections.home.clients.load(Ordering::Relaxed) == 0;
        if std::mem::replace(&mut self.is_done, is_free) && is_free {
            self.stopping |= self.pool.retire(&self.connections.home);
        }
        false
    }

    /// Ends the waits of clients that are past their deadlines.
    pub(super) fn time_out(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        scratch.now = Instant::now();
        while let Some(&(deadline_ms, id)) = self.connections.deadlines.first()
            && deadline_ms <= scratch.now.monotonic_ms()
        {
            self.connections.deadlines.pop_first();
            self = self.release(id, scratch, Session::time_out)?;
        }
        Some(self)
    }

    /// Lets paused sessions go on. If one of them runs for long, those after it go on at the next tick.
    pub(super) fn resume(mut self: Box<Self>, scratch: &mut Scratch) -> Option<Box<Self>> {
        scratch.now = Instant::now();
        for token in 0..self.connections.sessions.len() {
            if self.connections.sessions[token].as_ref().is_some_and(|session| session.is_paused()) {
                self = self.with_session(token, scratch, Session::resume)?;
                self.connections.driver.hold(token, false);
                self.connections.send(token, scratch);
            }
        }
        Some(self)
    }
}
