//! A server around an AOF, as far as an AOF sees it: it appends, syncs, rewrites and heals in an order that is drawn from a
//! seed, and notes its promises.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sleeve_disk::aof::{AofWriter, BaseWriter, Folder, Healed, Healing, Health, NewBase, Options, SyncJob};
use sleeve_disk::disk::{Disk, File, Open};
use sleeve_disk::format::manifest::Format;
use sleeve_disk::replay::{self, Step};
use sleeve_tests::random::Random;

use crate::base::{create, write_base};

use super::journal::{Journal, numbers, put};
use super::manner::Manner;
use super::owed::Owed;

/// The settings of one run of the server, from its start to a power cut or its death.
#[derive(Clone, Debug)]
pub struct Life {
    pub options: Options,
    pub steps: usize,
    pub manner: Manner,
}

pub fn options(seed: u64, checksums: bool) -> Options {
    let (folder, name) = (PathBuf::from("appendonlydir"), "appendonly.aof".to_owned());
    Options { folder, name, checksums, timestamps: seed.is_multiple_of(3), salt: seed }
}

/// The content of the disk: the numbers of the pieces, in order, and the journal's offset.
#[derive(Debug)]
pub struct Found {
    pub numbers: Vec<usize>,
    pub folder: Folder,
    pub outcome: replay::Outcome,
}

/// Reads the content of the disk.
pub fn read_back(disk: Arc<dyn Disk>, options: Options) -> Result<Found, String> {
    let folder = Folder::open(disk, options, 1).map_err(|error| error.to_string())?;
    let mut replay = folder.replay(replay::Options { load_truncated: true, read_until: None });
    let (mut requests, mut all) = (Vec::new(), Vec::new());
    loop {
        match replay.next(&mut requests).map_err(|damage| damage.to_string())? {
            Step::Requests => {}
            Step::Rdb(_) => return Err("nobody has written a snapshot".to_owned()),
            Step::End(outcome) => return Ok(Found { numbers: all, folder, outcome }),
        }
        all.extend(numbers(&requests)?);
        requests.clear();
    }
}

/// The progress of a rewrite.
enum Rewriting {
    Idle,
    /// The increment is made; the base has so many of its pieces, of so many.
    Writing {
        since: i64,
        file: Arc<dyn File>,
        base: Option<BaseWriter>,
        stands_for: u64,
        numbers: Vec<usize>,
        written: usize,
    },
}

/// The number of times that each step was done: a simulation does not test a step that it never does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub rewrites: usize,
    pub healings: usize,
}

pub struct Server {
    disk: Arc<dyn Disk>,
    life: Life,
    pub journal: Journal,
    log: AofWriter,
    /// The numbers of the pieces that earlier runs of the server have logged.
    before: Vec<usize>,
    rewriting: Rewriting,
    sync: Option<SyncJob>,
    now: i64,
    /// The number of rewrites that have ended, and of healings.
    pub done: Done,
}

fn temp_base() -> &'static Path {
    Path::new("appendonlydir/temp-base")
}

impl Server {
    /// Begins with the content that was found, or with nothing.
    pub fn start(disk: Arc<dyn Disk>, life: Life, found: Found, first: usize) -> io::Result<Server> {
        let Found { numbers, folder, outcome } = found;
        let log = if folder.is_empty() {
            create(folder, write_base(disk.as_ref(), &life.options, 0, &[])?)?
        } else {
            folder.resume(outcome)?
        };
        let before = numbers;
        let journal = Journal::new(log.end(), first);
        let now = 1_000;
        Ok(Server {
            disk,
            life,
            journal,
            log,
            before,
            rewriting: Rewriting::Idle,
            sync: None,
            now,
            done: Done::default(),
        })
    }

    /// Returns the numbers of all pieces that are logged up to an offset of the journal, with those of earlier lives.
    pub fn pieces_until(&self, offset: u64) -> Vec<usize> {
        self.before.iter().copied().chain(self.journal.logged_until(offset)).collect()
    }

    /// Returns the pieces that must be there at the next start. With `early`, it promises more than is durable.
    pub fn owed(&self, early: bool) -> Owed {
        let (synced, end) = (self.pieces_until(self.log.synced_end()), self.pieces_until(self.log.end()));
        let durable = if early { end.clone() } else { synced };
        let is_hurt = matches!(self.log.health(), Health::SyncFailed(_));
        Owed { durable, written: end, done: self.pieces_until(u64::MAX), is_hurt }
    }

    pub fn next_number(&self) -> usize {
        self.journal.next_number()
    }

    /// Lives until the steps are done or the power goes.
    pub fn live(&mut self, random: &mut Random, is_over: impl Fn() -> bool) {
        for _ in 0..self.life.steps {
            if is_over() {
                return;
            }
            // A call that fails here fails on the disk: the server goes on, or the power is gone and nothing works.
            let _ = self.step(random);
        }
    }

    fn step(&mut self, random: &mut Random) -> io::Result<()> {
        self.now += random.below(3) as i64;
        if matches!(self.log.health(), Health::SyncFailed(_)) {
            (self.sync, self.rewriting) = (None, Rewriting::Idle);
            return self.heal(random);
        }
        match random.below(12) {
            0..5 => self.write(random),
            5..9 if self.life.manner.never_syncs => {}
            5 => self.sync = self.log.sync_job(),
            6..9 => self.sync()?,
            9 => self.rewrite_step(random)?,
            10 => self.history()?,
            _ if self.life.manner.tears_pieces => self.journal.add_torn(),
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, random: &mut Random) {
        for _ in 0..random.below(4) {
            self.journal.add(random);
        }
        let count = random.below(5) + 1;
        self.append(count);
    }

    /// Appends the due pieces; an append that fails is tried again later.
    fn append(&mut self, count: usize) {
        let (end, slices) = self.journal.read(self.log.end(), count);
        let slices: Vec<IoSlice<'_>> = slices.into_iter().map(IoSlice::new).collect();
        // Pieces of a failed append are appended again.
        let _ = self.log.append(end, &slices, self.now);
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(job) = self.sync.take().or_else(|| self.log.sync_job()) else { return Ok(()) };
        match job.run() {
            Ok(()) => {
                self.log.synced(&job);
                Ok(())
            }
            Err(error) => {
                self.log.sync_failed(&error);
                Err(error)
            }
        }
    }

    fn heal(&mut self, random: &mut Random) -> io::Result<()> {
        let Some(mut healing) = self.log.healing() else { return Ok(()) };
        match self.run_healing(&mut healing, random) {
            Ok(healed) => {
                self.log.healed(healed);
                self.done.healings += 1;
                Ok(())
            }
            Err(error) => {
                self.log.not_healed(healing);
                Err(error)
            }
        }
    }

    fn run_healing(&self, healing: &mut Healing, random: &mut Random) -> io::Result<Healed> {
        if self.life.manner.forgets {
            healing.append_old()?;
        }
        let target = self.journal.end();
        loop {
            let (end, slices) = self.journal.read(healing.next(), random.below(8) + 1);
            let slices: Vec<IoSlice<'_>> = slices.into_iter().map(IoSlice::new).collect();
            healing.append(end, &slices)?;
            if end == target {
                break;
            }
        }
        healing.run()
    }

    fn rewrite_step(&mut self, random: &mut Random) -> io::Result<()> {
        match std::mem::replace(&mut self.rewriting, Rewriting::Idle) {
            Rewriting::Idle => self.begin_rewrite(random),
            Rewriting::Writing { since, file, mut base, stands_for, numbers, mut written } => {
                let mut bytes = Vec::new();
                if base.is_none() {
                    base = Some(BaseWriter::begin(&self.life.options, stands_for, &mut bytes));
                }
                let part = &numbers[written..numbers.len().min(written + 30)];
                written += part.len();
                let mut requests = Vec::new();
                part.iter().for_each(|number| put(&mut requests, &["SET", &format!("k:{number}:0:1"), "base"]));
                let is_over = written == numbers.len();
                let mut writer = base.take().expect("it was begun");
                writer.block(&requests, &mut bytes);
                if !is_over {
                    file.append(&[IoSlice::new(&bytes)])?;
                    self.rewriting =
                        Rewriting::Writing { since, file, base: Some(writer), stands_for, numbers, written };
                    return Ok(());
                }
                writer.end(&mut bytes);
                file.append(&[IoSlice::new(&bytes)])?;
                file.sync()?;
                let base = NewBase { file: temp_base().to_owned(), format: Format::Aof, stands_for };
                let rewritten = self.log.rewrite(base, since)?.run()?;
                self.log.rewritten(rewritten);
                self.done.rewrites += 1;
                Ok(())
            }
        }
    }

    fn begin_rewrite(&mut self, random: &mut Random) -> io::Result<()> {
        let rotated = self.log.rotation().run()?;
        if random.once_in(2) {
            self.write(random);
        }
        if !self.life.manner.never_syncs && random.once_in(3) && self.sync().is_err() {
            // The AOF is healed between the making of an increment and the switch to it; the switch is then refused.
            self.heal(random)?;
        }
        // The data of the base is taken here, and everything that it stands for is appended before the switch.
        self.append(usize::MAX);
        let stands_for = self.journal.end();
        if self.log.end() != stands_for {
            return Ok(());
        }
        let since = self.log.switch(rotated)?;
        let numbers = self.pieces_until(stands_for);
        let file = self.disk.open(temp_base(), Open::Create)?;
        self.rewriting = Rewriting::Writing { since, file, base: None, stands_for, numbers, written: 0 };
        Ok(())
    }

    fn history(&mut self) -> io::Result<()> {
        let Some(history) = self.log.history() else { return Ok(()) };
        history.run()?;
        self.log.history_removed();
        Ok(())
    }
}
