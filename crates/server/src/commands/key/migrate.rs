//! MIGRATE: sends keys as dumps to another server, and removes them here.
//!
//! The command waits for the other server with the locks of its keys held; Redis, too, stops altogether during that time. So
//! there is no instant at which neither server has the key, none at which both may change it, and no change to undo if the
//! key had changed on the way. The price is the same as in Redis: until the target has answered or the timeout is reached,
//! this thread's other clients wait, and so does every client that needs one of these shards. A key is removed only when the
//! target has confirmed that it has it.

use std::time::Duration;

use sleeve_wire::number;

use super::dump;
use crate::config::Opt;
use crate::context::Cx;
use crate::context::notifications::EventClass;
use crate::engine::network::migrate_target::{Address, Answer, BrokenTarget, Phase, Target};
use crate::request::error::{Error, Outcome};
use crate::request::{Key, Request};

/// The timeout of one step if the request gives none.
const TIMEOUT_MS_DEFAULT: i64 = 1_000;

/// The options of the request.
struct Plan {
    address: Address,
    database: i64,
    timeout: Duration,
    copy: bool,
    replace: bool,
}

impl Plan {
    fn of(request: &Request<'_>) -> Result<Self, Error> {
        let (mut copy, mut replace, mut username, mut password) = (false, false, None, None);
        let mut words = request.args.from(6).iter();
        while let Some(word) = words.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("copy") {
                copy = true;
            } else if is("replace") {
                replace = true;
            } else if is("auth") && words.len() >= 1 {
                password = words.next();
            } else if is("auth2") && words.len() >= 2 {
                (username, password) = (words.next(), words.next());
            } else if is("keys") {
                if !request.arg(3).is_empty() {
                    return Err(Error::fixed(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                break;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        let timeout_ms = number::parse_i64(request.arg(5)).ok_or(Error::NOT_INTEGER)?;
        let database = number::parse_i64(request.arg(4)).ok_or(Error::NOT_INTEGER)?;
        let timeout_ms = if timeout_ms > 0 { timeout_ms } else { TIMEOUT_MS_DEFAULT };
        let credentials = [username, password].into_iter().flatten().map(<[u8]>::to_vec).collect();
        Ok(Self {
            address: Address { host: request.arg(1).to_vec(), port: request.arg(2).to_vec(), credentials },
            database,
            // A longer timeout would overflow in the clocks of some systems.
            timeout: Duration::from_millis(timeout_ms.min(i64::from(i32::MAX)) as u64),
            copy,
            replace,
        })
    }
}

/// The outcome for the keys.
#[derive(Default)]
struct Sent<'a> {
    /// The keys that the target has stored.
    taken: Vec<Key<'a>>,
    /// The first error with which the target has refused a key.
    refusal: Option<String>,
    /// The fault that ended the connection before the last reply, if there was one.
    broken: Option<BrokenTarget>,
}

/// MIGRATE host port key|"" destination-db timeout \[COPY\] \[REPLACE\] \[AUTH password | AUTH2 username password\]
/// \[KEYS key ...\]
pub fn migrate(cx: &mut Cx<'_>, request: Request<'_>) -> Outcome {
    let plan = Plan::of(&request)?;
    let keys: Vec<Key<'_>> = request.keys().filter(|&key| cx.read(key).is_some()).collect();
    if keys.is_empty() {
        cx.reply().simple("NOKEY");
        return Ok(());
    }
    let mut sent = attempt(cx, &plan, &keys);
    // A connection that was kept from an earlier MIGRATE may have been closed by the target long ago.
    while let (Sent { taken, refusal: None, broken: Some(BrokenTarget { is_late: false, .. }) }, true) = &sent
        && taken.is_empty()
    {
        sent = attempt(cx, &plan, &keys);
    }
    let (Sent { taken, refusal, broken }, _) = sent;
    if !plan.copy {
        remove(cx, &taken);
    }
    match (refusal, broken) {
        (Some(reason), _) => Err(Error::new(format!("ERR Target instance replied with error: {reason}"))),
        (None, Some(broken)) => Err(refusal_of(broken)),
        (None, None) => {
            cx.reply().ok();
            Ok(())
        }
    }
}

/// Sends all keys on a connection; returns the outcome, and whether the connection was kept from an earlier MIGRATE.
fn attempt<'a>(cx: &mut Cx<'_>, plan: &Plan, keys: &[Key<'a>]) -> (Sent<'a>, bool) {
    let mut sent = Sent::default();
    let mut target = match cx.engine.network.targets.open(&plan.address, plan.timeout) {
        Ok(target) => target,
        Err(broken) => return (Sent { broken: Some(broken), ..sent }, false),
    };
    sent.broken = send(cx, &mut target, (plan, keys), &mut sent).err();
    let is_kept = target.is_kept();
    if sent.broken.is_none() {
        cx.engine.network.targets.keep(target, cx.now.monotonic_ms());
    }
    (sent, is_kept)
}

fn send<'a>(
    cx: &mut Cx<'_>,
    target: &mut Target,
    (plan, keys): (&Plan, &[Key<'a>]),
    sent: &mut Sent<'a>,
) -> Result<(), BrokenTarget> {
    if let Answer::Refused(reason) = target.enter(plan.database)? {
        sent.refusal = Some(reason);
        return Ok(());
    }
    let now_ms = cx.now.wall_ms();
    // Another node of a cluster takes keys of a slot that it imports only by this command.
    let restore: &[u8] = if cx.engine.cluster.get().is_some() { b"RESTORE-ASKING" } else { b"RESTORE" };
    for key in keys {
        // The key was read just now, under this lock and at this time.
        let Some(entry) = cx.peek(*key) else { continue };
        let ttl_ms = entry.deadline().map_or(0, |at_ms| (at_ms - now_ms).max(1));
        let (payload, digits) = (dump::payload_of(&entry, now_ms), number::Digits::new(ttl_ms));
        let words: [&[u8]; 5] = [restore, key.name, digits.as_bytes(), &payload, b"REPLACE"];
        target.send(if plan.replace { &words } else { &words[..4] })?;
    }
    for key in keys {
        match target.answer()? {
            Answer::Done => sent.taken.push(*key),
            Answer::Refused(reason) => _ = sent.refusal.get_or_insert(reason),
        }
    }
    Ok(())
}

/// Removes the keys that the target has stored. The record is their removal, so a reader of the journal sends nothing to the
/// target.
fn remove(cx: &mut Cx<'_>, taken: &[Key<'_>]) {
    let mut effect: Vec<&[u8]> = vec![b"DEL"];
    for key in taken {
        // A key that is named twice is gone by now.
        if cx.remove(*key, Opt::LazyfreeLazyServerDel) {
            cx.notify(EventClass::Generic, "del", *key);
            effect.push(key.name);
        }
    }
    if effect.len() > 1 {
        cx.record(&effect);
    }
}

fn refusal_of(broken: BrokenTarget) -> Error {
    Error::fixed(match broken.phase {
        Phase::Connecting => "IOERR error or timeout connecting to the client",
        Phase::Writing => "IOERR error or timeout writing to target instance",
        Phase::Reading => "IOERR error or timeout reading to target instance",
    })
}
