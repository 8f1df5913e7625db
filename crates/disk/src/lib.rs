//! The data that outlive the process: the few calls to a file system with their twins, and the folder of the append-only file
//! (AOF).
//!
//! # The rooms, from top to bottom
//!
//! A room uses only rooms below it.
//!
//! | room | contents |
//! | --- | --- |
//! | `aof` | An AOF written: blocks, syncs, rewrites, healing. |
//! | `replay` | An AOF read back: whole pieces, in order, and the fault of the first file that has one. |
//! | `format` | The bytes of an AOF's files: the manifest, the lines between requests, the sum. |
//! | `disk` | The calls to a file system: the machine's own, in memory, and one that forgets the data that a power cut may take. |
//! | `own` | Which paths are this program's own to change, and the errors for others. |
//! | `release` | The room of large files that have lost their names, given back in steps. |
//!
//! # A start
//!
//! ```
//! use std::io::IoSlice;
//! use std::sync::Arc;
//! use sleeve_disk::disk::{Disk, Open, memory::MemoryDisk};
//! use sleeve_disk::format::manifest::Format;
//! use sleeve_disk::aof::{Folder, NewBase, Options};
//! use sleeve_disk::replay::{self, Step};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
//! let options = Options {
//!     folder: "appendonlydir".into(),
//!     name: "appendonly.aof".to_owned(),
//!     checksums: true,
//!     timestamps: false,
//!     salt: 4,
//! };
//!
//! // Nothing is there: a log begins with a base, here a snapshot without a key.
//! let folder = Folder::open(disk.clone(), options.clone(), std::process::id())?;
//! assert!(folder.is_empty());
//! let mut log = folder.wait(0)?;
//! let file = disk.open("appendonlydir/temp-base".as_ref(), Open::Create)?;
//! file.append(&[IoSlice::new(b"REDIS0010\xff\0\0\0\0\0\0\0\0")])?;
//! file.sync()?;
//! let base = NewBase { file: "appendonlydir/temp-base".into(), format: Format::Rdb, stands_for: 0 };
//! let rewritten = log.rewrite(base, 0)?.run()?;
//! log.rewritten(rewritten);
//!
//! // The journal goes to the log; whoever waits for the disk waits for `synced_end`.
//! let piece = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
//! log.append(piece.len() as u64, &[IoSlice::new(piece)], 1_700_000_000)?;
//! if let Some(job) = log.sync_job() {
//!     job.run()?; // without the log's lock
//!     log.synced(&job);
//! }
//! assert_eq!(log.synced_end(), log.end());
//! drop(log);
//!
//! // Something is there: it is read to its end, and gone on with.
//! let folder = Folder::open(disk, options, std::process::id())?;
//! let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
//! let mut requests = Vec::new();
//! let outcome = loop {
//!     match replay.next(&mut requests)? {
//!         Step::Requests => {} // run what is in `requests`, and clear it
//!         Step::Rdb(source) => replay.after_rdb(source.size, Some(0))?, // when it is decoded
//!         Step::End(outcome) => break outcome,
//!     }
//! };
//! assert_eq!(requests, piece);
//! let log = folder.resume(outcome)?;
//! assert_eq!(log.end(), piece.len() as u64);
//! # Ok(())
//! # }
//! ```

pub mod aof;
pub mod disk;
pub mod format;
pub mod own;
pub mod release;
pub mod replay;

/// The field of an RDB file's head in which a base states the offset of the journal that it stands for, in decimal. Other
/// servers pass over fields that they do not know.
pub const BASE_OFFSET_FIELD: &str = "sleeve-log-offset";
