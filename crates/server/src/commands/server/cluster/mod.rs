//! CLUSTER, and the commands by which clients of a cluster describe their connection: READONLY, READWRITE and ASKING.
//!
//! A server with `cluster-enabled no` refuses all of them as Redis does, HELP included. Only READONLY has an effect there: a
//! client that can be redirected from a replica to its primary may read from the replica.
//!
//! | file | contents |
//! | --- | --- |
//! | `change` | The subcommands that change the cluster. |
//! | `keys` | The subcommands about keys and slots. |
//! | `show` | The subcommands that describe the cluster. |
//! | `slot_stats` | CLUSTER SLOT-STATS. |

pub mod change;
pub mod keys;
pub mod show;
pub mod slot_stats;

use std::sync::atomic::Ordering;

use sleeve_wire::commands::Command;

use crate::commands::command::help;
use crate::context::Cx;
use crate::engine::Engine;
use crate::engine::cluster::Cluster;
use crate::request::Request;
use crate::request::error::{Error, Outcome};

/// The refusal of a server that is no node of a cluster.
const DISABLED: Error = Error::fixed("ERR This instance has cluster support disabled");

/// Returns this server's cluster.
///
/// # Errors
/// The server is no node of a cluster.
fn enabled(engine: &Engine) -> Result<&Cluster, Error> {
    engine.cluster.get().ok_or(DISABLED)
}

/// READONLY and READWRITE
pub fn read_only(cx: &mut Cx<'_>, reads_replicas: bool) -> Outcome {
    if cx.engine.cluster.get().is_none() && !cx.state.client.settings.redirects.load(Ordering::Relaxed) {
        return Err(DISABLED);
    }
    cx.state.client.settings.reads_replicas.store(reads_replicas, Ordering::Relaxed);
    cx.reply().ok();
    Ok(())
}

/// ASKING
pub fn asking(cx: &mut Cx<'_>) -> Outcome {
    enabled(cx.engine)?;
    cx.state.origin.note_asking();
    cx.reply().ok();
    Ok(())
}

/// CLUSTER HELP
pub fn help(cx: &mut Cx<'_>) -> Outcome {
    enabled(cx.engine)?;
    help::help(cx, Command::Cluster)
}

/// Returns the error for more arguments than a subcommand takes.
fn too_many(request: Request<'_>) -> Error {
    Error::subcommand_syntax("CLUSTER", request.arg(1))
}
