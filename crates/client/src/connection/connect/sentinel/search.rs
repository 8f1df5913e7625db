//! The search for a service's primary: the way from an endpoint to a connection that has been greeted, also if Sentinels have
//! to be asked first.
//!
//! The Sentinels are asked one after the other, the last one that answered first, until one of them names a server that can
//! be reached and itself says that it is a primary. Each of them, and each server, has a share of the time that is left, so
//! that one that does not answer leaves some for the others. The search ends as soon as the task is notified of another
//! primary. On the reactor's thread, as all connecting code.

use std::sync::Arc;
use std::time::Duration;

use super::asking::{ask, ask_for_replicas, enter};
use super::service::{Address, Follower, Service};
use super::watch;
use crate::config::Config;
use crate::connection::connect::arrival::arrive;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::dial::dial;
use crate::connection::connect::handshake::Greeting;
use crate::connection::connect::refusal::Refusal;
use crate::connection::connect::socket::Socket;
use crate::reactor::task_context::TaskContext;

/// The time that a Sentinel may take to answer before the next one is asked.
pub(super) const SENTINEL_TIME_MAX: Duration = Duration::from_secs(1);

/// Connects to the server, or to the primary of the service, and greets it.
pub(crate) async fn reach(
    follower: Option<&Follower>,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<(Arc<Socket>, Greeting), Refusal> {
    if let Some(follower) = follower {
        return Search { follower, config, context, said: Vec::new(), tried: Vec::new(), is_hopeless: true }
            .run(attempt)
            .await;
    }
    let socket = dial(config, context, attempt).await?;
    let (socket, greeting) = arrive(socket, config, context, attempt).await?;
    Ok((Arc::new(socket), greeting))
}

/// Returns the replicas of a service, by the answer of the first of its Sentinels that can be reached; none if no Sentinel
/// answers.
pub(crate) async fn find_replicas(
    service: &Service,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Option<Vec<(String, u16)>> {
    for sentinel in service.sentinels() {
        let time = SENTINEL_TIME_MAX.min(attempt.left());
        let mut tick = || attempt.tick();
        let mut part = Attempt::new(time, &mut tick);
        if let Ok(replicas) = ask_for_replicas(&sentinel, &service.name, config, context, &mut part).await {
            return Some(replicas.into_iter().map(|Address { host, port }| (host, port)).collect());
        }
    }
    None
}

/// A search for the primary.
struct Search<'a> {
    follower: &'a Follower,
    config: &'a Config,
    context: &'a TaskContext,
    /// The result of each Sentinel that was asked, for the error.
    said: Vec<String>,
    /// The servers that were named, and could not be used.
    tried: Vec<Address>,
    /// True if no later attempt would get another answer.
    is_hopeless: bool,
}

impl Search<'_> {
    /// Searches for the primary, and again if another primary is announced during the search.
    async fn run(mut self, attempt: &mut Attempt<'_>) -> Result<(Arc<Socket>, Greeting), Refusal> {
        loop {
            self.follower.set_out();
            let reached = self.ask_all(attempt).await;
            if reached.is_some() || !self.follower.has_moved() || attempt.left().is_zero() {
                return reached.ok_or_else(|| self.nowhere());
            }
            (self.said, self.tried, self.is_hopeless) = (Vec::new(), Vec::new(), true);
            attempt.yield_now(self.context).await?;
        }
    }

    /// Asks the Sentinels until one of them has led to the primary.
    async fn ask_all(&mut self, attempt: &mut Attempt<'_>) -> Option<(Arc<Socket>, Greeting)> {
        let service = &self.follower.service;
        let mut asked: Vec<Address> = Vec::new();
        while !self.follower.has_moved() {
            // A Sentinel that has answered may have named further Sentinels.
            let unasked: Vec<_> = service.sentinels().into_iter().filter(|one| !asked.contains(one)).collect();
            let sentinel = unasked.first()?;
            let parts = u32::try_from(unasked.len()).unwrap_or(u32::MAX).saturating_add(1);
            if let Some(place) = self.ask(sentinel, attempt.left() / parts, attempt).await {
                // With the watch, a wait for a server that is no primary any more ends as soon as the new one is announced.
                watch::start(service, self.config, sentinel);
                let reached = self.try_place(&place, sentinel, attempt.left() / (parts - 1), attempt).await;
                if reached.is_some() {
                    service.prefer(sentinel);
                    return reached;
                }
            }
            asked.push(sentinel.clone());
        }
        None
    }

    /// Asks a Sentinel for the primary's address, for at most this long.
    async fn ask(&mut self, sentinel: &Address, time: Duration, attempt: &mut Attempt<'_>) -> Option<Address> {
        let service = &self.follower.service;
        let (config, context) = (self.config, self.context);
        let work = async |attempt: &mut Attempt<'_>| ask(sentinel, &service.name, config, context, attempt).await;
        match self.spend(time.min(SENTINEL_TIME_MAX), attempt, work).await {
            Ok(answer) => {
                service.learn(sentinel, answer.others);
                if answer.primary.is_none() {
                    self.said.push(format!("{sentinel} knows no service of this name"));
                }
                answer.primary
            }
            Err(refusal) => {
                self.note(sentinel.to_string(), &refusal);
                None
            }
        }
    }

    /// Connects to the server that this Sentinel has named, in at most this long.
    async fn try_place(
        &mut self,
        place: &Address,
        sentinel: &Address,
        time: Duration,
        attempt: &mut Attempt<'_>,
    ) -> Option<(Arc<Socket>, Greeting)> {
        if self.tried.contains(place) {
            self.said.push(format!("{sentinel} names {place} too"));
            return None;
        }
        self.follower.head_for(place);
        let (config, context) = (self.config, self.context);
        let work = async |attempt: &mut Attempt<'_>| enter(place, config, context, attempt).await;
        match self.spend(time, attempt, work).await {
            Ok((socket, greeting)) => {
                let socket = Arc::new(socket);
                self.follower.arrive(place, &socket).then_some((socket, greeting))
            }
            Err(refusal) => {
                self.tried.push(place.clone());
                self.note(format!("{sentinel} names {place}"), &refusal);
                None
            }
        }
    }

    /// Runs a part of an attempt for at most this long, and ends it early if another primary is announced.
    async fn spend<R>(
        &self,
        time: Duration,
        attempt: &mut Attempt<'_>,
        work: impl AsyncFnOnce(&mut Attempt<'_>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        let time = time.min(attempt.left());
        let mut tick = || if self.follower.has_moved() { None } else { attempt.tick() };
        work(&mut Attempt::new(time, &mut tick)).await
    }

    fn note(&mut self, whom: String, refusal: &Refusal) {
        self.is_hopeless &= refusal.permanent;
        self.said.push(format!("{whom}: {}", refusal.error.message()));
    }

    /// Returns the error if no Sentinel has led to a primary.
    fn nowhere(&self) -> Refusal {
        let message = format!("no Sentinel leads to its primary: {}", self.said.join("; "));
        if self.is_hopeless { Refusal::permanent(message) } else { Refusal::temporary(message) }
    }
}
