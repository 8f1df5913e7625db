//! The callers: each issues commands, alone and several at a time, and waits for their answers or drops them.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::call::{Answer, Call, Expected, Hearing, check, done, number, text};
use super::executor::Timers;
use super::model::{Model, Told};
use super::tracking::PREFIX;
use crate::api::cached::Cached;
use crate::api::cmd::Cmd;
use crate::api::handles::Client;
use crate::api::transaction::Condition;
use crate::cache::options::CacheOptions;
use crate::commands::ask::Ask;
use crate::config::Resend;
use crate::lanes::options::LaneOptions;
use crate::pipe::testing::Dice;
use crate::reply::Reply;
use crate::resp::decode::FromReply;
use crate::sys::{clock_us, now};

/// The state that all callers share.
pub(super) struct Shared {
    pub(super) dice: Rc<RefCell<Dice>>,
    pub(super) timers: Rc<Timers>,
    pub(super) model: RefCell<Model>,
    /// The options of the client's near cache; none if the servers report no changes.
    pub(super) cache: Option<CacheOptions>,
    /// True if there is a single server, so that replies arrive in order with its invalidations.
    pub(super) is_single: bool,
    /// The number of the last token, which names a write.
    pub(super) tokens: RefCell<u64>,
}

impl Shared {
    pub(super) fn roll(&self, sides: usize) -> usize {
        self.dice.borrow_mut().roll(sides)
    }

    fn token(&self) -> u64 {
        *self.tokens.borrow_mut() += 1;
        *self.tokens.borrow()
    }
}

/// A caller.
pub(super) struct Caller {
    pub(super) shared: Rc<Shared>,
    pub(super) client: Client,
    /// The number of databases in which the caller works; below it the number of keys of each kind.
    pub(super) databases: usize,
    pub(super) number: usize,
    /// The tokens that the caller has appended to texts, or has tried to append.
    pub(super) appends: Vec<Append>,
}

/// A token that a caller has sent to be appended to a text.
pub(super) struct Append {
    database: u32,
    key: String,
    token: String,
    /// The number of the write in the model.
    write: usize,
    way: Way,
    /// True if the caller got the answer that it is done.
    is_done: bool,
}

/// The handle by which a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The client, or a handle with a deadline.
    Client,
    Lanes,
    Priority,
}

/// Awaits a reply, but no longer than until this time.
async fn before<T>(hearing: impl Future<Output = T>, timers: &Timers, at_us: u64) -> Option<T> {
    let (mut hearing, mut sleep) = (pin!(hearing), pin!(timers.sleep_until(at_us)));
    poll_fn(|context| match hearing.as_mut().poll(context) {
        Poll::Ready(heard) => Poll::Ready(Some(heard)),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| None),
    })
    .await
}

impl Caller {
    /// Makes calls for this number of turns.
    pub(super) async fn live(mut self, turns: usize) {
        // The caller waits for a first answer, because a transaction fails at once while the cluster is unknown.
        let _ = words::<String>(&self.client, &["ECHO", "first"]).await;
        for _ in 0..turns {
            match self.shared.roll(12) {
                0 => self.pause(20_000).await,
                1 => self.transact().await,
                2 => self.wait_for_element().await,
                _ => self.call_several().await,
            }
        }
    }

    async fn pause(&self, most_us: usize) {
        self.pause_us(self.shared.roll(most_us) as u64).await;
    }

    async fn pause_us(&self, time_us: u64) {
        self.shared.timers.sleep_until(clock_us() + time_us).await;
    }

    /// Returns the time that a command may take, unless the call sets a shorter one.
    fn limit_us(&self) -> u64 {
        self.client.config().command_timeout.map_or(1 << 50, |limit| limit.as_micros() as u64)
    }

    /// Sends some commands, and waits for the answers to most of them.
    async fn call_several(&mut self) {
        let count = 1 + match self.shared.roll(6) {
            0 => self.shared.roll(40),
            1 | 2 => self.shared.roll(6),
            _ => 0,
        };
        let calls: Vec<Call> = (0..count).map(|_| self.call()).collect();
        for call in calls {
            match self.shared.roll(12) {
                0 => self.leave(call),
                _ => self.hear(call).await,
            }
        }
    }

    /// Drops or forgets the reply of a call.
    fn leave(&self, call: Call) {
        let mut model = self.shared.model.borrow_mut();
        call.write.iter().for_each(|&write| model.told(write, Told::Dropped));
        model.tally.dropped += 1;
    }

    /// Waits for the answer of a call, or gives up after a while.
    async fn hear(&mut self, mut call: Call) {
        let mut first = None;
        poll_fn(|context| {
            first = Some(call.hearing.as_mut().poll(context)).filter(Poll::is_ready);
            Poll::Ready(())
        })
        .await;
        // If the answer has arrived already, it is unknown when it did.
        let waits = first.is_none();
        let result = if let Some(Poll::Ready(result)) = first {
            result
        } else if self.shared.roll(10) == 0 {
            let at_us = clock_us() + self.shared.roll(3_000) as u64;
            let hearing = std::mem::replace(&mut call.hearing, Box::pin(std::future::pending()));
            match before(hearing, &self.shared.timers, at_us).await {
                Some(result) => result,
                None => return self.leave(call),
            }
        } else {
            call.hearing.as_mut().await
        };
        let woken_us = if waits { self.shared.timers.woken_us() } else { 0 };
        let took_us = woken_us.saturating_sub(call.began_us);
        let what = format!("{:?} of caller {}", call.expected, self.number);
        let mut model = self.shared.model.borrow_mut();
        model.ended(&what, result.as_ref().err(), took_us, (call.limit_us, call.wait_us));
        let told = result.as_ref().map_or_else(|error| Told::Failed(error.effect()), |_| Told::Done);
        call.write.iter().for_each(|&write| model.told(write, told));
        if told == Told::Done && call.is_shared && self.shared.is_single {
            call.write.iter().for_each(|&write| model.heard(write));
        }
        if let Ok(answer) = result {
            check(&call, answer, &mut model);
            drop(model);
            self.remember(call.write);
        }
    }

    /// Notes that an append is done.
    fn remember(&mut self, write: Option<usize>) {
        let own = self.appends.iter_mut().filter(|append| Some(append.write) == write);
        own.for_each(|append| append.is_done = true);
    }

    /// Sends a command by a random handle.
    fn call(&mut self) -> Call {
        let shared = Rc::clone(&self.shared);
        let database = if self.databases > 1 { shared.roll(self.databases) as u32 } else { 0 };
        if shared.roll(4) == 0 {
            let limit_us = 500 + shared.roll(self.limit_us().min(400_000) as usize) as u64;
            let at = self.client.at(now() + Duration::from_micros(limit_us)).db(database);
            return self.send(&at, Way::Client, database, limit_us.min(self.limit_us()));
        }
        let (db, limit_us) = (self.client.db(database), self.limit_us());
        // A cluster has no lanes.
        let lanes = self.client.lanes_with(lanes()).ok().filter(|_| shared.roll(3) == 0);
        match lanes {
            Some(lanes) => self.send(&lanes.db(database), Way::Lanes, database, limit_us),
            None if shared.roll(8) == 0 => {
                let priority = self.client.priority().expect("the client is open");
                self.send(&priority.db(database), Way::Priority, database, limit_us)
            }
            None => self.send(&db, Way::Client, database, limit_us),
        }
    }

    /// Sends a random command by this handle.
    fn send(&mut self, handle: &impl Ask, way: Way, database: u32, limit_us: u64) -> Call {
        let shared = Rc::clone(&self.shared);
        let token = shared.token();
        let key = |kind: &str| format!("{kind}{}", shared.roll(4));
        let cached = self.cached();
        let (expected, write, hearing) = match shared.roll(if cached.is_some() { 14 } else { 10 }) {
            10.. => {
                let key = key(PREFIX);
                if let Some(cached) = cached.as_ref().filter(|_| shared.roll(4) > 0) {
                    return self.read_cached(cached, database, key, false);
                }
                let value = format!("{database}/{key}={token}");
                let write = self.sends(value.clone(), true);
                (Expected::Done, write, self.write_cached(handle, way, (database, &key, &value), write))
            }
            0 | 1 => {
                let (key, amount) = (format!("i{token}"), token.to_string());
                let write = self.sends(key.clone(), false);
                (Expected::Number(token as i64), write, number(words(handle, &["INCRBY", &key, &amount])))
            }
            2 | 3 => {
                let (key, token) = (key("a"), format!("<{token}>"));
                let write = self.sends(token.clone(), false);
                let hearing = number(words(handle, &["APPEND", &key, &token]));
                let (own_key, own_token, number) = (key.clone(), token.clone(), write.unwrap_or_default());
                let own = Append { database, key: own_key, token: own_token, write: number, way, is_done: false };
                self.appends.push(own);
                (Expected::Length { key, token }, write, hearing)
            }
            4 => {
                let key = key("s");
                let length = if shared.roll(8) == 0 { shared.roll(200_000) } else { shared.roll(20) };
                let value = format!("{database}/{key}={token}:{}", "x".repeat(length));
                let write = self.sends(value.clone(), true);
                (Expected::Done, write, done(words(handle, &["SET", &key, &value])))
            }
            5 => {
                let key = key("s");
                let hearing = text(words(handle, &["GET", &key]));
                (Expected::Set(vec![format!("{database}/{key}=")]), None, hearing)
            }
            6 => {
                let keys = [key("s"), key("s"), key("s")];
                let reply: Reply<Vec<Option<String>>> = words(handle, &["MGET", &keys[0], &keys[1], &keys[2]]);
                let hearing = Box::pin(async move { reply.await.map(Answer::Texts) }) as Hearing;
                let expected = keys.iter().map(|key| format!("{database}/{key}=")).collect();
                (Expected::Set(expected), None, hearing)
            }
            7 => {
                let key = key("a");
                let own = || self.appends.iter().filter(|own| (own.database, &own.key) == (database, &key));
                let tokens = own().filter(|own| own.is_done).map(|own| own.token.clone()).collect();
                let behind = own().filter(|own| !own.is_done && own.way == way).map(|own| own.write).collect();
                let hearing = text(words(handle, &["GET", &key]));
                (Expected::Grown { key, tokens, behind }, None, hearing)
            }
            8 => {
                let (key, element) = (key("l"), format!("{database}/e{token}"));
                let write = self.sends(element.clone(), false);
                (Expected::Done, write, number(words(handle, &["RPUSH", &key, &element])))
            }
            _ => {
                let said = format!("word{token}");
                let hearing = text(words(handle, &["ECHO", &said]));
                (Expected::Words(said), None, hearing)
            }
        };
        let (began_us, is_shared) = (clock_us(), way == Way::Client);
        Call { expected, database, write, hearing, began_us, limit_us, wait_us: 0, is_shared }
    }

    /// Notes a write that is sent, which may be executed again if it `overwrites`.
    fn sends(&self, token: String, overwrites: bool) -> Option<usize> {
        let overwrites = overwrites && self.client.config().retry.resend == Resend::Overwrites;
        Some(self.shared.model.borrow_mut().sends(token, overwrites))
    }

    /// Writes a key of the cache; half of the writes have a deadline.
    fn write_cached(
        &self,
        handle: &impl Ask,
        way: Way,
        (database, key, value): (u32, &str, &str),
        write: Option<usize>,
    ) -> Hearing {
        let own = write.filter(|_| way == Way::Client);
        own.into_iter().for_each(|write| self.shared.model.borrow_mut().writes_cached(database, key, write));
        let life_ms = (10 + self.shared.roll(400)).to_string();
        let whole = ["SET", key, value, "PX", &life_ms];
        done(words(handle, &whole[..if self.shared.roll(2) == 0 { 3 } else { 5 }]))
    }

    /// Returns the handle that reads through the cache, if there is one.
    fn cached(&self) -> Option<Cached> {
        self.shared.cache.clone().map(|options| self.client.cached_with(options).expect("the client is open"))
    }

    /// Reads a key through the cache. A read is settled if every change was reported long before the read began.
    fn read_cached(&self, cached: &Cached, database: u32, key: String, is_settled: bool) -> Call {
        let least = self.shared.model.borrow().least(database, &key);
        let (began_us, hits) = (clock_us(), cached.stats().hits);
        let reply: Reply<Option<String>> = words(&cached.db(database), &["GET", &key]);
        let hearing = text(reply);
        let is_hit = cached.stats().hits > hits;
        let (expected, limit_us) = (Expected::Cached { key, least, is_hit, is_settled }, self.limit_us());
        Call { expected, database, write: None, hearing, began_us, limit_us, wait_us: 0, is_shared: true }
    }

    /// Reads every key through the cache, after all failures, when the client knows the owners of the slots.
    pub(super) async fn read_all_cached(mut self) {
        let Some(cached) = self.cached() else { return };
        self.pause_us(2_000_000).await;
        for number in 0..4 {
            let key = format!("{PREFIX}{number}");
            // A node that has lost the slot redirects this command, by which the client learns of the new owner.
            let is_known = words::<i64>(&self.client, &["EXISTS", &key]).await.is_ok();
            self.pause_us(1_000_000).await;
            for database in 0..self.databases as u32 {
                self.hear(self.read_cached(&cached, database, key.clone(), is_known)).await;
            }
        }
        self.shared.model.borrow_mut().tally.cache = cached.stats();
    }

    /// Executes some writes in one transaction.
    async fn transact(&mut self) {
        let database = self.shared.roll(self.databases.max(1)) as u32;
        let transaction = self.client.db(database).transaction();
        let place = self.shared.roll(8);
        let never = format!("{{p{place}}}never");
        let holds = match self.shared.roll(4) {
            0 => {
                transaction.require(Condition::not_exists(&never));
                true
            }
            1 => {
                transaction.require(Condition::exists(&never));
                false
            }
            _ => true,
        };
        let (mut calls, mut tokens) = (Vec::new(), Vec::new());
        for _ in 0..=self.shared.roll(3) {
            let token = self.shared.token();
            // With the same hash tag, all keys of the transaction lie in one slot.
            let (key, amount) = (format!("{{p{place}}}i{token}"), token.to_string());
            let write = Some(self.shared.model.borrow_mut().sends(key.clone(), false));
            let reply: Reply<i64> = words(&transaction, &["INCRBY", &key, &amount]);
            let hearing = Box::pin(async move { reply.await.map(Answer::Number) }) as Hearing;
            let (began_us, limit_us) = (clock_us(), self.limit_us());
            let expected = Expected::Number(token as i64);
            calls.push(Call { expected, database, write, hearing, began_us, limit_us, wait_us: 0, is_shared: true });
            tokens.push(key);
        }
        self.shared.model.borrow_mut().sends_together(tokens);
        let outcome = transaction.exec().await;
        if !holds && matches!(outcome, Ok(true)) {
            self.shared.model.borrow_mut().wrong("a transaction was executed whose condition was false".to_owned());
        }
        for call in calls {
            self.hear(call).await;
        }
    }

    /// Waits for an element of a list.
    async fn wait_for_element(&mut self) {
        let database = self.shared.roll(self.databases.max(1)) as u32;
        let key = format!("l{}", self.shared.roll(4));
        let wait_ms = 1 + self.shared.roll(300);
        let db = self.client.db(database);
        let seconds = format!("{:.3}", wait_ms as f64 / 1000.0);
        let reply: Reply<Option<(String, String)>> = words(&db, &["BLPOP", &key, &seconds]);
        let hearing = async move {
            let element = reply.await?;
            Ok(Answer::Texts(element.map_or_else(|| vec![None, None], |(key, element)| vec![Some(key), Some(element)])))
        };
        let (began_us, wait_us) = (clock_us(), wait_ms as u64 * 1000);
        let (limit_us, expected, write) = (self.limit_us() + wait_us, Expected::Element(key), None);
        let (hearing, is_shared) = (Box::pin(hearing), false);
        self.hear(Call { expected, database, write, hearing, began_us, limit_us, wait_us, is_shared }).await;
    }
}

/// Returns options by which texts soon count as large, and the second connection is soon closed.
fn lanes() -> LaneOptions {
    LaneOptions::new().large_min(64).idle_after(Duration::from_millis(100))
}

/// Sends a command of these words.
fn words<T: FromReply>(handle: &impl Ask, words: &[&str]) -> Reply<T> {
    let (name, args) = words.split_first().expect("a name");
    args.iter().fold(Cmd::new(handle, name), |cmd, arg| cmd.arg(*arg)).send()
}
