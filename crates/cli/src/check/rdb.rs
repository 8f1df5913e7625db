//! `sleeve check rdb`: reads a snapshot as a server that loads it would. It reports the contents, or the byte at which the
//! snapshot is damaged and the cost of the damage.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use sleeve_disk::own;
use sleeve_server::REDIS_VERSION;
use sleeve_store::HashKey;
use sleeve_store::rdb::file::{Error, Event, KeyRecord, Odd, Oddity, Reader};
use sleeve_store::rdb::{Limits, Origin};

use crate::output;

const EXAMPLES: &str = "\
The file is read as a server would load it, to its last byte, and is not changed. The status is 0 if it is whole, and 1 if
it is not.

With --salvage every record that can be read, in front of a damage and behind it, is copied into a new file, and the bytes that were
skipped are named. The status is 0 if nothing is lost. The file is held in memory.

Examples:
  sleeve check rdb /var/lib/redis/dump.rdb
  sleeve check rdb --salvage saved.rdb dump.rdb
  sleeve check rdb dump.rdb && cp dump.rdb backup/
";

/// Reads an RDB file and reports its contents, or the byte at which it is damaged and the keys that this costs
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckRdbOptions {
    /// Write a new file with every key that can still be read; it must not exist
    #[arg(long, value_name = "OUT")]
    pub salvage: Option<PathBuf>,
    /// The file
    pub file: PathBuf,
}

/// The counts of a database.
#[derive(Clone, Copy, Debug, Default)]
struct Database {
    keys: u64,
    volatile: u64,
    over: u64,
    /// The number of keys that the file announces.
    announced: u64,
}

/// The facts that were read from a file.
#[derive(Debug, Default)]
struct FileStatistics {
    version: Option<(Origin, u16)>,
    about: Vec<(Vec<u8>, Vec<u8>)>,
    functions: u64,
    /// The records that a server leaves out or corrects.
    odd: Vec<Oddity>,
    /// The number of odd records; only some of them are kept.
    odd_count: u64,
    databases: BTreeMap<usize, Database>,
    /// The number of keys of each type, by the type's name.
    types: BTreeMap<&'static str, u64>,
    bytes: u64,
}

/// The number of odd records that are printed one by one.
const ODD_TOLD_MAX: usize = 10;

/// The reason why a file is not whole.
enum Damage {
    /// The file cannot be read any further.
    File(Error),
    /// The file has this key twice.
    Twice(KeyRecord),
}

impl FileStatistics {
    fn sum(&self, count: impl Fn(&Database) -> u64) -> u64 {
        self.databases.values().map(count).sum()
    }

    fn note_odd(&mut self, odd: Oddity) {
        self.odd_count += 1;
        if self.odd.len() < ODD_TOLD_MAX {
            self.odd.push(odd);
        }
    }

    fn count(&mut self, record: &KeyRecord, now_ms: i64) {
        if let Some(correction) = record.correction {
            let KeyRecord { offset, database, .. } = *record;
            self.note_odd(Oddity { offset, database, key: record.key.clone(), what: Odd::Corrected(correction) });
        }
        let database = self.databases.entry(record.database).or_default();
        database.keys += 1;
        database.volatile += u64::from(record.deadline.is_some());
        database.over += u64::from(record.deadline.is_some_and(|deadline| now_ms > deadline));
        *self.types.entry(record.value.kind().name()).or_default() += 1;
    }
}

/// Reads a file to its end, or to the damage; `see` gets each event with the byte behind it.
fn examine(file: File, mut see: impl FnMut(u64, &Event)) -> (FileStatistics, Option<Damage>) {
    let mut census = FileStatistics::default();
    let hash_key = secret();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    // The size of an input that is no file, such as a pipe, cannot be known.
    let size = file.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len());
    let mut reader = Reader::new(file, Limits::usual(hash_key));
    size.iter().for_each(|&size| reader.expect_size(size));
    let (mut seen, mut database) = (HashSet::new(), 0);
    let damage = loop {
        let event = match reader.next_event() {
            Ok(event) => event,
            Err(error) => break Some(Damage::File(error)),
        };
        see(reader.offset(), &event);
        match event {
            Event::Aux { name, value } => census.about.push((name, value)),
            Event::Function(_) => census.functions += 1,
            Event::Select(selected) => database = selected,
            Event::Sizes { keys, .. } => census.databases.entry(database).or_default().announced = keys,
            Event::Key(record) if !seen.insert((record.database, hash_key.hash(&record.key).0)) => {
                break Some(Damage::Twice(record));
            }
            Event::Key(record) => census.count(&record, now_ms),
            Event::Empty(odd) => census.note_odd(odd),
            Event::End => break None,
        }
    };
    (census.version, census.bytes) = (reader.version(), reader.offset());
    (census, damage)
}

/// Checks that a file is a whole snapshot and nothing else. Returns the number of its keys, and its length in bytes.
///
/// # Errors
/// The place and the kind of the damage, in words that go on behind the file's name.
pub fn verify(path: &Path) -> Result<(u64, u64), String> {
    let file = open(path)?;
    let size = file.metadata().map_err(|error| error.to_string())?.len();
    match examine(file, |_, _| {}) {
        (_, Some(damage)) => Err(format!("is damaged {}", told(&damage))),
        (census, None) if census.bytes != size => {
            Err(format!("goes on behind the end of the snapshot, with {} bytes", size.saturating_sub(census.bytes)))
        }
        (census, None) => Ok((census.sum(|database| database.keys), census.bytes)),
    }
}

/// Runs the check with these options.
pub fn run(options: &CheckRdbOptions) -> ExitCode {
    let name = options.file.display();
    let file = match open(&options.file) {
        Ok(file) => file,
        Err(reason) => {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    let (census, damage) = examine(file, |_, _| {});
    print(&census);
    census.odd.iter().for_each(|odd| output::line(format_args!("a server loads it {odd}")));
    if census.odd_count > ODD_TOLD_MAX as u64 {
        output::line(format_args!("and so with {} in all", plural(census.odd_count, "key", "keys")));
    }
    match damage {
        None => {
            output::line(format_args!("{name} is whole: {} bytes", census.bytes));
            ExitCode::SUCCESS
        }
        Some(damage) => {
            output::flush();
            eprintln!("{name} is damaged {}\n{}", told(&damage), cost(&damage, &census));
            ExitCode::FAILURE
        }
    }
}

/// Returns a secret that the maker of a file cannot know for long: it lasts as long as this process.
pub fn secret() -> HashKey {
    let secret = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
    HashKey::new(u128::from(secret).to_le_bytes())
}

/// Opens an input of any kind but a folder.
///
/// # Errors
/// A sentence for the user.
pub fn open(path: &Path) -> Result<File, String> {
    let file = own::open_input(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    let is_folder = file.metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_folder { Err(format!("{} is a folder; name the file in it", path.display())) } else { Ok(file) }
}

fn print(census: &FileStatistics) {
    if let Some((origin, version)) = census.version {
        let whose = if origin == Origin::Valkey { "Valkey" } else { "Redis" };
        output::line(format_args!("format       version {version} of {whose}"));
    }
    for (name, value) in &census.about {
        output::line(format_args!("{:<12} {}", name.escape_ascii().to_string(), value.escape_ascii()));
    }
    if census.functions > 0 {
        output::line(format_args!("functions    {}", plural(census.functions, "library", "libraries")));
    }
    for (number, database) in &census.databases {
        let Database { keys, volatile, over, .. } = *database;
        let keys = plural(keys, "key", "keys");
        output::line(format_args!(
            "{:<12} {keys}, {volatile} with a deadline, {over} of them over",
            format!("database {number}")
        ));
    }
    for (name, count) in &census.types {
        output::line(format_args!("{name:<12} {}", plural(*count, "key", "keys")));
    }
}

/// Returns a count with its noun.
pub fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn told(damage: &Damage) -> String {
    match damage {
        Damage::File(error) => error.to_string(),
        Damage::Twice(record) => {
            let KeyRecord { key, database, offset, .. } = record;
            format!("at byte {offset}: the key \"{}\" stands in database {database} twice", key.escape_ascii())
        }
    }
}

/// Returns the cost of the damage: the item that was being read, and the bytes behind it.
fn cost(damage: &Damage, census: &FileStatistics) -> String {
    use sleeve_store::rdb::file::Fault;
    let kept = plural(census.sum(|database| database.keys), "key", "keys");
    let missing = census.sum(|database| database.announced.saturating_sub(database.keys));
    let rest = match (missing, damage) {
        (0, _) => "what stands behind it".to_owned(),
        (count, _) => format!("what stands behind it, {} at least", plural(count, "key", "keys")),
    };
    match damage {
        Damage::File(Error { fault: Fault::Sum { .. }, .. }) => {
            format!(
                "All {kept} can be read, and any of them may have changed. A server loads it with `rdbchecksum no`."
            )
        }
        Damage::File(Error { fault: Fault::Magic | Fault::Version(_), .. }) => "Nothing of it can be read.".to_owned(),
        Damage::File(Error { key: Some(key), .. }) => {
            format!("It costs the key \"{}\" and {rest}. {kept} in front of it can be read.", key.escape_ascii())
        }
        Damage::File(_) | Damage::Twice(_) => format!("It costs {rest}. {kept} in front of it can be read."),
    }
}

/// Replies as redis-check-rdb does to these arguments.
pub fn run_words(words: &[OsString]) -> ExitCode {
    let [word] = words else {
        eprintln!("Usage: redis-check-rdb <rdb-file-name>");
        return ExitCode::FAILURE;
    };
    if word == "-v" || word == "--version" {
        output::line(format_args!("redis-check-rdb {REDIS_VERSION} (sleeve {})", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    match check_as_tool(Path::new(word), &word.to_string_lossy()) {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

/// Checks the snapshot that a file is or begins with in the words of redis-check-rdb, which calls it by the second name; returns
/// the byte behind it if it is whole.
pub fn check_as_tool(path: &Path, shown: &str) -> Option<u64> {
    let file = match open(path) {
        Ok(file) => file,
        Err(reason) => {
            eprintln!("{reason}");
            return None;
        }
    };
    output::line(format_args!("[offset 0] Checking RDB file {shown}"));
    let (census, damage) = examine(file, |offset, event| match event {
        Event::Aux { name, value } => {
            let (name, value) = (name.escape_ascii(), value.escape_ascii());
            output::line(format_args!("[offset {offset}] AUX FIELD {name} = '{value}'"));
        }
        Event::Select(database) => output::line(format_args!("[offset {offset}] Selecting DB ID {database}")),
        _ => {}
    });
    let (bytes, over) = (census.bytes, census.sum(|database| database.over));
    match &damage {
        None => output::line(format_args!("[offset {bytes}] Checksum OK\n[offset {bytes}] \\o/ RDB looks OK! \\o/")),
        Some(damage) => {
            output::line(format_args!("--- RDB ERROR DETECTED ---\n[offset {bytes}] {}", told(damage)));
            if let Damage::File(Error { key: Some(key), .. }) = damage {
                output::line(format_args!("[additional info] Reading key '{}'", key.escape_ascii()));
            }
        }
    }
    // redis-check-rdb counts a key as soon as it has read its name.
    let named = u64::from(matches!(&damage, Some(Damage::File(Error { key: Some(_), .. }))));
    output::line(format_args!("[info] {} keys read", census.sum(|database| database.keys) + named));
    output::line(format_args!("[info] {} expires", census.sum(|database| database.volatile)));
    output::line(format_args!("[info] {over} already expired"));
    damage.is_none().then_some(bytes)
}
