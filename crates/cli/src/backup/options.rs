//! The command lines of `sleeve backup` and `sleeve restore`.

use std::path::PathBuf;
use std::time::Duration;

use crate::endpoint::address::Address;

const BACKUP_EXAMPLES: &str = "\
The server is given by a URL, or by -h, -p and the other options of `sleeve cli`. A password may stand in REDISCLI_AUTH. The user
needs REPLCONF and SYNC: ACL SETUSER backup on >secret +replconf +sync

In a folder the snapshot is called dump-YYYYMMDD-HHMMSS.rdb, by the time in UTC at which the backup began. It is written under a
temporary name, synced, and read back as `sleeve check rdb` does. Its SHA-256 is written to NAME.sha256, which `sha256sum -c` reads,
before the snapshot gets its name. The snapshot can be read by its owner alone.

The status is 0 if the snapshot is there, whole and named, 1 if it is not, and 130 after Ctrl-C.

Examples:
  sleeve backup /var/backups/redis/
  sleeve backup --keep 14 redis://backup:secret@cache:6379 /var/backups/redis/
  sleeve backup -h cache -p 6380 --tls --cacert ca.pem today.rdb
  cd /var/backups/redis && sha256sum -c dump-20260131-030000.rdb.sha256
";

/// Fetches a snapshot of a running server (Sleeve, Redis or Valkey), checks it, and keeps it with its SHA-256
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = BACKUP_EXAMPLES,
    arg_required_else_help = true,
    allow_missing_positional = true,
    disable_help_flag = true
)]
pub struct BackupOptions {
    /// The server.
    #[command(flatten)]
    pub address: Address,
    /// After success, remove the oldest snapshots in the folder that this command has named, beyond so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: Option<u32>,
    /// Replace the file and its .sha256 if they are there
    #[arg(long)]
    pub force: bool,
    /// How long to wait for a server that sends nothing, in seconds
    #[arg(long, value_name = "s", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    pub help: Option<bool>,
    /// The server as a URL: redis://[[user:]password@]host[:port], rediss:// for TLS, or unix:///path
    #[arg(value_name = "URL", conflicts_with_all = ["url", "host", "port", "socket"])]
    pub server: Option<String>,
    /// The folder that gets one more snapshot, or the file to write
    #[arg(value_name = "DIR|FILE", required = true)]
    pub target: PathBuf,
}

impl BackupOptions {
    /// Returns the longest time without a byte from the server.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

const RESTORE_EXAMPLES: &str = "\
Stop the server that uses DIR first. The file is compared with FILE.sha256, copied into DIR under a temporary name, synced, read back
as `sleeve check rdb` does, and only then called dump.rdb. If anything fails before that, DIR is as it was.

If DIR has a dump.rdb or an AOF (appendonlydir, or *.aof), nothing is done without --force. With --force they stay there under names
that end in .before-restore. The AOF has to go as well: a server with `appendonly yes` would load it instead of the snapshot.

With `appendonly yes` Sleeve begins a new AOF with the restored snapshot. Redis and Valkey start empty then, and would save
the empty data over the snapshot: start them with `appendonly no`, and switch it on by CONFIG SET appendonly yes.

The status is 0 if the snapshot is in its place, and 1 if it is not.

Examples:
  sleeve restore /var/backups/redis/dump-20260131-030000.rdb /var/lib/sleeve
  sleeve restore --force dump.rdb /var/lib/redis
";

/// Checks a snapshot and puts it into the data folder of a server that is not running
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = RESTORE_EXAMPLES, arg_required_else_help = true)]
pub struct RestoreOptions {
    /// Put the snapshot in the place of older data, which stays beside it under other names
    #[arg(long)]
    pub force: bool,
    /// Restore a file that has no .sha256 beside it
    #[arg(long)]
    pub no_checksum: bool,
    /// The name of the snapshot in the data folder (the option `dbfilename` of the server)
    #[arg(long, value_name = "name", default_value = "dump.rdb", value_parser = file_name)]
    pub dbfilename: String,
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The data folder of the server (its option `dir`)
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Accepts the name of a file without a folder.
fn file_name(text: &str) -> Result<String, String> {
    match text {
        "" | "." | ".." => Err("the name of a file is wanted".to_owned()),
        _ if text.contains('/') => Err("a name without a folder is wanted; DIR is the folder".to_owned()),
        _ => Ok(text.to_owned()),
    }
}
