//! Transactions: commands that the server executes as one, if their conditions still hold.
//!
//! A transaction travels on the shared connection, from WATCH to EXEC in one piece: no other caller's command gets in
//! between. Its conditions are checked under WATCH, so that they are true when the commands are executed, or the commands are
//! not executed. It belongs to one caller; an uncontended lock lets it move between threads, which a task does if it awaits
//! while it gathers.

use std::mem;

use super::batch::gathered::Gathered;
use super::cmd::Cmd;
use crate::commands::ask::Ask;
use crate::error::Error;
use crate::pipe::slot::{Completions, Target};
use crate::pipe::transaction_state::{Check, TransactionState, Watch};
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::resp::request::name::Name;
use crate::resp::request::{Request, ToArg};
use crate::sys::lock::Mutex;
use crate::transport::Transport;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// The name of a transaction as a whole.
const EXEC_NAME: Name = Name::of(&["EXEC"]);

/// A condition that must be true of a key for a transaction to be executed.
#[derive(Debug)]
pub struct Condition {
    watch: Result<Vec<u8>, Error>,
    look: Result<Vec<u8>, Error>,
    check: Check,
}

impl Condition {
    /// Requires that the key exists.
    pub fn exists(key: impl ToArg) -> Self {
        Self::new("EXISTS", key, Check::Exists(true))
    }

    /// Requires that the key does not exist.
    pub fn not_exists(key: impl ToArg) -> Self {
        Self::new("EXISTS", key, Check::Exists(false))
    }

    /// Requires that the key exists and is a string of exactly this value.
    pub fn equals(key: impl ToArg, value: impl ToArg) -> Self {
        Self::compares(key, value, true)
    }

    /// Requires that the key does not exist, or is a string of another value.
    pub fn not_equals(key: impl ToArg, value: impl ToArg) -> Self {
        Self::compares(key, value, false)
    }

    fn compares(key: impl ToArg, value: impl ToArg, wanted: bool) -> Self {
        let mut request = Request::empty();
        request.arg(value);
        let value = request.words().first().map(|word| word.to_vec()).unwrap_or_default();
        let condition = Self::new("GET", key, Check::Equals { value, wanted });
        match request.refusal() {
            Some(error) => Self { look: Err(error), ..condition },
            None => condition,
        }
    }

    fn new(look: &str, key: impl ToArg, check: Check) -> Self {
        let request = |name: &str| Request::bytes_of(|request| _ = request.word(name).arg(&key));
        Self { watch: request("WATCH"), look: request(look), check }
    }
}

/// Commands that are gathered here until [`exec`](Transaction::exec).
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, Condition, prelude::*};
///
/// let client = Client::connect("embedded://")?;
/// let transaction = client.transaction();
/// transaction.require(Condition::not_exists("user:7"));
/// let created = transaction.set("user:7", "Ann");
/// let count = transaction.incr("users");
/// if transaction.exec().wait()? {
///     created.wait()?;
///     println!("user number {}", count.wait()?);
/// }
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// Replies are answered after `exec`; waiting for them before fails with [`ErrorKind::Usage`](crate::ErrorKind::Usage).
/// If the transaction is not executed, they fail with [`ErrorKind::Aborted`](crate::ErrorKind::Aborted); if it is
/// dropped, with [`ErrorKind::Closed`](crate::ErrorKind::Closed).
#[must_use = "a transaction does nothing until it is executed"]
pub struct Transaction {
    transport: Transport,
    database: u32,
    gathered: Gathered,
    conditions: Mutex<Vec<Condition>>,
}

impl Transaction {
    pub(crate) fn new(transport: Transport, database: u32) -> Self {
        let gathered = Gathered::new(&transport, database);
        Self { transport, database, gathered, conditions: Mutex::default() }
    }

    /// Adds a condition: if it does not hold, no command is executed.
    pub fn require(&self, condition: Condition) -> &Self {
        self.conditions.lock().push(condition);
        self
    }

    /// Begins a command by its name, for commands without a method of their own.
    pub fn cmd(&self, name: &str) -> Cmd<'_, Self> {
        Cmd::new(self, name)
    }

    /// Returns the number of gathered commands.
    pub fn len(&self) -> usize {
        self.gathered.len()
    }

    /// Returns whether no command is gathered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends the transaction. The answer is true if it was executed; then each command's reply has its own result.
    ///
    /// # Errors
    /// The reply fails when the server refuses a command, or when the connection is lost after EXEC has left.
    pub fn exec(self) -> Reply<bool> {
        let (target, handle) = self.gathered.pair(EXEC_NAME);
        let (requests, units) = self.gathered.take();
        let conditions = mem::take(&mut *self.conditions.lock());
        let commands: Vec<Target> = units.into_iter().map(|unit| unit.target).collect();
        let connection = self.transport.connection();
        commands.iter().chain([&target]).for_each(|target| target.mark_sent(connection));
        let bytes = [MULTI, &requests, EXEC].concat();
        if conditions.is_empty() {
            self.transport.send_transaction(TransactionState::new(commands, target, None), self.database, &bytes);
            return Reply::of(handle);
        }
        match watch(conditions, bytes) {
            Ok(watch) => {
                let request = watch.request.clone();
                self.transport.send_transaction(
                    TransactionState::new(commands, target, Some(watch)),
                    self.database,
                    &request,
                );
            }
            Err(error) => {
                let mut done = Completions::default();
                TransactionState::new(commands, target, None).fail(&error, &mut done);
                self.transport.finish(&mut done);
            }
        }
        Reply::of(handle)
    }
}

/// Returns the first phase: a WATCH of every key, then a check of each.
fn watch(conditions: Vec<Condition>, execution: Vec<u8>) -> Result<Watch, Error> {
    let mut request = Vec::new();
    let mut checks = Vec::with_capacity(conditions.len());
    let mut looks = Vec::new();
    for condition in conditions {
        request.extend_from_slice(&condition.watch?);
        looks.extend_from_slice(&condition.look?);
        checks.push(condition.check);
    }
    request.extend_from_slice(&looks);
    Ok(Watch { request, checks, execution })
}

impl Ask for Transaction {
    fn ask<T: FromReply>(&self, write: impl FnOnce(&mut Request)) -> Reply<T> {
        self.gathered.ask(&self.transport, write)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.gathered.give_up("the transaction was dropped");
    }
}
