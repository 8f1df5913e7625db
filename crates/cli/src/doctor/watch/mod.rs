//! Watches a server while a program runs: INFO four times a second, a look-up of one key and a look at sockets and threads
//! twenty times a second, a sample of commands once, the slow log at the end.
//!
//! One thread does it, but for the sample. The doctor's own requests are counted and taken off.

mod monitor;
mod process;
mod reading;
mod sockets;

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::evidence::{Evidence, Path, Times};
use super::options::DoctorOptions;
use super::session::{Fault, Session, Tally};
use crate::bench::meter::Meter;
use crate::endpoint::{Endpoint, Login};
use crate::interrupt::Interrupt;
use monitor::Take;
use process::{Account, ServerProcess};
use reading::{Reading, clients, slow_log, tcp_segments};
use sockets::Looker;

/// The interval between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// The interval between two readings of INFO.
const READING: Duration = Duration::from_millis(250);
/// The time for which a program that already runs is watched.
const TIME: Duration = Duration::from_secs(5);
/// The key that is looked up; it is never written.
const PROBE: &str = "sleeve-doctor";
/// The time that a program may take to end after it is told to.
const END_TIME: Duration = Duration::from_secs(5);

/// The program that is watched.
#[derive(Debug)]
pub struct Program {
    child: Child,
    account: Account,
    /// The way in which the program ended, if it is worth reporting.
    pub ending: Option<String>,
}

impl Program {
    /// Starts the program. Its output goes to the error output, because the report goes to the standard output.
    pub fn start(words: &[String]) -> Result<Option<Self>, String> {
        let Some((name, arguments)) = words.split_first() else { return Ok(None) };
        let cannot = |error: std::io::Error| format!("{name} cannot be started: {error}");
        let output = std::io::stderr().as_fd().try_clone_to_owned().map_err(cannot)?;
        let child = Command::new(name).args(arguments).stdout(Stdio::from(output)).spawn().map_err(cannot)?;
        let mut account = Account::default();
        account.look(&[child.id()]);
        Ok(Some(Self { child, account, ending: None }))
    }

    /// Returns whether the program has ended.
    fn has_ended(&mut self) -> bool {
        self.account.look(&process::family(self.child.id()));
        match self.child.try_wait() {
            Ok(None) => false,
            Ok(Some(status)) => {
                self.ending = (!status.success()).then(|| format!("the program ended with {status}"));
                true
            }
            Err(error) => {
                self.ending = Some(format!("the program cannot be waited for: {error}"));
                true
            }
        }
    }

    /// Ends the program: first by SIGTERM, then by SIGKILL.
    fn end(&mut self) {
        if self.has_ended() {
            return;
        }
        let begun = Instant::now();
        if let Some(id) = Pid::from_raw(self.child.id() as i32) {
            _ = kill_process(id, Signal::TERM);
        }
        while begun.elapsed() < END_TIME {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(status)) if status.signal() == Some(Signal::TERM.as_raw()) => return,
                _ => {
                    self.has_ended();
                    return;
                }
            }
        }
        // The program may have ended at this moment.
        _ = self.child.kill();
        _ = self.child.wait();
        self.ending = Some("the program did not end when it was told to, and was killed".to_owned());
    }
}

/// A watch.
pub struct Watch<'a> {
    endpoint: &'a Endpoint,
    login: &'a Login,
    session: &'a mut Session,
    tally: &'a Tally,
    probe_words: [&'static str; 2],
    server: Option<ServerProcess>,
    looker: Option<Looker>,
    /// The doctor's addresses, as this machine and the server see them.
    own: HashSet<String>,
    probes_us: Vec<f64>,
    clients: Vec<f64>,
    seconds: f64,
    longest_fork_us: u64,
    listening: Option<Receiver<Take>>,
    unread: Vec<String>,
}

impl<'a> Watch<'a> {
    /// Prepares everything that is needed while the program runs.
    pub fn new(session: &'a mut Session, tally: &'a Tally, endpoint: &'a Endpoint, login: &'a Login) -> Self {
        let addresses = session.addresses();
        let own = addresses.iter().map(|(here, _)| here.to_string()).collect();
        let looker = addresses.and_then(|(here, server)| Looker::new(server, vec![here]).ok());
        let server = Meter::find(endpoint, login).ok().flatten().and_then(|meter| ServerProcess::new(&meter));
        Self {
            endpoint,
            login,
            session,
            tally,
            probe_words: ["EXISTS", PROBE],
            server,
            looker,
            own,
            probes_us: Vec::new(),
            clients: Vec::new(),
            seconds: 0.0,
            longest_fork_us: 0,
            listening: None,
            unread: Vec::new(),
        }
    }

    /// Watches until the program ends, the time is over or Ctrl-C comes.
    pub fn run(
        mut self,
        path: &Path,
        options: &DoctorOptions,
        program: &mut Option<Program>,
        interrupt: &Interrupt,
    ) -> Result<Evidence, Fault> {
        let limit = options.time.or(program.is_none().then_some(TIME));
        let slow_before = self.or_note(slow_log);
        let policy = self.or_note(reading::sync_policy).flatten();
        // Segments lost on the way to other machines are not this server's business when its connections do not leave the
        // machine.
        let segments = tcp_segments().filter(|_| !self.session.is_local());
        let begun = Instant::now();
        let before = Reading::take(self.session, self.tally)?;
        let mut last = before.clone();
        let has_ended = |program: &mut Option<Program>| program.as_mut().is_some_and(Program::has_ended);
        while !has_ended(program) && limit.is_none_or(|limit| begun.elapsed() < limit) && interrupt.sleep(LOOK) {
            self.look()?;
            if last.at.elapsed() >= READING {
                last = self.read(&last, !options.no_monitor)?;
            }
        }
        if let Some(program) = program {
            program.end();
        }
        let last = self.read(&last, false)?;
        let taken = self.listening.take().and_then(|listening| listening.recv().ok());
        let mut evidence = self.evidence(path, &before, &last, taken.as_ref());
        evidence.log.policy = policy;
        let slow = self.or_note(slow_log);
        evidence.slow =
            slow_before.zip(slow).map(|(before, now)| reading::new_entries(&before, now)).unwrap_or_default();
        evidence.sent_again_share = segments.zip(tcp_segments()).and_then(|(before, now)| now.sent_again_since(before));
        evidence.program = program.as_ref().map(|program| program.account.usage(begun.elapsed().as_secs_f64(), 1));
        evidence.unread = self.unread;
        Ok(evidence)
    }

    /// Asks for something that may be refused; a refusal is noted once.
    fn or_note<T>(&mut self, ask: impl Fn(&mut Session) -> Result<T, Fault>) -> Option<T> {
        ask(self.session).map_err(|fault| self.note(fault.to_string())).ok()
    }

    fn note(&mut self, text: String) {
        if !self.unread.contains(&text) {
            self.unread.push(text);
        }
    }

    /// Looks up a key and looks at sockets and threads, twenty times a second.
    fn look(&mut self) -> Result<(), Fault> {
        let begun = Instant::now();
        match self.session.ask(&self.probe_words[..self.probe_length()]) {
            Ok(_) => {}
            Err(Fault::Refused(text)) if text.contains("NOPERM") => {
                self.note(text);
                self.probe_words = ["PING", ""];
            }
            // A node of a cluster says where the key is, which is an answer too.
            Err(Fault::Refused(_)) => {}
            Err(fault) => return Err(fault),
        }
        self.probes_us.push(begun.elapsed().as_secs_f64() * 1e6);
        if let Some(server) = &mut self.server {
            server.look();
        }
        if let Some(Err(error)) = self.looker.as_mut().map(Looker::look) {
            self.looker = None;
            self.note(format!("the program's sockets: {error}"));
        }
        Ok(())
    }

    fn probe_length(&self) -> usize {
        if self.probe_words[1].is_empty() { 1 } else { 2 }
    }

    /// Reads INFO, four times a second.
    fn read(&mut self, last: &Reading, may_listen: bool) -> Result<Reading, Fault> {
        let now = Reading::take(self.session, self.tally)?;
        if now.forks() > last.forks() {
            self.longest_fork_us = self.longest_fork_us.max(now.info.number("latest_fork_usec"));
        }
        let is_used = now.commands_since(last) > 0;
        if is_used {
            self.seconds += (now.at - last.at).as_secs_f64();
        }
        if let Some(seen) = self.or_note(clients) {
            self.own.extend(seen.own);
            if is_used {
                self.clients.push(seen.others as f64);
            }
        }
        if is_used && may_listen && self.listening.is_none() {
            self.listening = Some(monitor::listen(self.endpoint, self.login));
        }
        Ok(now)
    }

    /// Returns the evidence that was gathered between two readings.
    fn evidence(&mut self, path: &Path, before: &Reading, last: &Reading, taken: Option<&Take>) -> Evidence {
        let mut evidence = Evidence { path: path.clone(), ..last.since(before) };
        evidence.traffic.seconds = self.seconds;
        let elapsed = (last.at - before.at).as_secs_f64();
        let own_share = last.own_us_since(before) / (elapsed * 1e6 * evidence.server.workers);
        evidence.traffic.clients = self.clients.iter().sum::<f64>() / self.clients.len().max(1) as f64;
        evidence.probe_us = Times::of(std::mem::take(&mut self.probes_us));
        evidence.forks.longest_us = self.longest_fork_us;
        evidence.sockets = self.looker.as_ref().and_then(Looker::seen);
        if let Some(take) = taken {
            match &take.refused {
                Some(text) => self.note(text.clone()),
                None => evidence.sample = Some(take.sample(&self.own, path.round_trip_us)),
            }
            evidence.traffic.bytes_out = evidence.traffic.bytes_out.saturating_sub(take.bytes);
            // The connection of the sample, and its MONITOR command, are subtracted.
            evidence.traffic.connects = evidence.traffic.connects.saturating_sub(1);
            evidence.traffic.commands = evidence.traffic.commands.saturating_sub(1);
        }
        match &mut self.server {
            Some(server) => {
                let usage = server.usage(elapsed, evidence.server.workers as usize);
                // The usage is that of the whole time. The figure that counts is the share of the time in which commands
                // arrived.
                let active = elapsed / self.seconds.clamp(f64::MIN_POSITIVE, elapsed);
                let busy_share = (usage.busiest_share + usage.delayed_share - own_share).max(0.0);
                evidence.server.busy_share = Some(busy_share * active);
                evidence.server.delayed_share = usage.delayed_share * active;
                evidence.server.disk_share = Some(server.disk_share());
                evidence.server.swapped_bytes = server.swapped_bytes();
                evidence.server.major_faults = server.major_faults();
            }
            None => {
                let busy_share = last.busy_since(before, self.seconds);
                evidence.server.busy_share = busy_share.map(|share| (share - own_share).max(0.0));
            }
        }
        evidence
    }
}
