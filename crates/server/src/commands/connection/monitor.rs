//! MONITOR: a client that is shown the commands of all others as they run.
//!
//! This module registers the client. The thread that executes a command publishes its line (`context/publish`), and pays for
//! it only if there is a monitor.

use crate::context::Cx;
use crate::messaging::message::Kind;
use crate::request::error::{Error, Outcome};

/// MONITOR. A client that is shown them already is not answered, as in Redis, and nor is a replica.
pub fn monitor(cx: &mut Cx<'_>) -> Outcome {
    if cx.state.is_replica() {
        return Ok(());
    }
    if !cx.may_block() {
        // It would be shown commands among the replies of its transaction.
        return Err(Error::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let subscriptions = cx.state.subscriptions.get_or_insert_default();
    if !subscriptions.contains(Kind::Monitor, b"") {
        let (name, since) = cx.engine.pubsub.subscribe(Kind::Monitor, b"", &cx.state.client.mailbox);
        subscriptions.enter(Kind::Monitor, name, since);
        cx.reply().ok();
    }
    Ok(())
}
