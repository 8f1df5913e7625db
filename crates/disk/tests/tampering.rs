//! An AOF on the machine's own disk, with files that another process changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sleeve_disk::aof::{AofWriter, Folder, Options};
use sleeve_disk::disk::real::RealDisk;

use crate::base::{create, write_base};
use crate::exchange::{append, open_again, request as words};

/// A folder that is removed with the value.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sleeve-tampering-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn options(&self) -> Options {
        let (folder, name) = (self.0.join("logs"), "a.aof".to_owned());
        Options { folder, name, checksums: true, timestamps: false, salt: 11 }
    }

    fn open(&self, process: u32) -> Folder {
        open_again(self.options(), process)
    }

    /// Begins an AOF with a base and a request in its increment.
    fn begin(&self) -> AofWriter {
        let folder = self.open(1);
        let base = write_base(&RealDisk, &self.options(), 0, &[words(&["SET", "base", "0"])]).expect("a base");
        let mut log = create(folder, base).expect("a log");
        append(&mut log, &[&["SET", "a", "1"]], 0);
        log
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("it was there");
    }
}

/// Returns a file of the folder with this part in its name.
fn file(folder: &Path, part: &str) -> PathBuf {
    let mut names = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    names.find(|path| path.to_string_lossy().contains(part)).expect("there is one")
}

type Tamper = fn(&Path);

/// The changes to the folder, and the reports about them.
const DEEDS: [(&str, Tamper); 7] = [
    ("removed", |folder| fs::remove_dir_all(folder).expect("it was there")),
    ("removed", |folder| fs::remove_file(file(folder, ".manifest")).expect("it was there")),
    ("removed", |folder| fs::remove_file(file(folder, ".base.")).expect("it was there")),
    ("removed", |folder| fs::remove_file(file(folder, ".incr.")).expect("it was there")),
    ("cut", |folder| {
        let file = fs::OpenOptions::new().write(true).open(file(folder, ".incr.")).expect("it is there");
        file.set_len(10).expect("it is cut");
    }),
    ("appended 3 bytes to", |folder| {
        let path = file(folder, ".incr.");
        fs::write(&path, [fs::read(&path).expect("it is there"), b"abc".to_vec()].concat()).expect("it is written");
    }),
    ("put another file in the place of", |folder| {
        let path = file(folder, ".incr.");
        let longer = [fs::read(&path).expect("it is there"), b"abc".to_vec()].concat();
        fs::remove_file(&path).and_then(|()| fs::write(&path, longer)).expect("it is another");
    }),
];

#[test]
fn tampering_with_a_file_is_noticed_and_nothing_else_is() {
    for (number, (deed, tamper)) in DEEDS.into_iter().enumerate() {
        let place = Place::new(&format!("deed-{number}"));
        let log = place.begin();
        assert!(log.tampering().is_none());
        tamper(&place.options().folder);
        let told = log.tampering().unwrap_or_else(|| panic!("{number} is not seen")).to_string();
        assert!(told.contains("Somebody else has ") && told.contains(deed), "{number}: {told}");
        let log = Folder::from(log).wait_anew(100, 1).expect("it begins again");
        assert!(log.is_waiting() && log.tampering().is_none(), "{number}");
    }
}

#[test]
fn a_folder_that_another_process_has_taken_is_left_to_it() {
    let place = Place::new("taken");
    let log = place.begin();
    fs::remove_dir_all(place.options().folder).expect("it was there");
    let other = place.open(2);
    let refused = Folder::from(log).wait_anew(100, 1).expect_err("it is the other's");
    let told = refused.error.to_string();
    assert!(told.contains("held by process 2,") && told.contains("use another folder"), "{told}");
    drop(other);
    let log = refused.folder.wait_anew(100, 1).expect("the other has gone");
    assert!(Folder::open(Arc::new(RealDisk), place.options(), 3).is_err(), "it has the lock again");
    drop(log);
}
