//! CLUSTER, and the commands by which clients of a cluster describe their connection. There is no cluster, and every reply is
//! that of a Redis server with cluster support disabled. Only READONLY has an effect: a client that can be redirected from a
//! replica to its primary may read from the replica.

use std::sync::atomic::Ordering;

use crate::context::Cx;
use crate::request::error::{Error, Outcome};

/// READONLY and READWRITE
pub fn read_only(cx: &mut Cx<'_>, reads_replicas: bool) -> Outcome {
    if !cx.state.client.settings.redirects.load(Ordering::Relaxed) {
        return disabled();
    }
    cx.state.client.settings.reads_replicas.store(reads_replicas, Ordering::Relaxed);
    cx.reply().ok();
    Ok(())
}

/// Refuses all subcommands of CLUSTER, including HELP, and ASKING.
pub fn disabled() -> Outcome {
    Err(Error::fixed("ERR This instance has cluster support disabled"))
}
