//! The words of redis-check-aof (7.0): its messages, its questions, its changes, and its exit statuses.
//!
//! It looks at the form of requests only, and it keeps none of the bytes that it cuts off: `sleeve check aof` does both.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::ExitCode;

use sleeve_disk::format::manifest::Manifest;
use sleeve_disk::own;

use super::findings::is_manifest;
use crate::check::rdb;
use crate::output;

const USAGE: &str = "Usage: redis-check-aof [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>";

/// The error of a check that has printed everything: the exit status is 1.
struct Ended;

/// The state of a file when it was found, or after its repair.
enum State {
    Valid,
    Empty,
    Truncated,
    TruncatedToTime,
}

/// The options, and the state that is kept from file to file.
struct Check {
    fix: bool,
    until: Option<i64>,
    lines: u64,
}

/// Replies as redis-check-aof does to these arguments.
pub fn run_words(words: &[OsString]) -> ExitCode {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let (file, fix, until) = match words {
        [file] => (file, false, None),
        [option, file] if option == "--fix" => (file, true, None),
        [option, time, file] if option == "--truncate-to-timestamp" => match text(time).parse() {
            Ok(time) => (file, false, Some(time)),
            Err(_) => {
                output::line(format_args!("Invalid timestamp, aborting..."));
                return ExitCode::FAILURE;
            }
        },
        _ => {
            output::line(format_args!("{USAGE}"));
            return ExitCode::FAILURE;
        }
    };
    // redis-check-aof takes a time of 0 for none.
    let mut check = Check { fix, until: until.filter(|&time| time != 0), lines: 1 };
    match check.path(Path::new(file), &text(file)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Ended) => ExitCode::FAILURE,
    }
}

fn end<T>(text: std::fmt::Arguments<'_>) -> Result<T, Ended> {
    output::line(text);
    Err(Ended)
}

/// Returns the beginning of a file.
fn front(path: &Path, shown: &str) -> Result<Vec<u8>, Ended> {
    let mut front = Vec::new();
    let opened = own::open(path, OpenOptions::new().read(true));
    match opened.and_then(|file| file.take(4096).read_to_end(&mut front)) {
        Ok(_) => Ok(front),
        Err(error) => end(format_args!("Cannot open file {shown}: {}", reason(&error))),
    }
}

/// Returns the system's text for an error, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn is_snapshot(front: &[u8]) -> bool {
    front.len() >= 8 && front.starts_with(b"REDIS")
}

impl Check {
    fn path(&mut self, path: &Path, shown: &str) -> Result<(), Ended> {
        let front = front(path, shown)?;
        if is_manifest(&front) {
            return self.log(path, shown);
        }
        output::line(format_args!("Start checking Old-Style AOF"));
        let state = self.file(shown, path, true, is_snapshot(&front))?;
        self.tell(&state, shown, "AOF");
        Ok(())
    }

    /// Checks all files of an AOF.
    fn log(&mut self, path: &Path, shown: &str) -> Result<(), Ended> {
        output::line(format_args!("Start checking Multi Part AOF"));
        let bytes = std::fs::read(path).unwrap_or_default();
        let manifest = match Manifest::parse(&bytes) {
            Ok((manifest, _)) => manifest,
            Err(error) => {
                output::line(format_args!("\n*** FATAL AOF MANIFEST FILE ERROR ***\n"));
                if error.line > 0 {
                    output::line(format_args!("Reading the manifest file, at line {}\n", error.line));
                    output::line(format_args!(">>> '{}'\n", error.text));
                }
                return end(format_args!("{}", error.reason));
            }
        };
        let folder = Path::new(shown).parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if let Some(base) = &manifest.base {
            let path = folder.join(base.path());
            let is_snapshot = is_snapshot(&front(&path, &path.to_string_lossy())?);
            let format = if is_snapshot { "RDB" } else { "RESP" };
            output::line(format_args!("Start to check BASE AOF ({format} format)."));
            let state = self.file(&base.to_string(), &path, manifest.increments.is_empty(), is_snapshot)?;
            self.tell(&state, &base.to_string(), "BASE AOF");
        }
        if !manifest.increments.is_empty() {
            output::line(format_args!("Start to check INCR files."));
        }
        for (index, entry) in manifest.increments.iter().enumerate() {
            let is_last = index + 1 == manifest.increments.len();
            let state = self.file(&entry.to_string(), &folder.join(entry.path()), is_last, false)?;
            self.tell(&state, &entry.to_string(), "INCR AOF");
        }
        output::line(format_args!("All AOF files and manifest are valid"));
        Ok(())
    }

    fn tell(&self, state: &State, name: &str, kind: &str) {
        let time = self.until.unwrap_or(0);
        match state {
            State::Valid => output::line(format_args!("{kind} {name} is valid")),
            State::Empty => output::line(format_args!("{kind} {name} is empty")),
            State::Truncated => output::line(format_args!("Successfully truncated AOF {name}")),
            State::TruncatedToTime => {
                output::line(format_args!("Successfully truncated AOF {name} to timestamp {time}"));
            }
        }
    }

    /// Checks one file.
    fn file(&mut self, name: &str, path: &Path, is_last: bool, is_snapshot: bool) -> Result<State, Ended> {
        let shown = path.display();
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) => return end(format_args!("Cannot open file {shown}: {}, aborting...", reason(&error))),
        };
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        if size == 0 {
            return Ok(State::Empty);
        }
        let start = if is_snapshot { preamble(path, name)? } else { 0 };
        let mut form = match Form::at(file, start) {
            Ok(form) => form,
            Err(error) => return end(format_args!("Failed to fseek in AOF {name}: {}", reason(&error))),
        };
        let read = form.read(&self.until, &shown.to_string());
        self.lines += form.lines;
        let (good, stop) = match read {
            Ok(read) => read,
            Err(error) => {
                return end(format_args!("Failed to read from AOF {name}: {}, aborting...", reason(&error)));
            }
        };
        match stop {
            Stop::Time(at) => self.cut_to_time(&form.file.into_inner(), &shown.to_string(), at, is_last),
            Stop::End => self.judge(&form.file.into_inner(), name, size, good, is_last),
            Stop::Fault(fault) => {
                output::line(format_args!("{fault}"));
                self.judge(&form.file.into_inner(), name, size, good, is_last)
            }
            Stop::NoTime => end(format_args!("Invalid timestamp annotation")),
            Stop::Format => {
                output::line(format_args!("AOF {name} format error"));
                self.judge(&form.file.into_inner(), name, size, good, is_last)
            }
        }
    }

    fn cut_to_time(&self, file: &File, shown: &str, at: u64, is_last: bool) -> Result<State, Ended> {
        let time = self.until.unwrap_or(0);
        if at == 0 {
            return end(format_args!("AOF {shown} has nothing before timestamp {time}, aborting..."));
        }
        if !is_last {
            output::line(format_args!(
                "Failed to truncate AOF {shown} to timestamp {time} to offset {at} because it is not the last file."
            ));
            return end(format_args!(
                "If you insist, please delete all files after this file according to the manifest file and delete the \
                 corresponding records in manifest file manually. Then re-run redis-check-aof."
            ));
        }
        match file.set_len(at) {
            Ok(()) => Ok(State::TruncatedToTime),
            Err(_) => end(format_args!("Failed to truncate AOF {shown} to timestamp {time}")),
        }
    }

    fn judge(&self, file: &File, name: &str, size: u64, good: u64, is_last: bool) -> Result<State, Ended> {
        let rest = size - good;
        if let Some(time) = self.until.filter(|_| rest == 0) {
            output::line(format_args!("Truncate nothing in AOF {name} to timestamp {time}"));
            return Ok(State::Valid);
        }
        let lines = self.lines;
        output::line(format_args!(
            "AOF analyzed: filename={name}, size={size}, ok_up_to={good}, ok_up_to_line={lines}, diff={rest}"
        ));
        if rest == 0 {
            return Ok(State::Valid);
        }
        if !self.fix {
            return end(format_args!("AOF {name} is not valid. Use the --fix option to try fixing it."));
        }
        if !is_last {
            return end(format_args!("Failed to truncate AOF {name} because it is not the last file"));
        }
        output::line(format_args!(
            "This will shrink the AOF {name} from {size} bytes, with {rest} bytes, to {good} bytes"
        ));
        output::bytes(b"Continue? [y/N]: ");
        output::flush();
        let mut answer = String::new();
        let is_agreed = io::stdin().read_line(&mut answer).is_ok() && answer.starts_with(['y', 'Y']);
        if !is_agreed {
            return end(format_args!("Aborting..."));
        }
        match file.set_len(good) {
            Ok(()) => Ok(State::Truncated),
            Err(_) => end(format_args!("Failed to truncate AOF {name}")),
        }
    }
}

/// Checks the snapshot at the beginning of a file in the words of redis-check-rdb; returns the byte at which it ends.
fn preamble(path: &Path, shown: &str) -> Result<u64, Ended> {
    match rdb::check_as_tool(path, shown) {
        Some(end) => {
            output::line(format_args!("RDB preamble is OK, proceeding with AOF tail..."));
            Ok(end)
        }
        None => end(format_args!("RDB preamble of AOF file is not sane, aborting.")),
    }
}

/// The reason why the reading of a file ends.
enum Stop {
    End,
    Fault(String),
    Format,
    NoTime,
    Time(u64),
}

/// The reader of requests, which accepts the same bytes as redis-check-aof.
struct Form {
    file: BufReader<File>,
    position: u64,
    /// The position of the element that is being read.
    element: u64,
    lines: u64,
    multi: i32,
}

impl Form {
    fn at(mut file: File, start: u64) -> io::Result<Form> {
        file.seek(SeekFrom::Start(start))?;
        Ok(Form { file: BufReader::new(file), position: start, element: 0, lines: 0, multi: 0 })
    }

    /// Reads to the end; returns the byte up to which the file is valid, and the reason for the end.
    fn read(&mut self, until: &Option<i64>, path: &str) -> io::Result<(u64, Stop)> {
        let mut good = self.position;
        loop {
            if self.multi == 0 {
                good = self.position;
            }
            let first = self.file.fill_buf()?.first().copied();
            match first {
                None if self.multi != 0 => {
                    return Ok((good, self.fault("Reached EOF before reading EXEC for MULTI")));
                }
                None => return Ok((good, Stop::End)),
                Some(b'#') => {
                    let start = self.position;
                    let line = self.line(1024)?;
                    match until.map(|until| (until, time_of(&line))) {
                        Some((_, Some(Err(())))) => return Ok((good, Stop::NoTime)),
                        Some((until, Some(Ok(time)))) if time > until => return Ok((good, Stop::Time(start))),
                        _ => {}
                    }
                }
                Some(b'*') => {
                    if let Some(stop) = self.request(path)? {
                        return Ok((good, stop));
                    }
                }
                Some(_) => return Ok((good, Stop::Format)),
            }
        }
    }

    fn fault(&self, text: impl std::fmt::Display) -> Stop {
        Stop::Fault(format!("0x{:>16x}: {text}", self.element))
    }

    /// Returns a line, or as much of it as C's `fgets` reads into so many bytes.
    fn line(&mut self, room: u64) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let read = (&mut self.file).take(room - 1).read_until(b'\n', &mut line)?;
        self.position += read as u64;
        Ok(line)
    }

    fn request(&mut self, path: &str) -> io::Result<Option<Stop>> {
        let count = match self.number(b'*')? {
            Ok(count) => count,
            Err(stop) => return Ok(Some(stop)),
        };
        for index in 0..count {
            let word = match self.word()? {
                Ok(word) => word,
                Err(stop) => return Ok(Some(stop)),
            };
            if index > 0 {
                continue;
            }
            if word.eq_ignore_ascii_case(b"multi") {
                self.multi += 1;
                if self.multi > 1 {
                    return Ok(Some(self.fault(format_args!("Unexpected MULTI in AOF {path}"))));
                }
            } else if word.eq_ignore_ascii_case(b"exec") {
                self.multi -= 1;
                if self.multi != 0 {
                    return Ok(Some(self.fault(format_args!("Unexpected EXEC in AOF {path}"))));
                }
            }
        }
        Ok(None)
    }

    /// Returns a line of a prefix and a number.
    fn number(&mut self, prefix: u8) -> io::Result<Result<i64, Stop>> {
        self.element = self.position;
        let line = self.line(128)?;
        let Some(&first) = line.first() else {
            // redis-check-aof prints nothing here, unless the file ends in a transaction.
            let is_open = self.multi != 0;
            let open = "Reached EOF before reading EXEC for MULTI";
            return Ok(Err(if is_open { self.fault(open) } else { Stop::End }));
        };
        if first != prefix {
            let (prefix, got) = (char::from(prefix), line[..1].escape_ascii().to_string());
            return Ok(Err(self.fault(format_args!("Expected prefix '{prefix}', got: '{got}'"))));
        }
        let digits = line[1..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
        let number = std::str::from_utf8(&line[1..=digits]).unwrap_or_default().parse().unwrap_or(0);
        Ok(self.line_end(&line[1 + digits..]).map(|()| number))
    }

    fn line_end(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if bytes.starts_with(b"\r\n") {
            self.lines += 1;
            return Ok(());
        }
        // C prints a `char` in this form with `%02x`.
        let shown = |index: usize| format!("{:02x}", i32::from(bytes.get(index).copied().unwrap_or(0).cast_signed()));
        Err(self.fault(format_args!("Expected \\r\\n, got: {}{}", shown(0), shown(1))))
    }

    /// Reads a word with its length before it; of a long word it returns the beginning only.
    fn word(&mut self) -> io::Result<Result<Vec<u8>, Stop>> {
        let length = match self.number(b'$')? {
            Ok(length) => length,
            Err(stop) => return Ok(Err(stop)),
        };
        if !(0..=i64::MAX - 2).contains(&length) {
            let text = format_args!("Expected to read string of {length} bytes, which is not in the suitable range");
            return Ok(Err(self.fault(text)));
        }
        self.element = self.position;
        let mut word = Vec::new();
        (&mut self.file).take((length as u64).min(16)).read_to_end(&mut word)?;
        let skipped = io::copy(&mut (&mut self.file).take(length as u64 - word.len() as u64), &mut io::sink())?;
        let mut ending = Vec::new();
        (&mut self.file).take(2).read_to_end(&mut ending)?;
        let read = word.len() as u64 + skipped + ending.len() as u64;
        self.position += read;
        if read != length as u64 + 2 {
            return Ok(Err(self.fault(format_args!("Expected to read {} bytes, got {read} bytes", length + 2))));
        }
        Ok(self.line_end(&ending).map(|()| word))
    }
}

/// Returns the time of a `#TS:` line. The outer value is none for other lines, the inner one is an error if the line has no
/// time.
fn time_of(line: &[u8]) -> Option<Result<i64, ()>> {
    let text = line.strip_prefix(b"#TS:")?;
    let digits = text.split(|&byte| byte == b'\r').next().and_then(|text| std::str::from_utf8(text).ok());
    let is_ended = text.contains(&b'\r');
    Some(digits.filter(|_| is_ended).and_then(|text| text.parse().ok()).ok_or(()))
}
