//! A node before it speaks with others.

use std::sync::Arc;

use sleeve_cluster::admin;

use super::actions;
use super::nodes_file::NodesFile;
use crate::config::{Opt, load};
use crate::engine::Engine;
use crate::engine::cluster::Cluster;
use crate::engine::cluster::host::{ServerHost, time};
use crate::engine::journal::BatchBuffer;
use crate::engine::keyspace::all_shards;
use crate::host::clock::Instant;
use crate::host::dice::Dice;
use crate::net::{Listener, listeners};

/// A node that has not begun to speak with others: its nodes.conf, and the sockets at which it is to accept them. Links are
/// accepted when the thread runs.
#[derive(Debug)]
pub struct NewNode {
    pub(super) file: NodesFile,
    pub(super) doors: Vec<Arc<Listener>>,
}

/// Makes this server a node of the cluster that its nodes.conf describes, and opens the sockets for other nodes. Called before
/// the data is loaded, so that a file or a port in use ends the start, and sets the option `replicaof` of a replica, by which
/// the data is loaded as a replica's: no key expires, and the primary's stream can go on behind it. Returns None without
/// `cluster-enabled`.
///
/// # Errors
/// The file cannot be used, or an address not be opened, in words for the operator.
pub fn join(engine: &Engine) -> Result<Option<NewNode>, String> {
    if !engine.config.flag(Opt::ClusterEnabled) {
        return Ok(None);
    }
    let file = NodesFile::open(engine)?;
    let state = file.read(engine)?;
    let port = load::bus_port(&engine.config)?;
    let opened = listeners::open_bus(&engine.config, port, engine.config.flag(Opt::TlsCluster));
    let doors = opened.map_err(|error| format!("Failed listening on port {port} (cluster), aborting: {error}"))?;
    if let Some((host, port)) = state.primary_address() {
        actions::note_primary(engine, &[host.as_bytes(), port.to_string().as_bytes()]);
    }
    engine.join_cluster(Cluster::new(state));
    Ok(Some(NewNode { file, doors }))
}

/// Takes the slots of the loaded keys that nodes.conf does not give to this node. Otherwise no client could reach them.
pub(super) fn adopt_keys(engine: &Engine, dice: &Dice) {
    let Some(cluster) = engine.cluster.get() else { return };
    let (buffer, now) = (BatchBuffer::default(), Instant::now());
    let mut locks = all_shards::lock_all(engine, &buffer);
    let mut host = ServerHost::new(engine, &mut locks, dice, now);
    // The command refuses nothing.
    _ = admin::operate(&mut cluster.state.lock(), time(now), &mut host, admin::adopt_keys);
}
