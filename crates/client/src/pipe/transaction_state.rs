//! A transaction on the shared connection, as the sequence of its requests and its replies.
//!
//! A transaction is one entry of the pipe that takes many replies: MULTI's, one `QUEUED` for each command, and EXEC's, with
//! the commands' answers as elements. With conditions it has two phases. In the first, WATCH and one check of each key leave,
//! and the pipe holds back all other requests. When the checks are answered, the second phase is MULTI to EXEC, or UNWATCH.
//! So the conditions are checked, and stay true until EXEC, without a gap into which another command could slip.
//!
//! The transaction sends nothing itself: it returns the request that leaves next, and the pipe sends it. If the connection
//! breaks before EXEC has left, it begins again from the first phase, because nothing has been executed. Used by the pipe's
//! reader only.

use sleeve_wire::frame::{self, Frame, Scanner};

use super::slot::{Completions, Payload, Target};
use crate::error::{Effect, Error, ErrorKind};
use crate::resp::request::name::Name;

/// The requirement that a condition makes of the reply to its check.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// EXISTS: true if the key must exist.
    Exists(bool),
    /// GET: the value must equal these bytes, or must not.
    Equals { value: Vec<u8>, wanted: bool },
}

impl Check {
    fn holds(&self, reply: &[u8]) -> Result<bool, Error> {
        let (frame, _) = frame::decode(reply).map_err(Error::protocol)?;
        match (self, frame) {
            (_, Frame::Error(text)) => Err(Error::server(text)),
            (Self::Exists(wanted), Frame::Integer(count)) => Ok((count > 0) == *wanted),
            (Self::Equals { value, wanted }, Frame::Bulk(bytes)) => Ok((bytes == value) == *wanted),
            (Self::Equals { wanted, .. }, Frame::Null) => Ok(!wanted),
            _ => Err(Error::protocol("a condition's look at its key was answered with another type")),
        }
    }
}

/// The first phase: the keys that are watched and checked.
pub(crate) struct Watch {
    /// The encoded requests: one WATCH for each condition, then one check for each.
    pub(crate) request: Vec<u8>,
    pub(crate) checks: Vec<Check>,
    /// The encoded requests from MULTI to EXEC.
    pub(crate) execution: Vec<u8>,
}

/// The next step of the pipe after a reply.
pub(crate) enum Step {
    /// More replies belong to this transaction.
    More,
    /// The transaction has got its last reply.
    Done,
    /// The conditions hold: these requests leave next, and their replies belong to this transaction.
    Execute(Vec<u8>),
    /// The transaction has ended, and the watched keys are to be released.
    Release,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Watching,
    Executing,
}

/// One transaction between its first request and its last reply.
pub(crate) struct TransactionState {
    phase: Phase,
    watch: Option<Watch>,
    /// The commands that still wait for their answers, and below them the outcome of the transaction.
    commands: Vec<Option<Target>>,
    outcome: Option<Target>,
    /// The number of replies of this phase that have arrived.
    received: usize,
    /// The reason why the conditions do not hold; the inner `None` stands for a condition that is simply false.
    verdict: Option<Option<Error>>,
    /// The reason why the server did not queue a command that it, or another server, may take later. EXEC then fails without
    /// this reason.
    turned_away: Option<Error>,
}

impl TransactionState {
    pub(crate) fn new(commands: Vec<Target>, outcome: Target, watch: Option<Watch>) -> Self {
        let phase = if watch.is_some() { Phase::Watching } else { Phase::Executing };
        let commands = commands.into_iter().map(Some).collect();
        let (verdict, turned_away) = (None, None);
        Self { phase, watch, commands, outcome: Some(outcome), received: 0, verdict, turned_away }
    }

    /// Returns the number of replies that this phase takes.
    pub(crate) fn frames(&self) -> u32 {
        let frames = match (&self.watch, self.phase) {
            (Some(watch), Phase::Watching) => watch.checks.len() * 2,
            _ => self.commands.len() + 2,
        };
        u32::try_from(frames).unwrap_or(u32::MAX)
    }

    /// Returns whether all other requests must wait until this phase is answered.
    pub(crate) fn holds(&self) -> bool {
        self.phase == Phase::Watching
    }

    /// Returns whether keys are watched for it, and EXEC would release them.
    pub(crate) fn has_watched(&self) -> bool {
        self.watch.is_some() && self.phase == Phase::Executing
    }

    /// Returns whether the caller already has the outcome, or an error.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns whether no caller waits for any of its answers any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.commands.iter().flatten().chain(&self.outcome).all(Target::is_abandoned)
    }

    /// Returns the name of the transaction, while a caller waits for it.
    pub(crate) fn name(&self) -> Option<Name> {
        self.outcome.as_ref().map(Target::name)
    }

    /// Sets another receiver of the outcome. Returns the receiver that was set before.
    pub(crate) fn tell_instead(&mut self, outcome: Target) -> Option<Target> {
        self.outcome.replace(outcome)
    }

    /// Returns the request of the first phase, to begin again after the connection broke before EXEC left; `None` without
    /// conditions.
    pub(crate) fn restart(&mut self) -> Option<Vec<u8>> {
        let watch = self.watch.as_ref()?;
        self.phase = Phase::Watching;
        self.received = 0;
        (self.verdict, self.turned_away) = (None, None);
        Some(watch.request.clone())
    }

    /// Returns the requests that are executed if the conditions hold; none if there are no conditions, so that the
    /// transaction leaves at once.
    pub(crate) fn execution(&self) -> Option<&[u8]> {
        self.watch.as_ref().map(|watch| watch.execution.as_slice())
    }

    /// Answers the callers that still wait with an error. Replies that arrive later are taken and dropped.
    pub(crate) fn fail(&mut self, error: &Error, done: &mut Completions) {
        for command in &mut self.commands {
            if let Some(target) = command.take() {
                target.complete(Payload::Failed(error.clone()), done);
            }
        }
        if let Some(outcome) = self.outcome.take() {
            outcome.complete(Payload::Failed(error.clone()), done);
            self.verdict = Some(Some(error.clone()));
        }
    }

    /// Takes one reply.
    pub(crate) fn accept(&mut self, reply: &[u8], done: &mut Completions) -> Step {
        self.received += 1;
        match self.phase {
            Phase::Watching => self.look(reply, done),
            Phase::Executing => self.execute(reply, done),
        }
    }

    fn look(&mut self, reply: &[u8], done: &mut Completions) -> Step {
        let Some(watch) = &self.watch else { return Step::Done };
        if self.verdict.is_none() {
            self.verdict = match self.received.checked_sub(watch.checks.len() + 1) {
                None => Payload::of(reply).into_error().map(Some),
                Some(index) => match watch.checks.get(index).map(|check| check.holds(reply)) {
                    Some(Ok(true)) => None,
                    Some(Ok(false)) => Some(None),
                    Some(Err(error)) => Some(Some(error)),
                    None => Some(Some(Error::protocol("a condition was answered twice"))),
                },
            };
        }
        if self.received < watch.checks.len() * 2 {
            return Step::More;
        }
        match self.verdict.take() {
            None => {
                self.phase = Phase::Executing;
                self.received = 0;
                Step::Execute(watch.execution.clone())
            }
            Some(None) => {
                self.abort("a condition of the transaction does not hold", done);
                Step::Release
            }
            Some(Some(error)) => {
                self.fail(&error, done);
                Step::Release
            }
        }
    }

    fn execute(&mut self, reply: &[u8], done: &mut Completions) -> Step {
        let count = self.commands.len();
        if self.received == count + 2 {
            self.conclude(reply, done);
            return Step::Done;
        }
        // A command that the server refuses to queue is answered at once; EXEC then refuses the others.
        if let Some(index) = self.received.checked_sub(2)
            && matches!(reply.first(), Some(b'-' | b'!'))
            && let Some(target) = self.commands.get_mut(index).and_then(Option::take)
        {
            let refusal = Payload::of(reply);
            if self.turned_away.is_none() {
                self.turned_away = refusal.clone().into_error().filter(|error| error.effect() == Effect::Refused);
            }
            target.complete(refusal, done);
        }
        Step::More
    }

    /// Takes EXEC's reply.
    fn conclude(&mut self, reply: &[u8], done: &mut Completions) {
        match frame::decode(reply) {
            Ok((Frame::Array(_), _)) => {
                let mut rest = reply.iter().position(|&byte| byte == b'\n').and_then(|end| reply.get(end + 1..));
                for command in &mut self.commands {
                    let element = rest.and_then(split_frame);
                    rest = element.map(|(_, rest)| rest);
                    let payload = element.map_or_else(missing_answer, |(element, _)| Payload::of(element));
                    if let Some(target) = command.take() {
                        target.complete(payload, done);
                    }
                }
                self.settle(Payload::of(b":1\r\n"), done);
            }
            Ok((Frame::Null, _)) => self.abort("a watched key was changed before the transaction was executed", done),
            Ok((Frame::Error(text), _)) => {
                let turned_away = self.turned_away.take().filter(|_| text.starts_with(b"EXECABORT"));
                self.fail(&turned_away.unwrap_or_else(|| Error::server(text)), done);
            }
            Ok(_) => self.fail(&Error::protocol("EXEC was answered with another type"), done),
            Err(error) => self.fail(&Error::protocol(error), done),
        }
    }

    /// Ends the transaction without execution. That is no error of the transaction as a whole: its outcome is false.
    fn abort(&mut self, why: &str, done: &mut Completions) {
        let outcome = self.outcome.take();
        let error = Error::new(ErrorKind::Aborted, Effect::None, format!("{why}, so it was not executed"));
        self.fail(&error, done);
        self.outcome = outcome;
        self.settle(Payload::of(b":0\r\n"), done);
    }

    fn settle(&mut self, payload: Payload, done: &mut Completions) {
        if let Some(outcome) = self.outcome.take() {
            outcome.complete(payload, done);
        }
    }
}

fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = Scanner::new().scan(bytes).ok().flatten()?;
    bytes.split_at_checked(length)
}

fn missing_answer() -> Payload {
    Payload::Failed(Error::protocol("EXEC answered fewer commands than were queued"))
}
