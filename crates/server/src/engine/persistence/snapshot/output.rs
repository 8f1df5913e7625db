//! The encoding of a snapshot: as a snapshot file, which may be the base of an AOF, or as requests.
//!
//! The two forms have the same calls: records are added one by one, the bytes are gathered, and the caller takes them out
//! when there are enough. This module touches no file. It runs in the thread that writes the snapshot, with no shard locked.

use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_disk::aof::Options;
use sleeve_store::rdb::Version;
use sleeve_store::rdb::file::{About, Access, Format, Writer};
use sleeve_store::snapshot::{Record, Snapshot, SnapshotWriter};

use super::base_in_requests::Requests;
use crate::config::Opt;
use crate::engine::Engine;
use crate::engine::keyspace::key_clock;
use crate::engine::replication::{Place, RdbFilter, ReplicaForm};
use crate::host::clock::Instant;

/// The form in which a snapshot is written.
pub enum SnapshotForm {
    /// A file of its own.
    File,
    /// The base of an AOF, in the form of a snapshot.
    Base,
    /// The base of an AOF with these options, in the form of requests.
    Requests(Options),
    /// A stream for replicas that can load this form.
    Replicas(ReplicaForm),
}

/// The version of Valkey from which on it knows fields with deadlines.
const VALKEY_WITH_TIMED_FIELDS: u32 = 9;

/// The encoder of a snapshot's records, with the bytes that were not taken out yet.
pub enum SnapshotOutput {
    /// The format of snapshots.
    Rdb(Box<Writer>, SnapshotWriter, Box<dyn Fn(u32) -> Access + Send>),
    /// A snapshot file without keys.
    Functions(Box<Writer>),
    /// A snapshot file without keys and functions.
    Nothing(Box<Writer>),
    /// The form of requests.
    Requests(Box<Requests>),
}

/// Begins to encode a snapshot that stands for the journal up to an offset, and for this position in the replication stream,
/// if there is one.
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

/// Returns the function that makes the usage data of a key for the file: that of the kind by which the server evicts, as in
/// Redis.
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

    /// Returns the number of bytes that wait to be taken out.
    pub fn pending_len(&self) -> usize {
        match self {
            Self::Rdb(writer, ..) | Self::Functions(writer) | Self::Nothing(writer) => writer.pending_len(),
            Self::Requests(requests) => requests.pending_len(),
        }
    }

    /// Returns the memory of records that cannot be encoded before more arrive: the pending entries of a stream have to stand
    /// behind all its entries.
    pub fn held_len(&self) -> usize {
        match self {
            Self::Rdb(_, snapshot_writer, _) => snapshot_writer.held_len(),
            Self::Functions(_) | Self::Nothing(_) => 0,
            Self::Requests(requests) => requests.held_len(),
        }
    }

    /// Calls `take` with the bytes that were encoded since the last call.
    pub fn drain<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Rdb(writer, ..) | Self::Functions(writer) | Self::Nothing(writer) => writer.drain(take),
            Self::Requests(requests) => requests.drain(take),
        }
    }

    /// Encodes the end, and calls `take` with the remaining bytes.
    ///
    /// # Errors
    /// The format cannot express a record.
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
