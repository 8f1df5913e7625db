//! What a running command may publish: messages, and events about keys.

use crate::config::{Class as ClientClass, Config};
use crate::cx::Cx;
use crate::message::Kind;

/// Bytes of messages that may wait for an embedded listener that does not look, 0 for no bound.
pub fn waiting_bytes_max(config: &Config) -> u64 {
    config.output_limit(ClientClass::Pubsub).hard_bytes
}

impl Cx<'_> {
    /// Publishes a message to a channel or shard channel; to how many.
    pub fn publish(&mut self, kind: Kind, channel: &[u8], payload: &[u8]) -> usize {
        let bytes_max = waiting_bytes_max(&self.engine.config);
        let by = (self.state.own(), &mut self.outbox, bytes_max);
        self.engine.pubsub.publish((kind, channel), payload, by)
    }

    /// Writes what the client has published to itself, behind the reply of the command that did it.
    #[cold]
    pub fn push_own(&mut self) {
        for bytes in self.outbox.own.drain(..) {
            self.out.push_shared(&bytes);
        }
    }
}
