//! The task that listens to Sentinels on behalf of a client: a Sentinel announces a new primary, and the task notifies all
//! followers of the service.
//!
//! It subscribes at one Sentinel and goes on to the next when that one is lost or silent. After it has subscribed it asks for
//! the present primary, in case it has missed an announcement, and believes the answer if the server that is named is a
//! primary. It begins with the first connection to the service and ends with the last.

use std::sync::Arc;
use std::time::Duration;

use super::asking::{SWITCH, ask, check, enter, log_in, read_switch};
use super::service::{Address, Service};
use crate::config::Config;
use crate::connection::connect::attempt::Attempt;
use crate::connection::connect::conversation::Conversation;
use crate::connection::connect::dial::dial_host;
use crate::connection::connect::refusal::Refusal;
use crate::reactor::task_context::TaskContext;
use crate::reactor::{self, TaskWaker};
use crate::sys::{elapsed, now};

/// The time that a Sentinel may be silent before it is sent PING; after the same time again it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// The longest pause between two Sentinels.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Starts the watch, at this Sentinel first, unless it runs already. If it cannot be started, connections learn of a new
/// primary only when they are lost.
pub(super) fn start(service: &Arc<Service>, config: &Config, sentinel: &Address) {
    let Ok(task_waker) = TaskWaker::new() else { return };
    if !service.begin_watch(task_waker) {
        return;
    }
    let (listened, failed, config) = (Arc::clone(service), Arc::clone(service), config.clone());
    let first = sentinel.clone();
    let task = async move |context| live(&listened, first, &config, &context).await;
    if reactor::start(task_waker, task, move |_| failed.lose_watch()).is_err() {
        service.lose_watch();
    }
}

/// Listens with one Sentinel after the other for as long as the service has a follower.
async fn live(service: &Service, first: Address, config: &Config, context: &TaskContext) {
    let (mut sentinel, mut pause) = (first, config.retry.backoff_min);
    while !service.end_watch() {
        let since = now();
        let mut tick = || service.is_followed().then_some(Duration::MAX);
        let mut attempt = Attempt::new(Duration::MAX, &mut tick);
        // After any fault of this Sentinel the next one is used.
        let _ = listen(service, &sentinel, config, context, &mut attempt).await;
        sentinel = service.after(&sentinel);
        pause = if elapsed(since) > PAUSE_MAX { config.retry.backoff_min } else { (pause * 2).min(PAUSE_MAX) };
        let until = now() + pause;
        while now() < until && service.is_followed() {
            context.wait(Some(until)).await;
        }
        // A pause of zero lets the other tasks have their turns.
        context.yield_now().await;
    }
}

/// Listens to this Sentinel until it is lost, or does not know the service.
async fn listen(
    service: &Service,
    sentinel: &Address,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<(), Refusal> {
    let socket = {
        let mut tick = || attempt.tick();
        let mut part = Attempt::new(config.connect_timeout.min(SILENCE_MAX), &mut tick);
        dial_host(config, &sentinel.host, sentinel.port, context, &mut part).await?
    };
    let mut conversation = Conversation::new(&socket, context, attempt)?;
    let has_password = log_in(&mut conversation, config).await?;
    conversation.send(&["SUBSCRIBE", SWITCH]).await?;
    for _ in 0..1 + u32::from(has_password) {
        let Some(reply) = conversation.reply_within(SILENCE_MAX).await? else { return Ok(()) };
        check(&reply)?;
    }
    catch_up(service, sentinel, config, context).await?;
    let mut was_asked = false;
    loop {
        match conversation.reply_within(SILENCE_MAX).await? {
            Some(message) => {
                was_asked = false;
                if let Some(place) = read_switch(&message, &service.name) {
                    // The other Sentinels may not know the new primary yet.
                    service.prefer(sentinel);
                    service.moves(&place);
                }
            }
            None if was_asked => return Ok(()),
            None => {
                conversation.send(&["PING"]).await?;
                was_asked = true;
            }
        }
    }
}

/// Asks this Sentinel for the primary, to catch up on announcements from before the subscription. It may be behind the
/// others, so the server that it names has to say itself that it is a primary.
async fn catch_up(
    service: &Service,
    sentinel: &Address,
    config: &Config,
    context: &TaskContext,
) -> Result<(), Refusal> {
    let mut tick = || service.is_followed().then_some(Duration::MAX);
    let mut attempt = Attempt::new(config.connect_timeout.min(SILENCE_MAX), &mut tick);
    let answer = ask(sentinel, &service.name, config, context, &mut attempt).await?;
    service.learn(sentinel, answer.others);
    let Some(place) = answer.primary else { return Err(Refusal::temporary("it knows no such service".to_owned())) };
    if service.primary().is_some_and(|known| known != place)
        && enter(&place, config, context, &mut attempt).await.is_ok()
    {
        service.moves(&place);
    }
    Ok(())
}
