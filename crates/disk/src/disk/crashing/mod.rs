//! A file system on which a power cut may destroy everything that was not synced.
//!
//! It behaves as a file system does until the cut. The seed of the cut decides what remains. Of each file, the durable bytes
//! remain; of the writes behind them each sector is there, missing or garbage. Of each folder, the durable names remain; of
//! the changes behind those each is done or not. A sync that fails drops the changes that it should have made durable: they
//! can still be read, and no later sync brings them to the disk, as in Linux.
//!
//! Every call has a number. A [`Plan`] says at which call the power goes (before it takes effect, or after it and before the
//! caller gets its result), which calls fail and how, and when the disk is full. After the cut every call fails;
//! [`CrashingDisk::survivors`] is the disk that the next start finds.

mod chance;
mod inode;

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::chance::Chance;
use self::inode::Inode;
use super::memory::{copy_from, held_by, not_found};
use super::{Disk, File, Lock, Open};

/// The fault of a planned call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The disk reports an error; nothing is done. A sync drops the changes that it should have made durable.
    Broken,
    /// The disk reports that it is full; an append leaves so many bytes.
    Full(usize),
}

/// The side of its call on which a cut falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The call has no effect.
    Before,
    /// The call has its effect, and the caller does not get its result.
    After,
}

/// The planned faults, and their times. Calls count from 1.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The call at which the power goes.
    pub cut: Option<(u64, Side)>,
    /// Calls that fail. A call that cannot fail in the way that is named here fails as broken.
    pub faults: BTreeMap<u64, Fault>,
    /// Bytes that all files may have together.
    pub bytes_max: Option<u64>,
}

/// The disk; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct CrashingDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug)]
enum NameChange {
    /// A name stands for a file from now on.
    Link(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Unlink(PathBuf),
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    /// The names that survive for certain.
    durable_names: BTreeMap<PathBuf, usize>,
    /// The changes to the names of each folder since it was synced, in order.
    changes: BTreeMap<PathBuf, Vec<NameChange>>,
    folders: BTreeMap<PathBuf, ()>,
    locks: BTreeMap<PathBuf, u32>,
    plan: Plan,
    calls: u64,
    is_cut: bool,
}

/// The part of a call that takes effect.
enum Admitted {
    Whole,
    /// The call takes effect for this many bytes, and then fails.
    Partly(usize),
}

impl State {
    /// Counts a call and returns the part of it that takes effect, or the planned fault.
    fn enter(&mut self) -> io::Result<Admitted> {
        if self.is_cut {
            return Err(power_is_gone());
        }
        self.calls += 1;
        if self.plan.cut == Some((self.calls, Side::Before)) {
            self.is_cut = true;
            return Err(power_is_gone());
        }
        match self.plan.faults.get(&self.calls) {
            None => Ok(Admitted::Whole),
            Some(Fault::Full(written)) => Ok(Admitted::Partly(*written)),
            Some(Fault::Broken) => Err(io::Error::other("input/output error (planned)")),
        }
    }

    /// Counts a call that does not write, and returns its planned fault, if any.
    fn enter_whole(&mut self) -> io::Result<()> {
        match self.enter()? {
            Admitted::Whole => Ok(()),
            Admitted::Partly(_) => Err(disk_is_full()),
        }
    }

    /// Returns the result for the caller of a call that has taken effect.
    fn leave(&mut self) -> io::Result<()> {
        if self.plan.cut == Some((self.calls, Side::After)) {
            self.is_cut = true;
            return Err(power_is_gone());
        }
        Ok(())
    }

    fn change(&mut self, path: &Path, change: NameChange) {
        apply(&mut self.names, &change);
        self.changes.entry(parent(path)).or_default().push(change);
    }

    /// Returns the number of bytes that the disk still takes.
    fn room(&self) -> u64 {
        let used: u64 = self.names.values().map(|&inode| self.inodes[inode].len()).sum();
        self.plan.bytes_max.map_or(u64::MAX, |max| max.saturating_sub(used))
    }
}

fn apply(names: &mut BTreeMap<PathBuf, usize>, change: &NameChange) {
    match change {
        NameChange::Link(path, inode) => _ = names.insert(path.clone(), *inode),
        NameChange::Unlink(path) => _ = names.remove(path),
        NameChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

fn power_is_gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the power is gone")
}

fn disk_is_full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on the disk (planned)")
}

impl CrashingDisk {
    /// Returns an empty disk with a plan.
    pub fn new(plan: Plan) -> CrashingDisk {
        let disk = CrashingDisk::default();
        disk.state().plan = plan;
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Returns whether the power has been cut.
    pub fn is_cut(&self) -> bool {
        self.state().is_cut
    }

    /// Adds calls that fail to those of the plan, and sets the largest number of bytes on the disk from now on.
    pub fn fail(&self, faults: BTreeMap<u64, Fault>, bytes_max: Option<u64>) {
        let mut state = self.state();
        state.plan.faults.extend(faults);
        state.plan.bytes_max = bytes_max;
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.state().is_cut = true;
    }

    /// Starts again after the death of the process without a power cut: all writes can be read, and the ones that were not
    /// synced are as much in danger as before. The numbers of calls begin anew.
    pub fn restart(&self, plan: Plan) {
        let mut state = self.state();
        (state.plan, state.calls, state.is_cut) = (plan, 0, false);
        state.locks.clear();
    }

    /// Returns the disk that the next start finds, with a plan for it. The seed decides which of the writes and names that
    /// were not durable are there.
    pub fn survivors(&self, seed: u64, plan: Plan) -> CrashingDisk {
        let state = self.state();
        let mut chance = Chance::new(seed);
        let mut names = state.durable_names.clone();
        for changes in state.changes.values() {
            // A journaling file system keeps a beginning of the changes; another keeps any of them.
            let manner = chance.below(4);
            let kept = chance.below(changes.len() as u64 + 1) as usize;
            for (index, change) in changes.iter().enumerate() {
                let is_kept = match manner {
                    0 => true,
                    1 => false,
                    2 => index < kept,
                    _ => chance.below(2) == 0,
                };
                if is_kept {
                    apply_late(&mut names, change, &state);
                }
            }
        }
        let inodes = state.inodes.iter().map(|inode| inode.survivor(&mut chance)).collect();
        let fresh = State {
            inodes,
            durable_names: names.clone(),
            names,
            folders: state.folders.clone(),
            plan,
            ..State::default()
        };
        CrashingDisk { state: Arc::new(Mutex::new(fresh)) }
    }
}

/// Applies a change that survived although an earlier one may not have: a renamed file keeps its content under the new name.
fn apply_late(names: &mut BTreeMap<PathBuf, usize>, change: &NameChange, state: &State) {
    if let NameChange::Rename(from, to) = change
        && !names.contains_key(from)
    {
        let linked = state.changes.values().flatten().find_map(|change| match change {
            NameChange::Link(path, inode) if path == from => Some(*inode),
            _ => None,
        });
        if let Some(inode) = linked {
            names.insert(to.clone(), inode);
        }
        return;
    }
    apply(names, change);
}

impl Disk for CrashingDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        state.enter_whole()?;
        let inode = match state.names.get(path).copied() {
            Some(inode) => {
                if how == Open::Create {
                    state.inodes[inode].truncate(0);
                }
                inode
            }
            None if how == Open::Create => {
                state.inodes.push(Inode::default());
                let inode = state.inodes.len() - 1;
                state.change(path, NameChange::Link(path.to_owned(), inode));
                inode
            }
            None => return Err(not_found(path)),
        };
        state.leave()?;
        Ok(Arc::new(CrashingFile { disk: self.clone(), inode }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        state.enter_whole()?;
        state.leave()?;
        let inode = state.names.get(path).ok_or_else(|| not_found(path))?;
        Ok(state.inodes[*inode].len())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter_whole()?;
        if !state.names.contains_key(from) {
            return Err(not_found(from));
        }
        state.change(to, NameChange::Rename(from.to_owned(), to.to_owned()));
        state.leave()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter_whole()?;
        if !state.names.contains_key(path) {
            return Err(not_found(path));
        }
        state.change(path, NameChange::Unlink(path.to_owned()));
        state.leave()
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.enter_whole()?;
        state.leave()?;
        if !state.folders.contains_key(folder) {
            return Err(not_found(folder));
        }
        let inside = state.names.keys().filter(|path| parent(path) == folder);
        Ok(inside.filter_map(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter_whole()?;
        state.folders.insert(folder.to_owned(), ());
        state.leave()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter_whole()?;
        for change in state.changes.remove(folder).unwrap_or_default() {
            apply(&mut state.durable_names, &change);
        }
        state.leave()
    }

    fn lock(&self, path: &Path, holder: u32) -> io::Result<Box<dyn Lock>> {
        let mut state = self.state();
        state.enter_whole()?;
        if let Some(other) = state.locks.get(path) {
            return Err(held_by(path, &other.to_string()));
        }
        state.locks.insert(path.to_owned(), holder);
        state.leave()?;
        Ok(Box::new(CrashingLock { disk: self.clone(), path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct CrashingFile {
    disk: CrashingDisk,
    inode: usize,
}

impl File for CrashingFile {
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.state();
        if state.is_cut {
            return Err(power_is_gone());
        }
        // Reads change nothing, so a cut at a read shows nothing that a cut at the next write does not show.
        Ok(copy_from(state.inodes[self.inode].bytes(), at, into))
    }

    fn append(&self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let mut state = self.disk.state();
        let admitted = state.enter()?;
        let mut bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let whole = bytes.len();
        let room = usize::try_from(state.room()).unwrap_or(usize::MAX);
        bytes.truncate(match admitted {
            Admitted::Whole => room,
            Admitted::Partly(written) => written.min(room).min(whole.saturating_sub(1)),
        });
        let is_whole = bytes.len() == whole;
        state.inodes[self.inode].append(bytes);
        state.leave()?;
        if is_whole { Ok(()) } else { Err(disk_is_full()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let inode = self.inode;
        match state.enter_whole() {
            Ok(()) => state.inodes[inode].sync(),
            Err(error) => {
                if !state.is_cut {
                    state.inodes[inode].fail_to_sync();
                }
                return Err(error);
            }
        }
        state.leave()
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.enter_whole()?;
        state.inodes[self.inode].truncate(length);
        state.leave()
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.enter_whole()?;
        state.leave()?;
        Ok(state.inodes[self.inode].len())
    }
}

#[derive(Debug)]
struct CrashingLock {
    disk: CrashingDisk,
    path: PathBuf,
}

impl Lock for CrashingLock {
    fn is_in_place(&self) -> bool {
        true
    }
}

impl Drop for CrashingLock {
    fn drop(&mut self) {
        self.disk.state().locks.remove(&self.path);
    }
}
