//! Recording what commands do: their effects go to the journal, in order, under the locks of the keys that they change.

use sleeve_wire::commands::Command;
use sleeve_wire::request::OwnedArgs;

use super::Cx;
use crate::config::Opt;
use crate::request::Request;

/// Recording effects. A command that changes something and says nothing here is recorded as it came.
impl Cx<'_> {
    /// Whether effects are wanted at all: if not, there is no need to put one into words.
    #[inline]
    pub fn is_recording(&self) -> bool {
        match self.state.executing {
            None => self.engine.journal.is_read(),
            // Who begins to read while a transaction runs sees none of it, never the second half.
            Some(_) => self.transaction.is_some(),
        }
    }

    /// Records an effect on the selected database in other words than the request's.
    pub fn record(&mut self, effect: &[&[u8]]) {
        self.is_recorded = true;
        if !self.is_unrecorded {
            self.append(self.state.database, effect);
        }
    }

    /// Whether the effects of the commands that follow are recorded: `redis.set_repl`.
    pub fn keep_record(&mut self, is_kept: bool) {
        self.is_unrecorded = !is_kept;
    }

    pub(super) fn append(&mut self, database: u32, effect: &[&[u8]]) {
        if !self.is_recording() {
            return;
        }
        match &mut self.transaction {
            Some(effects) => effects.push((database, OwnedArgs::collect(effect.iter().copied()))),
            None => self.engine.journal.append(database, effect.iter().copied()),
        }
    }

    /// Begins a command: nothing is changed and nothing recorded yet.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.changes = 0;
        self.is_recorded = false;
    }

    /// Ends a command: what it changed is counted and, unless it has said it in other words, recorded as it came.
    #[inline]
    pub(crate) fn end(&mut self, request: &Request<'_>) {
        if self.changes == 0 {
            return;
        }
        self.counters.changes.add(self.changes);
        if self.engine.config.memory(Opt::Maxmemory) != 0 {
            self.locks.weigh(&self.engine.estimate);
        }
        if !self.is_recorded && !self.is_unrecorded && self.is_recording() {
            let mut effect: Vec<&[u8]> = request.args.iter().collect();
            if !self.engine.names.are_own() {
                // Who reads the journal knows the commands by their own names.
                let top = request.row.parent.map_or(request.row, Command::row);
                effect.iter_mut().take(1).for_each(|name| *name = top.name.as_bytes());
            }
            self.append(self.state.database, &effect);
        }
        self.changes = 0;
    }

    /// Begins to gather effects for one piece of the journal, if anybody reads it.
    pub(crate) fn begin_transaction(&mut self) {
        self.transaction = self.engine.journal.is_read().then(Vec::new);
    }

    /// Records what was gathered. The locks of all that it changed are still held.
    pub(crate) fn end_transaction(&mut self) {
        self.engine.journal.append_transaction(&self.transaction.take().unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::context::session_state::State;
    use crate::engine::Engine;
    use crate::engine::clients::client_info::Arrival;
    use crate::execute::scratch::Desk;
    use crate::messaging::mail::Mailbox;
    use crate::request::output::Output;

    #[test]
    fn who_begins_to_read_while_a_transaction_runs_never_sees_half_of_it() {
        let engine = Engine::new(Config::default());
        let (desk, mut output) = (Desk::new(&engine), Output::default());
        let arrival = Arrival { address: "test:0".into(), local_address: "test:0".into(), descriptor: -1 };
        let mut state =
            State::new(engine.peers.enter(arrival, Arc::new(Mailbox::new(|| ())), 0), engine.acl.default_user());
        let mut cx = Cx::new(&engine, &desk.counters, &mut state, &mut output, desk.now, |_, _| ());
        cx.state.executing = Some(2);
        cx.begin_transaction();
        cx.record(&[b"DEL", b"first"]);
        let mut reader = engine.journal.subscribe();
        cx.record(&[b"DEL", b"second"]);
        cx.end_transaction();
        cx.state.executing = None;
        let mut journal = Vec::new();
        assert_eq!(reader.read(&mut journal), Ok(0));
        cx.record(&[b"DEL", b"third"]);
        reader.read(&mut journal).expect("nothing was lost");
        assert!(journal.ends_with(b"$5\r\nthird\r\n"));
    }
}
