//! The faults that an AOF can have, with the file and the byte, and the remedies for their readers.
//!
//! The reader of an AOF reports them. A server that starts ends with such a fault, and `sleeve check aof` prints it.

use std::fmt;
use std::io;

use crate::format::manifest::ManifestError;

/// The kind of fault.
#[derive(Debug)]
pub enum What {
    /// The disk cannot read the file.
    Unreadable(io::Error),
    /// The manifest cannot be parsed.
    Manifest(ManifestError),
    /// The manifest names the file, and it is not there.
    NotThere,
    /// The bytes are no request; the text says why.
    NoRequest(String),
    /// The file ends in the middle of a request, a line, a block or a base.
    CutOff,
    /// The file ends between MULTI and EXEC.
    OpenTransaction,
    /// A line that begins as Sleeve's own lines do and does not parse as one.
    DamagedLine,
    /// A block differs from the written one.
    WrongSum,
    /// The part between two blocks, or two files, is missing: the journal's offsets.
    Missing {
        /// The journal's offset at which the next part should begin.
        expected: u64,
        /// The journal's offset at which the next part begins.
        found: u64,
    },
    /// The next part has been there already: the journal's offsets.
    Repeated {
        /// The journal's offset at which the next part should begin.
        expected: u64,
        /// The journal's offset at which the next part begins.
        found: u64,
    },
    /// The manifest does not name the file, which has data that no other file has.
    NotNamed,
    /// The manifest calls the file history, and it has data that no other file has.
    NotHistory,
    /// The file is cut off or damaged, and there are files behind it.
    NotTheLast(Box<What>),
    /// The damaged part was once whole on the disk: later blocks say that it was synced.
    AfterSync(Box<What>),
    /// The damaged part was written whole, and the disk or a program has changed it.
    Changed(Box<What>),
}

impl What {
    /// Returns the kind of fault itself, without its place.
    pub fn innermost(&self) -> &What {
        match self {
            What::NotTheLast(what) | What::AfterSync(what) | What::Changed(what) => what.innermost(),
            what => what,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Unreadable(error) => write!(f, "cannot be read: {error}"),
            What::Manifest(error) => write!(f, "{error}"),
            What::NotThere => f.write_str("is named in the manifest and is not there"),
            What::NoRequest(why) => write!(f, "is no request: {why}"),
            What::CutOff => f.write_str("the file ends in the middle of something"),
            What::OpenTransaction => f.write_str("the file ends between MULTI and EXEC"),
            What::DamagedLine => f.write_str("a line that says what follows is damaged"),
            What::WrongSum => f.write_str("a block is not what was written: its sum is another"),
            What::Missing { expected, found } => {
                write!(f, "something is missing: the journal goes on at {found}, not at {expected}")
            }
            What::Repeated { expected, found } => {
                write!(f, "something is there twice: the journal goes on at {found}, not at {expected}")
            }
            What::NotNamed => f.write_str("the manifest does not name it, and it holds what no file of the log has"),
            What::NotHistory => f.write_str("the manifest calls it history, and it holds what is nowhere else"),
            What::NotTheLast(what) => write!(f, "{what}; and it is not the last file of the log"),
            What::AfterSync(what) => write!(f, "{what}; what was written later says that it was whole on the disk"),
            What::Changed(what) => {
                write!(f, "{what}; it was written whole and has changed since, and no crash cut it off")
            }
        }
    }
}

/// A fault of an AOF, and its place.
#[derive(Debug)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The byte of the file at which it begins.
    pub at: u64,
    /// The kind of fault.
    pub what: What,
    /// True if the damage is the torn end of the bytes that were being written when the power or the process went: cutting it
    /// off loses no bytes that were promised to be on the disk.
    pub is_unfinished_end: bool,
}

impl Damage {
    pub(crate) fn new(file: impl ToString, at: u64, what: What) -> Damage {
        Damage { file: file.to_string(), at, what, is_unfinished_end: false }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> &'static str {
        match &self.what {
            What::Unreadable(_) => "Look after the disk and the permissions, or bring the file back from a backup",
            What::Manifest(_) => "Mend the line by hand, or bring the manifest back from a backup",
            What::NotThere => {
                "Bring it back from a backup, or take its line out of the manifest: what it held is lost then"
            }
            What::NotNamed => {
                "Bring the manifest back from a backup, or add the file's line to it (file NAME seq NUMBER type i, or type b for a \
                 base); or move the file away: what it holds is lost then"
            }
            What::NotHistory => "In the manifest, give it the type i instead of h",
            _ if self.is_unfinished_end => {
                "It is the end of what was being written when the server died. With aof-load-truncated yes it is cut off; \
                 or make a backup and cut it off with: sleeve check aof --fix MANIFEST"
            }
            _ => {
                "Bring the file back from a backup; or make a backup of the folder and see what sleeve check aof --fix MANIFEST would save"
            }
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}. {}.", self.file, self.at, self.what, self.remedy())
    }
}

impl std::error::Error for Damage {}
