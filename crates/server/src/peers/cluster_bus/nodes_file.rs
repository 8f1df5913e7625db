//! nodes.conf on the disk: locked against other servers, read at the start, and replaced.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sleeve_cluster::nodes_conf::Contents;
use sleeve_cluster::state::{ClusterState, Options};
use sleeve_cluster::{NodeId, nodes_conf};
use sleeve_disk::own;

use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::cluster::host::time;
use crate::engine::cluster::options;
use crate::host::clock::Instant;
use crate::host::dice::secret_bytes;
use crate::host::log;

/// The permissions of a new nodes.conf, less the process's mask.
const MODE: u32 = 0o644;

/// The file in which this node keeps its cluster. No other server may have it open.
#[derive(Debug)]
pub(super) struct NodesFile {
    path: PathBuf,
    /// The open file, which holds the lock.
    locked: File,
}

impl NodesFile {
    /// Opens the file that the options name, or makes it, and locks it.
    ///
    /// # Errors
    /// Another server uses the file, and the errors of the system, in words for the operator.
    pub fn open(engine: &Engine) -> Result<Self, String> {
        let path = engine.config.resolve(&engine.config.text(Opt::ClusterConfigFile));
        let failed = |error: &io::Error| format!("Can't open {} in order to acquire a lock: {error}", path.display());
        let opened = own::open_or_create(&path, OpenOptions::new().write(true).create(true));
        let file = opened.map_err(|error| failed(&error))?;
        match lock(&file) {
            Ok(()) => Ok(Self { path, locked: file }),
            Err(Errno::AGAIN) => Err(format!(
                "Sorry, the cluster configuration file {} is already used by a different Redis Cluster node. Please make sure \
                 that different nodes use different cluster configuration files.",
                path.display()
            )),
            Err(error) => Err(format!("Impossible to lock {}: {error}", path.display())),
        }
    }

    /// Reads the state of this node. If the file is empty, the node is new, and has a random id.
    ///
    /// # Errors
    /// The file does not say which node this is, and the errors of the system.
    pub fn read(&self, engine: &Engine) -> Result<ClusterState, String> {
        let shown = self.path.display();
        let bytes = own::read(&self.path).map_err(|error| format!("Can't read {shown}: {error}"))?;
        let options = options::of(&engine.config);
        let contents = nodes_conf::read(&bytes, options.has_tls, time(Instant::now()))
            .map_err(|why| format!("Unrecoverable error: corrupted cluster config file {shown}: {why}"))?;
        let Some((Contents { me, nodes, slots, epochs }, repairs)) = contents else { return Ok(new_node(options)) };
        repairs.iter().for_each(|repair| log::warning(&format!("{shown}: {repair}")));
        log::notice(&format!("Node configuration loaded, I'm {me}"));
        Ok(ClusterState::restore(me, nodes, slots, epochs, options))
    }

    /// Replaces the file by this text, atomically. When it returns, the new file is on the disk.
    ///
    /// Every save is synced, also of a change that the other nodes would tell again. A file that is renamed before its bytes
    /// are on the disk may be empty after a power failure, and from an empty file this node would take a new id.
    ///
    /// # Errors
    /// The reason why the server has to end: without the file it might vote twice in one epoch after a restart.
    pub fn save(&mut self, text: &str) -> Result<(), String> {
        let failed =
            |error: io::Error| format!("Fatal: can't update cluster config file {}: {error}", self.path.display());
        own::replace(&self.path, text.as_bytes(), MODE).map_err(failed)?;
        let file = own::open(&self.path, OpenOptions::new().write(true)).map_err(failed)?;
        lock(&file).map_err(|error| failed(error.into()))?;
        self.locked = file;
        Ok(())
    }
}

impl Drop for NodesFile {
    /// Releases the lock. Closing the file does not do so while a child process that was just forked still has it open.
    fn drop(&mut self) {
        _ = flock(&self.locked, FlockOperation::Unlock);
    }
}

fn lock(file: &File) -> rustix::io::Result<()> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

fn new_node(options: Options) -> ClusterState {
    let mut id = [0; 20];
    secret_bytes(&mut id);
    let id = NodeId::new(id);
    log::notice(&format!("No cluster configuration found, I'm {id}"));
    ClusterState::new(id, options)
}
