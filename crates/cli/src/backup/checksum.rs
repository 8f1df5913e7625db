//! The SHA-256 of a file, and the file beside it that states it, in the format of `sha256sum`.
//!
//! A line is 64 hexadecimal digits, a space, a space or an asterisk, and the name. If the name has a backslash or a line end,
//! they are escaped, and the line begins with a backslash.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use sleeve_disk::own;

use super::name::SUM_END;

/// The most bytes that are read of a file with checksums.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The number of bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// The SHA-256 of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checksum([u8; 32]);

impl std::fmt::Display for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Checksum {
    /// Computes the checksum of a file's bytes.
    ///
    /// # Errors
    /// When a call to the system fails.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let (mut sum, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok(Self(sum.finalize().into())),
                Ok(length) => sum.update(chunk.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the line of `sha256sum` for the file at `path`, under its name without the folder.
    pub fn line(&self, path: &Path) -> Vec<u8> {
        let name = path.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        let escaped = escape(name);
        let mut line = if escaped == name { Vec::new() } else { b"\\".to_vec() };
        line.extend_from_slice(format!("{self}  ").as_bytes());
        line.extend_from_slice(&escaped);
        line.push(b'\n');
        line
    }

    /// Reads the checksum that the file beside `path` states: the line with the name of `path`, or the only line if the file
    /// was renamed.
    ///
    /// # Errors
    /// A sentence for the user. `Ok(None)` if there is no such file.
    pub fn stated_for(path: &Path) -> Result<Option<Self>, String> {
        let beside = path_of(path);
        let bytes = match own::read_input(&beside, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", beside.display())),
        };
        let wanted = escape(path.file_name().map(OsStrExt::as_bytes).unwrap_or_default());
        let lines: Vec<_> = bytes.split(|&byte| byte == b'\n').filter_map(read_line).collect();
        let found = lines.iter().find(|(_, name)| *name == wanted);
        match (found, lines.as_slice()) {
            (Some((sum, _)), _) | (None, [(sum, _)]) => Ok(Some(*sum)),
            _ => Err(format!("{} has no line of sha256sum for {}", beside.display(), path.display())),
        }
    }
}

/// Returns the path of the file with the checksum of the file at `path`.
pub fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUM_END);
    name.into()
}

fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for &byte in name {
        match byte {
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'\r' => escaped.extend_from_slice(b"\\r"),
            _ => escaped.push(byte),
        }
    }
    escaped
}

/// Reads a line; returns the checksum and the escaped name.
fn read_line(line: &[u8]) -> Option<(Checksum, &[u8])> {
    let line = line.strip_prefix(b"\\").unwrap_or(line);
    let (digits, rest) = line.split_at_checked(64)?;
    let mut sum = [0; 32];
    for (byte, digits) in sum.iter_mut().zip(digits.as_chunks::<2>().0) {
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? * 16 + low?).ok()?;
    }
    let name = rest.strip_prefix(b"  ").or_else(|| rest.strip_prefix(b" *"))?;
    if name.is_empty() { None } else { Some((Checksum(sum), name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let sum = Checksum(std::array::from_fn(|at| at as u8 * 7));
        for (name, written) in [("a b.rdb", "a b.rdb"), ("back\\slash", "back\\\\slash"), ("two\nlines", "two\\nlines")]
        {
            let line = sum.line(&Path::new("folder").join(name));
            assert_eq!(line.starts_with(b"\\"), name != written);
            let (read, shown) = read_line(line.strip_suffix(b"\n").unwrap()).unwrap();
            assert!(read == sum && shown == written.as_bytes(), "{name:?}");
        }
    }

    #[test]
    fn other_lines_are_passed_over() {
        let digits = "0f".repeat(32);
        assert!(read_line(format!("{digits} *name").as_bytes()).is_some());
        for bad in [String::new(), digits.clone(), format!("{digits}  "), format!("{digits} name"), "x".repeat(80)] {
            assert!(read_line(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
