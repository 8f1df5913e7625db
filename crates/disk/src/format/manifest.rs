//! The manifest of an AOF: its files, the order in which they are read, and the files that are not needed any more.
//!
//! A line is `file NAME seq NUMBER type KIND`, where KIND is `b` (the base, at most one), `i` (an increment) or `h` (history:
//! to be removed). It reads, refuses (in Redis's words) and writes the same lines as Redis 7.0, quoting included. `length
//! BYTES`, which only we write and other servers pass over, says how much of a file counts; it stands there until the file
//! has been cut to it. A line that Redis would read and a server never writes is accepted and told, because it can be the
//! trace of damage. Takes bytes and gives bytes; any thread.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sleeve_wire::inline;

/// Bytes that a line has at most, its end included.
const LINE_BYTES_MAX: usize = 1024;

/// The largest size of a manifest in bytes: an AOF with ten thousand increments is far below it.
pub const BYTES_MAX: u64 = 16 << 20;

/// The largest number that a file may have. No AOF gets as far, so the numbers of the files behind it do not overflow.
const NUMBER_MAX: i64 = i64::MAX / 2;

/// A file of the AOF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the file in the folder.
    pub name: Vec<u8>,
    /// The number of the file; the numbers of increments rise.
    pub number: i64,
    /// The number of bytes of the file that count, if the file is longer: the next file repeats the remaining bytes.
    pub length: Option<u64>,
}

impl Entry {
    /// Returns the name as a path in the folder.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.name))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name))
    }
}

/// The format of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An RDB snapshot (`aof-use-rdb-preamble yes`).
    Rdb,
    /// Requests.
    Aof,
}

/// The files of an AOF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The file that is read first.
    pub base: Option<Entry>,
    /// The files that are read behind it, in this order.
    pub increments: Vec<Entry>,
    /// The files that are to be removed.
    pub history: Vec<Entry>,
    /// The number of the newest base.
    pub base_number: i64,
    /// The number of the newest increment.
    pub increment_number: i64,
}

/// The reason why bytes are no manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The number of the line, from 1; 0 if there is none.
    pub line: usize,
    /// The text of the line.
    pub text: String,
    /// The fault of the line, in Redis's words where Redis refuses it too.
    pub reason: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(self.reason),
            line => write!(f, "line {line}, '{}': {}", self.text, self.reason),
        }
    }
}

impl std::error::Error for ManifestError {}

const INVALID: &str = "Invalid AOF manifest file format";
const TOO_LARGE: &str = "Found a sequence number that no server reaches";

impl Manifest {
    /// Reads a manifest. The second value names, a sentence each, the oddities that were accepted although no server writes
    /// them.
    ///
    /// # Errors
    /// If Redis 7.0 would end its start, or if a number is so large that none can follow it: Redis would write one that it
    /// refuses at its next start.
    pub fn parse(bytes: &[u8]) -> Result<(Manifest, Vec<String>), ManifestError> {
        if bytes.is_empty() {
            return Err(ManifestError { line: 0, text: String::new(), reason: "Found an empty AOF manifest" });
        }
        let (mut manifest, mut told) = (Manifest::default(), Vec::new());
        let (mut rest, mut number) = (bytes, 0);
        while !rest.is_empty() {
            number += 1;
            let window = rest.get(..LINE_BYTES_MAX).unwrap_or(rest);
            let end = memchr::memchr(b'\n', window).map_or(window.len(), |at| at + 1);
            let (line, after) = rest.split_at(end);
            rest = after;
            if line.first() == Some(&b'#') {
                continue;
            }
            manifest.add_line(line).map_err(|reason| {
                let text = String::from_utf8_lossy(trimmed(line)).into_owned();
                ManifestError { line: number, text, reason }
            })?;
            if let Some(oddity) = manifest.oddity(line) {
                told.push(format!("line {number} {oddity}"));
            }
        }
        Ok((manifest, told))
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        // Redis takes the line for a C string: it does not see the bytes behind a zero byte, not even a line end.
        if line.contains(&0) || line.last() != Some(&b'\n') {
            return Err("The AOF manifest file contains too long line");
        }
        let (entry, kind) = entry_of(trimmed(line))?;
        match kind {
            b'b' if self.base.is_some() => return Err("Found duplicate base file information"),
            b'b' => {
                self.base_number = entry.number;
                self.base = Some(entry);
            }
            b'h' => self.history.push(entry),
            b'i' => {
                if entry.number <= self.increments.last().map_or(0, |last| last.number) {
                    return Err("Found a non-monotonic sequence number");
                }
                self.increment_number = entry.number;
                self.increments.push(entry);
            }
            _ => return Err("Unknown AOF file type"),
        }
        Ok(())
    }

    /// Returns a sentence about a line that was just added, if it is odd.
    fn oddity(&self, line: &[u8]) -> Option<String> {
        let (entry, kind) = entry_of(trimmed(line)).ok()?;
        let mut canonical = Vec::new();
        write_line(&mut canonical, &entry, kind);
        canonical.pop();
        if !line.strip_prefix(canonical.as_slice()).is_some_and(is_end) {
            return Some("is not as a server writes it".to_owned());
        }
        if let Some(number) = number_in_name(&entry.name)
            && number != entry.number
        {
            return Some(format!("gives {entry} the number {}", entry.number));
        }
        let is_late = kind == b'h' && self.increments.iter().any(|other| other.number <= entry.number);
        let is_increment = entry.name.ends_with(b".incr.aof");
        (is_late && is_increment).then(|| format!("calls {entry} history, which is newer than what is not"))
    }

    /// Returns the bytes of the manifest's file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let groups = [(self.base.as_slice(), b'b'), (&self.history, b'h'), (&self.increments, b'i')];
        for (entries, kind) in groups {
            entries.iter().for_each(|entry| write_line(&mut bytes, entry, kind));
        }
        bytes
    }

    /// Adds an increment of an AOF named `prefix`.
    pub fn add_increment(&mut self, prefix: &str) -> Entry {
        self.increment_number += 1;
        let name = format!("{prefix}.{}.incr.aof", self.increment_number).into_bytes();
        let entry = Entry { name, number: self.increment_number, length: None };
        self.increments.push(entry.clone());
        entry
    }

    /// Puts a new base in the place of the old one, which becomes history.
    pub fn replace_base(&mut self, prefix: &str, format: Format) -> Entry {
        self.base_number += 1;
        let ending = match format {
            Format::Rdb => "rdb",
            Format::Aof => "aof",
        };
        let name = format!("{prefix}.{}.base.{ending}", self.base_number).into_bytes();
        let entry = Entry { name, number: self.base_number, length: None };
        if let Some(before) = self.base.replace(entry.clone()) {
            self.history.insert(0, before);
        }
        entry
    }

    /// Makes history of all increments before the one with this number.
    pub fn retire_increments_before(&mut self, number: i64) {
        let (mut retired, kept): (Vec<Entry>, _) =
            std::mem::take(&mut self.increments).into_iter().partition(|entry| entry.number < number);
        self.increments = kept;
        retired.append(&mut self.history);
        self.history = retired;
    }
}

/// Returns whether a server may write these bytes behind the type: nothing, or the offsets of Redis 8.
fn is_end(rest: &[u8]) -> bool {
    let Some(pairs) = rest.strip_suffix(b"\n") else { return false };
    let mut words = pairs.split(|&byte| byte == b' ');
    let is_apart = words.next().is_some_and(<[u8]>::is_empty);
    let rest: Vec<&[u8]> = words.collect();
    let (pairs, single) = rest.as_chunks::<2>();
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let is_offset = |[key, value]: &[&[u8]; 2]| matches!(*key, b"startoffset" | b"endoffset") && is_number(value);
    is_apart && single.is_empty() && pairs.iter().all(is_offset)
}

/// Returns the line without the white space around it.
fn trimmed(line: &[u8]) -> &[u8] {
    let is_around = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|byte| !is_around(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_around(byte)).map_or(start, |last| last + 1);
    line.get(start..end).unwrap_or_default()
}

fn entry_of(line: &[u8]) -> Result<(Entry, u8), &'static str> {
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    if line.is_empty() || !inline::split(line, &mut bytes, &mut spans) || spans.len() < 6 || spans.len() % 2 != 0 {
        return Err(INVALID);
    }
    let words = sleeve_wire::request::Args::new(&bytes, &spans);
    let (mut name, mut number, mut kind, mut length) = (None, 0, 0, None);
    for pair in 0..words.len() / 2 {
        let (Some(key), Some(value)) = (words.get(2 * pair), words.get(2 * pair + 1)) else { return Err(INVALID) };
        // To Redis a value is a C string.
        let value = value.split(|&byte| byte == 0).next().unwrap_or_default();
        if key.eq_ignore_ascii_case(b"file") {
            if value.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
                return Err("File can't be a path, just a filename");
            }
            name = Some(value.to_vec());
        } else if key.eq_ignore_ascii_case(b"seq") {
            number = leading_number(value);
            if number > NUMBER_MAX {
                return Err(TOO_LARGE);
            }
        } else if key.eq_ignore_ascii_case(b"type") {
            kind = value.first().copied().unwrap_or(0);
        } else if key.eq_ignore_ascii_case(b"length") {
            length = Some(std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or(INVALID)?);
        }
    }
    match name {
        Some(name) if !name.is_empty() && number != 0 && kind != 0 => Ok((Entry { name, number, length }, kind)),
        _ => Err(INVALID),
    }
}

/// Returns the leading number, as C's `atoll`: white space, a sign, digits; the bytes that follow them are not looked at.
fn leading_number(text: &[u8]) -> i64 {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    let text = text.get(start..).unwrap_or_default();
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits.fold(0_i64, |all, digit| all.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if is_negative { -value } else { value }
}

/// Returns the number in a file name of the usual form.
fn number_in_name(name: &[u8]) -> Option<i64> {
    let stem = [".base.rdb", ".base.aof", ".incr.aof"].iter().find_map(|end| name.strip_suffix(end.as_bytes()))?;
    let digits = stem.get(memchr::memrchr(b'.', stem)? + 1..)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn write_line(into: &mut Vec<u8>, entry: &Entry, kind: u8) {
    into.extend_from_slice(b"file ");
    // Redis leaves a name with a single quote as it is, and cannot read it back then.
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'\'');
    if entry.name.iter().all(is_plain) {
        into.extend_from_slice(&entry.name);
    } else {
        inline::quote(&entry.name, into);
    }
    into.extend_from_slice(format!(" seq {} type {}", entry.number, char::from(kind)).as_bytes());
    if let Some(length) = entry.length {
        into.extend_from_slice(format!(" length {length}").as_bytes());
    }
    into.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Manifest, &'static str> {
        Manifest::parse(text.as_bytes()).map(|(manifest, _)| manifest).map_err(|error| error.reason)
    }

    fn entry(name: &str, number: i64) -> Entry {
        Entry { name: name.as_bytes().to_vec(), number, length: None }
    }

    #[test]
    fn what_a_server_wrote_is_read_and_written_again() {
        let text = "file a.aof.2.base.rdb seq 2 type b\nfile a.aof.1.incr.aof seq 1 type h\n\
                    file a.aof.1.base.rdb seq 1 type h\nfile a.aof.2.incr.aof seq 2 type i\n\
                    file a.aof.3.incr.aof seq 3 type i\n";
        let (manifest, told) = Manifest::parse(text.as_bytes()).expect("it is a manifest");
        assert_eq!(manifest.base, Some(entry("a.aof.2.base.rdb", 2)));
        assert_eq!(manifest.increments, [entry("a.aof.2.incr.aof", 2), entry("a.aof.3.incr.aof", 3)]);
        assert_eq!((manifest.base_number, manifest.increment_number), (2, 3));
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(manifest.to_bytes(), text.as_bytes());
    }

    #[test]
    fn names_are_quoted_where_redis_quotes_them() {
        let names = ["with space.aof", "quo\"te", "tab\tand\nline", "bell\x07\x08", "caf\u{e9}", "it's"];
        for name in names {
            let manifest = Manifest { base: Some(entry(name, 1)), base_number: 1, ..Manifest::default() };
            let bytes = manifest.to_bytes();
            assert!(bytes.contains(&b'"'), "{name}");
            assert_eq!(Manifest::parse(&bytes).expect(name).0, manifest);
        }
        assert_eq!(parsed("file 'with space' seq 1 type b\n").expect("quotes").base, Some(entry("with space", 1)));
    }

    #[test]
    fn comments_other_keys_and_any_order_are_accepted() {
        let text = "# a comment without end of words\nSEQ 1 later yes TYPE base FILE \"a\\x2eaof\"\n#end";
        assert_eq!(parsed(text).expect("it is a manifest").base, Some(entry("a.aof", 1)));
        let (_, told) = Manifest::parse(text.as_bytes()).expect("it is a manifest");
        assert_eq!(told, ["line 2 is not as a server writes it"]);
        let text = b"file a.aof.2.incr.aof seq 2 type i startoffset 17 endoffset 4\n";
        assert!(Manifest::parse(text).is_ok_and(|(_, told)| told.is_empty()), "as Redis 8 writes it");
    }

    #[test]
    fn how_much_of_a_file_counts_is_read_and_written_again() {
        let text = "file a.aof.1.incr.aof seq 1 type i length 170\nfile a.aof.2.incr.aof seq 2 type i\n";
        let (manifest, told) = Manifest::parse(text.as_bytes()).expect("it is a manifest");
        let lengths: Vec<_> = manifest.increments.iter().map(|entry| entry.length).collect();
        assert_eq!((lengths, told), (vec![Some(170), None], Vec::new()));
        assert_eq!(manifest.to_bytes(), text.as_bytes());
        for length in ["-1", "17x", "\"\"", "99999999999999999999"] {
            assert_eq!(parsed(&format!("file a seq 1 type i length {length}\n")), Err(INVALID), "{length}");
        }
    }

    #[test]
    fn bad_manifests_are_refused_in_redis_words() {
        let long = format!("file {} seq 1 type b\n", "a".repeat(1_024));
        let cases = [
            ("", "Found an empty AOF manifest"),
            ("\n", INVALID),
            ("file a seq 1 type b", "The AOF manifest file contains too long line"),
            (&long, "The AOF manifest file contains too long line"),
            ("file a seq 1 type b\n\nfile b seq 1 type i\n", INVALID),
            ("file a seq 1 type\n", INVALID),
            ("file a seq 1 type b odd\n", INVALID),
            ("file a seq 0 type b\n", INVALID),
            ("file a seq x type b\n", INVALID),
            ("file a seq 1 kind b\n", INVALID),
            ("file a seq 1 type \"\"\n", INVALID),
            ("file \"a seq 1 type b\n", INVALID),
            ("file dir/a seq 1 type b\n", "File can't be a path, just a filename"),
            ("file \"dir\\\\a\" seq 1 type b\n", "File can't be a path, just a filename"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", "Found duplicate base file information"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", "Found a non-monotonic sequence number"),
            ("file a seq -1 type i\n", "Found a non-monotonic sequence number"),
            ("file a seq 1 type x\n", "Unknown AOF file type"),
            ("file a seq 99999999999999999999 type b\n", TOO_LARGE),
            ("file a seq 9223372036854775807 type i\n", TOO_LARGE),
            ("file a seq 4611686018427387904 type h\n", TOO_LARGE),
        ];
        for (text, reason) in cases {
            assert_eq!(parsed(text), Err(reason), "{text}");
        }
        let mut manifest = parsed(&format!("file a seq {NUMBER_MAX} type b\n")).expect("the largest there is");
        assert_eq!(manifest.replace_base("a", Format::Rdb).number, NUMBER_MAX + 1);
        let error = Manifest::parse(b"file a seq 1 type b\n  file b seq 1 typ x \n").expect_err("no type");
        assert_eq!(error.to_string(), format!("line 2, 'file b seq 1 typ x': {INVALID}"));
    }

    #[test]
    fn a_rewrite_makes_history_of_what_was_before() {
        let mut manifest = Manifest::default();
        manifest.replace_base("a", Format::Rdb);
        for _ in 0..3 {
            manifest.add_increment("a");
        }
        manifest.replace_base("a", Format::Aof);
        manifest.retire_increments_before(3);
        let text = "file a.2.base.aof seq 2 type b\nfile a.1.incr.aof seq 1 type h\nfile a.2.incr.aof seq 2 type h\n\
                    file a.1.base.rdb seq 1 type h\nfile a.3.incr.aof seq 3 type i\n";
        assert_eq!(String::from_utf8_lossy(&manifest.to_bytes()), text);
    }

    #[test]
    fn a_turned_bit_is_refused_or_reported_or_names_a_missing_file() {
        let text = b"file a.aof.2.base.rdb seq 2 type b\nfile a.aof.3.incr.aof seq 3 type i\n\
                     file a.aof.4.incr.aof seq 4 type i\n";
        let whole = Manifest::parse(text).expect("it is a manifest").0;
        let names = |manifest: &Manifest| -> Vec<Entry> {
            manifest.base.iter().chain(&manifest.increments).chain(&manifest.history).cloned().collect()
        };
        for bit in 0..text.len() * 8 {
            let mut turned = text.to_vec();
            turned[bit / 8] ^= 1 << (bit % 8);
            let Ok((manifest, told)) = Manifest::parse(&turned) else { continue };
            let is_missing = names(&manifest).iter().any(|entry| !names(&whole).iter().any(|e| e.name == entry.name));
            // The last increment called history is found by its content, not here.
            let is_last = manifest.history.len() == 1;
            assert!(!told.is_empty() || is_missing || is_last, "{}", String::from_utf8_lossy(&turned));
        }
    }
}
