//! How a snapshot is put into bytes: as a snapshot file, which may be the base of a log, or as requests.
//!
//! The two are twins with the same calls: records go in one by one, bytes gather, and the caller takes them out when enough of
//! them wait. No file is touched here. The thread that writes the snapshot, with no shard locked.

use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_disk::aof::Options;
use sleeve_store::rdb::Version;
use sleeve_store::rdb::file::{About, Access, Format, Writer};
use sleeve_store::snapshot::{Record, Snapshot, SnapshotWriter};

use super::requests::Requests;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::keyspace::key_clock;
use crate::engine::replication::{Place, RdbFilter, ReplicaForm};
use crate::host::clock::Instant;

/// The form in which a snapshot is written.
pub enum SnapshotForm {
    /// A file of its own.
    File,
    /// The base of a log, as a snapshot.
    Base,
    /// The base of a log that is written like this, as requests.
    Requests(Options),
    /// A stream for replicas that can load this form.
    Replicas(ReplicaForm),
}

/// From this version on a Valkey knows of fields with deadlines.
const VALKEY_WITH_TIMED_FIELDS: u32 = 9;

/// The records of a snapshot, as bytes that wait for the disk.
pub enum SnapshotOutput {
    /// In the format of snapshots.
    Rdb(Box<Writer>, SnapshotWriter, Box<dyn Fn(u32) -> Access + Send>),
    /// A snapshot file without keys.
    Functions(Box<Writer>),
    /// A snapshot file without keys and functions.
    Nothing(Box<Writer>),
    /// In requests.
    Requests(Box<Requests>),
}

/// Begins to write a snapshot that stands for the journal up to an offset, and for this place in the stream to replicas, if
/// there is one.
pub(in crate::engine::persistence) fn begin_output(
    engine: &Engine,
    form: SnapshotForm,
    snapshot: &Snapshot,
    (offset, place): (u64, Option<Place>),
    now: Instant,
) -> Result<SnapshotOutput, String> {
    let now_s = now.wall_ms() / 1_000;
    let is_log_base = matches!(form, SnapshotForm::Base);
    let (version, filter) = match form {
        SnapshotForm::File | SnapshotForm::Base => (snapshot_version(engine, snapshot), RdbFilter::All),
        SnapshotForm::Replicas(form) => (version_for(form, snapshot)?, form.filter),
        SnapshotForm::Requests(options) => {
            return Ok(SnapshotOutput::Requests(Box::new(Requests::begin(&options, offset, now_s))));
        }
    };
    let mut writer = Writer::new(snapshot_format(engine, version));
    writer.about(&About {
        server_version: crate::REDIS_VERSION,
        written_s: now_s,
        used_memory: engine.used_bytes(),
        is_log_base,
    });
    if is_log_base {
        writer.aux(BASE_OFFSET_FIELD, offset.to_string().as_bytes());
    }
    if let Some(place) = place {
        place.write(&mut writer);
    }
    match filter {
        RdbFilter::All => {}
        RdbFilter::Functions => return Ok(SnapshotOutput::Functions(Box::new(writer))),
        RdbFilter::Nothing => return Ok(SnapshotOutput::Nothing(Box::new(writer))),
    }
    let snapshot_writer = SnapshotWriter::new(snapshot.sizes());
    Ok(SnapshotOutput::Rdb(Box::new(writer), snapshot_writer, access_shown(engine, now)))
}

/// Returns the version of the format that the options ask for.
fn snapshot_version(engine: &Engine, snapshot: &Snapshot) -> Version {
    match (snapshot.has_timed_fields(), snapshot.needs_newest_format(), engine.config.number(Opt::RdbFormat)) {
        (false, false, _) => Version::Ten,
        (true, false, 0) => Version::Twelve,
        (_, true, 0) => Version::Thirteen,
        _ => Version::Valkey80,
    }
}

/// Returns the format of a snapshot of this version, as the options say.
fn snapshot_format(engine: &Engine, version: Version) -> Format {
    let (is_compressing, is_summing) = (engine.config.flag(Opt::Rdbcompression), engine.config.flag(Opt::Rdbchecksum));
    Format { version, is_compressing, is_summing }
}

/// Returns the usage data of keys that is written: the one that the server evicts by, as in Redis.
fn access_shown(engine: &Engine, now: Instant) -> Box<dyn Fn(u32) -> Access + Send> {
    let policy = engine.config.maxmemory_policy();
    if policy.is_lfu() {
        Box::new(|clock| Access::Frequency(clock as u8))
    } else if policy.is_lru() {
        Box::new(move |clock| Access::Idle(u64::from(key_clock::idle_s(clock, now))))
    } else {
        Box::new(|_| Access::Unknown)
    }
}

/// Returns the version of the format that replicas can load.
fn version_for(form: ReplicaForm, snapshot: &Snapshot) -> Result<Version, String> {
    match form.valkey {
        None if snapshot.needs_newest_format() => Ok(Version::Thirteen),
        Some(version) if snapshot.needs_newest_format() => Err(format!(
            "streams know ids of their producers' messages, which a replica that is Valkey {version} cannot load"
        )),
        _ if !snapshot.has_timed_fields() => Ok(Version::Ten),
        None => Ok(Version::Twelve),
        Some(version) if version >= VALKEY_WITH_TIMED_FIELDS => Ok(Version::Valkey80),
        Some(version) => Err(format!(
            "fields of hashes have deadlines, which a replica that is Valkey {version} cannot load; it needs Valkey \
             {VALKEY_WITH_TIMED_FIELDS}"
        )),
    }
}

impl SnapshotOutput {
    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8]) {
        match self {
            Self::Rdb(writer, ..) | Self::Functions(writer) => writer.function(code),
            Self::Nothing(_) => {}
            Self::Requests(requests) => requests.function(code),
        }
    }

    /// Writes a record.
    pub fn write(&mut self, record: Record<'_>) {
        match self {
            Self::Rdb(writer, snapshot_writer, access) => snapshot_writer.write(writer, record, &*access),
            Self::Functions(_) | Self::Nothing(_) => {}
            Self::Requests(requests) => requests.write(record),
        }
    }

    /// Returns how many keys were written.
    pub fn keys_len(&self) -> u64 {
        match self {
            Self::Rdb(_, snapshot_writer, _) => snapshot_writer.keys_len(),
            Self::Functions(_) | Self::Nothing(_) => 0,
            Self::Requests(requests) => requests.keys_len(),
        }
    }

    /// Bytes that wait to be taken out.
    pub fn pending_len(&self) -> usize {
        match self {
            Self::Rdb(writer, ..) | Self::Functions(writer) | Self::Nothing(writer) => writer.pending_len(),
            Self::Requests(requests) => requests.pending_len(),
        }
    }

    /// Returns the bytes of memory of records that cannot be taken out before more arrive: the pending entries of a stream
    /// stand behind all its entries.
    pub fn held_len(&self) -> usize {
        match self {
            Self::Rdb(_, snapshot_writer, _) => snapshot_writer.held_len(),
            Self::Functions(_) | Self::Nothing(_) => 0,
            Self::Requests(requests) => requests.held_len(),
        }
    }

    /// Gives out the bytes that were written since the last call.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Rdb(writer, ..) | Self::Functions(writer) | Self::Nothing(writer) => writer.drain(take),
            Self::Requests(requests) => requests.drain(take),
        }
    }

    /// Writes the end, and gives out the bytes that are left.
    ///
    /// # Errors
    /// The format cannot express a record that was written.
    pub fn end<R>(self, take: impl FnOnce(&[u8]) -> R) -> Result<R, String> {
        match self {
            Self::Rdb(mut writer, ..) | Self::Functions(mut writer) | Self::Nothing(mut writer) => {
                writer.end().map_err(|outdated| outdated.to_string())?;
                Ok(writer.drain(take))
            }
            Self::Requests(requests) => Ok(take(&requests.end())),
        }
    }
}
