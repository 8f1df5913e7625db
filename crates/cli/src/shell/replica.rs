//! `sleeve cli --rdb`, `--functions-rdb` and `--replica`: the shell asks for a full sync as a replica does.
//!
//! The server sends a snapshot, of a stated length or up to a mark that it announces. The first two modes write it to a file
//! and end; the third one reads past it and prints the commands that the primary sends from then on. Progress and faults go
//! to the error output in redis-cli's words, so that `--rdb -` leaves nothing but the snapshot on standard output.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sleeve_disk::own::{self, Replacement};
use sleeve_wire::frame::decode;

use super::connection::{Connection, error_of};
use super::format::Format;
use super::session::invalid;
use crate::endpoint::without_number;
use crate::interrupt::Interrupt;
use crate::output;

/// The options of a shell that acts as a replica.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplicaOptions {
    /// Write a snapshot of the server to a file; `-` is standard output
    #[arg(long, value_name = "filename")]
    pub rdb: Option<PathBuf>,
    /// Like --rdb, but the snapshot holds only the functions and no keys
    #[arg(long, value_name = "filename")]
    pub functions_rdb: Option<PathBuf>,
    /// Act as a replica: print the commands that the primary sends, until Ctrl-C
    #[arg(long, visible_alias = "slave")]
    pub replica: bool,
}

impl ReplicaOptions {
    /// Returns the file that a snapshot goes to, and whether it is to hold only functions.
    pub fn destination(&self) -> Option<(&Path, bool)> {
        let functions = self.functions_rdb.as_deref().map(|path| (path, true));
        self.rdb.as_deref().map(|path| (path, false)).or(functions)
    }
}

/// The longest line that announces a snapshot: `$EOF:`, 40 bytes and a line end, or an error.
const HEADER_MAX: usize = 1024;
/// The length of the mark behind a snapshot whose length the server does not know in advance.
const MARK_LENGTH: usize = 40;

/// The time that a primary has to end its side of a transfer, as in redis-cli.
const PAUSE_BEFORE_ACK: Duration = Duration::from_secs(1);

/// The end of a snapshot, as the server announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The snapshot has this many bytes.
    Length(u64),
    /// These bytes stand behind the snapshot.
    Mark(Vec<u8>),
}

/// Writes a snapshot of the server to a file. A file that is there is replaced when the whole snapshot has arrived.
///
/// # Errors
/// When the server refuses or hangs up, when a write fails, and when Ctrl-C ends the transfer. The text is for the user.
pub fn save(connection: &mut Connection, path: &Path, functions: bool) -> Result<(), String> {
    introduce(connection, functions)?;
    let end = request(connection)?;
    let name = path.display();
    match &end {
        End::Length(length) => eprintln!("SYNC sent to master, writing {length} bytes to '{name}'"),
        End::Mark(_) => {
            eprintln!("SYNC sent to master, writing bytes of bulk transfer until EOF marker to '{name}'");
        }
    }
    let opening = |error: io::Error| format!("Error opening '{name}': {}", without_number(&error));
    let length = if path == Path::new("-") {
        transfer(connection, &end, &mut io::stdout())?
    } else if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        // A pipe or a device, such as /dev/stdout.
        transfer(connection, &end, &mut fs::OpenOptions::new().write(true).open(path).map_err(opening)?)?
    } else {
        let mut replacement = Replacement::begin(path, 0o644).map_err(opening)?;
        let length = transfer(connection, &end, replacement.file())?;
        let finished = replacement.finish().map_err(|error| own::named(path, error));
        finished.map_err(|error| format!("Error writing the snapshot: {}", without_number(&error)))?;
        length
    };
    match end {
        End::Length(_) => eprintln!("Transfer finished with success."),
        End::Mark(_) => eprintln!("Transfer finished with success after {length} bytes"),
    }
    Ok(())
}

/// Fetches a snapshot of the server in silence, for a tool with words of its own. `announced` gets the length in bytes, if the
/// server knows it in advance. Returns the length.
///
/// # Errors
/// The errors of [`save`].
pub fn fetch(
    connection: &mut Connection,
    announced: impl FnOnce(Option<u64>),
    into: &mut dyn Write,
) -> Result<u64, String> {
    for words in [["REPLCONF", "capa", "eof"], ["REPLCONF", "rdb-only", "1"]] {
        // A server that knows neither sends the same snapshot. If it wants a password, it says so to SYNC as well.
        connection.ask(&words).map_err(|error| format!("I/O error: {}", without_number(&error)))?;
    }
    let end = request(connection)?;
    announced(if let End::Length(length) = &end { Some(*length) } else { None });
    transfer(connection, &end, into)
}

/// Prints the commands that the primary sends to its replicas, as comma-separated values, until Ctrl-C or the end of the
/// connection.
///
/// # Errors
/// When the server refuses or hangs up. The text is for the user.
pub fn follow(connection: &mut Connection, interrupt: &Interrupt) -> Result<(), String> {
    eprintln!("sending REPLCONF capa eof");
    tell(connection, &["REPLCONF", "capa", "eof"])?;
    // A snapshot without keys and functions is over soon, and the commands behind it are the same.
    eprintln!("sending REPLCONF rdb-filter-only ");
    tell(connection, &["REPLCONF", "rdb-filter-only", ""])?;
    let end = request(connection)?;
    match &end {
        End::Length(length) => eprintln!("SYNC with master, discarding {length} bytes of bulk transfer..."),
        End::Mark(_) => eprintln!("SYNC with master, discarding bytes of bulk transfer until EOF marker..."),
    }
    let length = transfer(connection, &end, &mut io::sink())?;
    match end {
        End::Length(_) => eprintln!("SYNC done. Logging commands from master."),
        End::Mark(_) => eprintln!("SYNC done after {length} bytes. Logging commands from master."),
    }
    // A primary that has sent a snapshot without a file waits for an acknowledgement before it sends the commands. It ignores
    // one that comes before it has ended its own side of the transfer.
    if !interrupt.sleep(PAUSE_BEFORE_ACK) {
        return Ok(());
    }
    eprintln!("sending REPLCONF ACK 0");
    connection.send(&["REPLCONF", "ACK", "0"]).map_err(|error| format!("I/O error: {}", without_number(&error)))?;
    loop {
        let command = match connection.receive() {
            Ok(command) => command,
            Err(_) if interrupt.is_heard() => return Ok(()),
            Err(error) => return Err(format!("Error: {}", without_number(&error))),
        };
        let shown = decode(&command).and_then(|(frame, _)| Format::Csv.render(&frame, false));
        output::bytes(&shown.map_err(|error| format!("Error: {}", invalid(error)))?);
        output::flush();
    }
}

/// Announces a replica that wants a snapshot and no stream behind it.
fn introduce(connection: &mut Connection, functions: bool) -> Result<(), String> {
    let mut announcements = vec![["capa", "eof"], ["rdb-only", "1"]];
    if functions {
        announcements.push(["rdb-filter-only", "functions"]);
    }
    for [name, value] in announcements {
        eprintln!("sending REPLCONF {name} {value}");
        let refused = tell(connection, &["REPLCONF", name, value])?;
        if refused && name == "rdb-filter-only" {
            return Err("Failed requesting functions only RDB from server, aborting".to_owned());
        }
    }
    Ok(())
}

/// Sends an announcement, and prints and returns a refusal: an old server does not know each of them.
fn tell(connection: &mut Connection, words: &[&str]) -> Result<bool, String> {
    let reply = connection.ask(words).map_err(|error| format!("I/O error: {}", without_number(&error)))?;
    let refusal = error_of(&reply);
    if let Some(text) = &refusal {
        eprintln!("REPLCONF {} error: {text}", words.get(1).unwrap_or(&""));
    }
    Ok(refusal.is_some())
}

/// Asks for the full sync, and returns the announced end of the snapshot.
fn request(connection: &mut Connection) -> Result<End, String> {
    let header = connection.send_line("SYNC").and_then(|()| {
        loop {
            // The server sends empty lines while it prepares the snapshot, so that the connection stays alive.
            let line = connection.receive_line(HEADER_MAX)?;
            if !line.is_empty() {
                break Ok(line);
            }
        }
    });
    let header =
        header.map_err(|error| format!("Error reading bulk length while SYNCing: {}", without_number(&error)))?;
    read_header(&header).ok_or_else(|| format!("SYNC with master failed: {}", String::from_utf8_lossy(&header)))
}

/// Reads `$1234` or `$EOF:` and a mark.
fn read_header(line: &[u8]) -> Option<End> {
    let rest = line.strip_prefix(b"$")?;
    match rest.strip_prefix(b"EOF:") {
        Some(mark) => (mark.len() == MARK_LENGTH).then(|| End::Mark(mark.to_vec())),
        None => std::str::from_utf8(rest).ok()?.parse().ok().map(End::Length),
    }
}

/// Copies the snapshot, and returns its length.
fn transfer(connection: &mut Connection, end: &End, into: &mut dyn Write) -> Result<u64, String> {
    let mut copied = 0;
    let mut tail = Tail::new(end);
    while !tail.is_over() {
        let bytes = connection
            .receive_some()
            .map_err(|error| format!("The snapshot ended early, after {copied} bytes: {}", without_number(&error)))?;
        let (snapshot, rest) = tail.cut(bytes);
        into.write_all(&snapshot).map_err(|error| format!("Error writing the snapshot: {}", without_number(&error)))?;
        copied += u64::try_from(snapshot.len()).unwrap_or(u64::MAX);
        connection.put_back(rest);
    }
    into.flush().map_err(|error| format!("Error writing the snapshot: {}", without_number(&error)))?;
    Ok(copied)
}

/// Finds the end of the snapshot in a stream of chunks.
struct Tail {
    /// Bytes of the snapshot that are still to come, if the length was announced.
    left: Option<u64>,
    mark: Vec<u8>,
    /// The last bytes that arrived, which may be the beginning of the mark.
    held: Vec<u8>,
    is_over: bool,
}

impl Tail {
    fn new(end: &End) -> Self {
        let (left, mark) = match end {
            End::Length(length) => (Some(*length), Vec::new()),
            End::Mark(mark) => (None, mark.clone()),
        };
        Self { left, mark, held: Vec::new(), is_over: left == Some(0) }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    /// Splits a chunk into bytes that are certainly of the snapshot and those behind its end.
    fn cut(&mut self, chunk: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend(chunk);
        if let Some(left) = &mut self.left {
            let length = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
            *left -= u64::try_from(length).unwrap_or(0);
            self.is_over = *left == 0;
            let rest = bytes.split_off(length);
            return (bytes, rest);
        }
        if let Some(place) = memchr::memmem::find(&bytes, &self.mark) {
            self.is_over = true;
            let rest = bytes.split_off(place + self.mark.len());
            bytes.truncate(place);
            return (bytes, rest);
        }
        self.held = bytes.split_off(bytes.len().saturating_sub(self.mark.len() - 1));
        (bytes, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_a_length_or_a_mark() {
        let mark = "0123456789".repeat(4);
        assert_eq!(read_header(b"$17"), Some(End::Length(17)));
        assert_eq!(read_header(format!("$EOF:{mark}").as_bytes()), Some(End::Mark(mark.into_bytes())));
        for bad in [&b"-NOAUTH Authentication required."[..], b"$-1", b"$", b"$EOF:short", b"$1x", b"+OK"] {
            assert_eq!(read_header(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_end_is_found_wherever_the_chunks_are_cut() {
        let mark = b"ababc".to_vec();
        let stream = b"snapshot abab ababc*1\r\n";
        for size in 1..stream.len() {
            for (end, expected) in [(End::Mark(mark.clone()), &b"snapshot abab "[..]), (End::Length(8), b"snapshot")] {
                let mut tail = Tail::new(&end);
                let (mut snapshot, mut rest) = (Vec::new(), Vec::new());
                for chunk in stream.chunks(size) {
                    if tail.is_over() {
                        rest.extend_from_slice(chunk);
                        continue;
                    }
                    let (some, behind) = tail.cut(chunk.to_vec());
                    snapshot.extend(some);
                    rest.extend(behind);
                }
                assert_eq!(snapshot, expected, "chunks of {size}");
                let behind = expected.len() + if end == End::Length(8) { 0 } else { mark.len() };
                assert_eq!(rest, &stream[behind..], "chunks of {size}");
            }
        }
    }
}
