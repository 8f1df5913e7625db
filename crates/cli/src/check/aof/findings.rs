//! The contents of an AOF's files, and the fault of the first file that has one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sleeve_disk::BASE_OFFSET_FIELD;
use sleeve_disk::aof;
use sleeve_disk::disk::real::RealDisk;
use sleeve_disk::disk::{Disk, Open, read_full, read_small};
use sleeve_disk::format::manifest::{self, Entry, Manifest};
use sleeve_disk::replay::{Cut, Options, RdbSource, Replay, Step, request};
use sleeve_store::HashKey;
use sleeve_store::rdb::Limits;
use sleeve_store::rdb::file::{Event, Reader};

/// The place of an AOF: its folder and its manifest.
pub struct Place {
    pub folder: PathBuf,
    pub manifest: Manifest,
    /// The options with which its manifest is written; none for a single file.
    pub options: Option<aof::Options>,
}

/// A file that was read as far as possible.
pub struct FileFindings {
    name: String,
    is_base: bool,
    bytes: u64,
    /// The number of keys in the snapshot at the file's beginning.
    keys: Option<u64>,
    requests: u64,
}

impl fmt::Display for FileFindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_base { "base" } else { "increment" };
        write!(f, "{kind:<12} {}: {} bytes", self.name, self.bytes)?;
        if let Some(keys) = self.keys {
            write!(f, ", a snapshot of {keys} keys")?;
        }
        if self.requests > 0 || self.keys.is_none() {
            write!(f, ", {} requests", self.requests)?;
        }
        Ok(())
    }
}

/// The kind of fault.
pub enum Trouble {
    /// The fault can only be mended with a backup.
    Fatal(String),
    /// The damaged part can be cut off.
    Damaged(Cut),
    /// The part is later than the time that the user asked for.
    Unwanted(Cut),
}

/// The findings.
pub struct Findings {
    pub place: Place,
    pub files: Vec<FileFindings>,
    /// Oddities, a sentence each.
    pub told: Vec<String>,
    pub trouble: Option<Trouble>,
}

impl Findings {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Reads the AOF with this manifest, or this single file.
///
/// # Errors
/// If there is nothing to read.
pub fn read(path: &Path, read_until: Option<i64>) -> Result<Findings, String> {
    let (place, told) = locate(path)?;
    let options = Options { load_truncated: true, read_until };
    let mut replay = Replay::new(Arc::new(RealDisk), &place.folder, place.manifest.clone(), options);
    if let Some(options) = &place.options {
        let unnamed = aof::unnamed(Arc::new(RealDisk), options, &place.manifest);
        let unnamed = unnamed.map_err(|error| format!("cannot read {}: {error}", place.folder.display()))?;
        replay = replay.beside(unnamed.bases, unnamed.increments);
    }
    let mut findings = Findings { place, files: Vec::new(), told, trouble: None };
    let mut bytes = Vec::new();
    findings.trouble = loop {
        let step = replay.next(&mut bytes);
        findings.note(&replay);
        match step {
            Ok(Step::Requests) => findings.count(&bytes)?,
            Ok(Step::Rdb(source)) => match snapshot(source) {
                Ok((end, keys, stands_for)) => {
                    findings.last()?.keys = Some(keys);
                    if let Err(damage) = replay.after_rdb(end, stands_for) {
                        break Some(Trouble::Fatal(damage.to_string()));
                    }
                }
                Err(reason) => break Some(Trouble::Fatal(reason)),
            },
            Ok(Step::End(outcome)) => {
                findings.told.extend(outcome.told);
                let kind = |cut: Cut| if cut.damage.is_some() { Trouble::Damaged(cut) } else { Trouble::Unwanted(cut) };
                break outcome.cut.map(kind);
            }
            Err(damage) => {
                let text = damage.to_string();
                break Some(replay.cut_before(damage).map_or(Trouble::Fatal(text), Trouble::Damaged));
            }
        }
        bytes.clear();
    };
    Ok(findings)
}

impl Findings {
    /// Adds a line for the file that is being read.
    fn note(&mut self, replay: &Replay) {
        let Some(entry) = replay.file() else { return };
        let name = entry.to_string();
        if self.files.last().is_some_and(|file| file.name == name) {
            return;
        }
        let bytes = RealDisk.size(&self.place.folder.join(entry.path())).unwrap_or(0);
        let is_base = self.place.manifest.base.as_ref() == Some(entry);
        self.files.push(FileFindings { name, is_base, bytes, keys: None, requests: 0 });
    }

    fn last(&mut self) -> Result<&mut FileFindings, String> {
        self.files.last_mut().ok_or_else(|| "there is no file".to_owned())
    }

    fn count(&mut self, bytes: &[u8]) -> Result<(), String> {
        let file = self.last()?;
        request::for_each(bytes, |_| file.requests += 1).map_err(|what| what.to_string())
    }
}

/// Reads a snapshot: returns the byte at which it ends, the number of its keys, and the journal's offset that it stands for.
fn snapshot(source: RdbSource) -> Result<(u64, u64, Option<u64>), String> {
    let name = source.name.clone();
    // The maker of the file cannot know this secret.
    let secret = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
    let hash_key = HashKey::new(u128::from(secret).to_le_bytes());
    let size = source.size;
    let mut reader = Reader::new(source, Limits::usual(hash_key));
    reader.expect_size(size);
    let (mut keys, mut stands_for) = (0, None);
    loop {
        match reader.next_event() {
            Ok(Event::Aux { name, value }) if name == BASE_OFFSET_FIELD.as_bytes() => {
                stands_for = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
            }
            Ok(Event::Key(_)) => keys += 1,
            Ok(Event::End) => return Ok((reader.offset(), keys, stands_for)),
            Ok(_) => {}
            Err(error) => {
                return Err(format!(
                    "{name} is damaged {error}. {keys} keys in front of it can be read. Bring the file back from a backup; \
                     see also: sleeve check rdb {name}"
                ));
            }
        }
    }
}

fn locate(path: &Path) -> Result<(Place, Vec<String>), String> {
    let failed = |error| format!("cannot read {}: {error}", path.display());
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| format!("{} is no file", path.display()))?;
    let file = RealDisk.open(path, Open::Read).map_err(failed)?;
    let mut front = vec![0; 4096];
    let read = read_full(file.as_ref(), 0, &mut front).map_err(failed)?;
    front.truncate(read);
    if !is_manifest(&front) {
        let entry = Entry { name: name.into_bytes(), number: 1, length: None };
        let is_base = front.windows(7).any(|word| word == b"#SLV:S ");
        let manifest = if is_base {
            Manifest { base: Some(entry), ..Manifest::default() }
        } else {
            Manifest { increments: vec![entry], ..Manifest::default() }
        };
        return Ok((Place { folder, manifest, options: None }, Vec::new()));
    }
    let bytes = read_small(&RealDisk, path, manifest::BYTES_MAX).map_err(failed)?;
    let parsed = Manifest::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()));
    let (manifest, told) = parsed?;
    let name = name.strip_suffix(".manifest").unwrap_or(&name).to_owned();
    let told = told.into_iter().map(|oddity| format!("{}, {oddity}", path.display())).collect();
    let options = aof::Options { folder: folder.clone(), name, checksums: true, timestamps: false, salt: 0 };
    Ok((Place { folder, manifest, options: Some(options) }, told))
}

/// Returns whether the first line that is no comment begins as the lines of manifests do.
pub fn is_manifest(front: &[u8]) -> bool {
    let mut lines = front.split(|&byte| byte == b'\n').filter(|line| line.first() != Some(&b'#'));
    lines.next().is_some_and(|line| line.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"file")))
}
