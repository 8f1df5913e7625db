//! The renewal of credentials that are rotated: the new ones are sent to the server while the connection goes on.
//!
//! A provider may say how long its credentials are valid. After that time the provider is asked again, on a thread of its
//! own, and AUTH is sent among the commands of the callers, which notice nothing. If the provider fails or does not answer
//! within the connect timeout, or the server refuses the credentials, the connection stays logged in as it was for as long as
//! the server lets it, the event hook is called, and there is another attempt. AUTH ends with the connection: the next one
//! logs in again. The connection's task alone calls it.

use std::time::{Duration, Instant};

use super::super::link::Link;
use crate::config::credentials::Credentials;
use crate::config::event::Event;
use crate::connection::connect::login;
use crate::connection::connect::questions::Answer;
use crate::connection::connect::refusal::Refusal;
use crate::pipe::slot::Handle;
use crate::reactor::TaskWaker;
use crate::resp::request::name::Name;
use crate::resp::request::{EncodedRequest, Request};
use crate::sys::{clock_ms, now};

/// The time after which a provider is asked again if it has failed, or its credentials were refused.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The shortest time after which a provider is asked again.
const REFRESH_MIN: Duration = Duration::from_millis(100);

/// The progress of the renewal of one connection's credentials.
pub(super) enum Renewal {
    /// The credentials are valid for as long as the connection lasts.
    Never,
    /// The credentials are valid until this time.
    At(Instant),
    /// The provider was asked, and may answer until this time; without a limit if there is none.
    Asked(Answer<Credentials>, Option<Instant>),
    /// The credentials were sent to the server, and are valid for this time.
    Shown(Handle, Option<Duration>),
}

impl Renewal {
    /// Creates the state after the greeting, with credentials that are valid for this time.
    pub(super) fn after(time: Option<Duration>) -> Self {
        time.and_then(|time| now().checked_add(time.max(REFRESH_MIN))).map_or(Self::Never, Self::At)
    }

    /// Proceeds as far as possible, and returns the time of the next check, unless a wake-up comes before.
    pub(super) fn proceed(&mut self, link: &Link, waker: TaskWaker) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::At(at) => {
                let left = at.saturating_duration_since(now());
                if !left.is_zero() {
                    return Some(left);
                }
                self.ask(link, waker)
            }
            Self::Asked(answer, until) => match answer.take() {
                Some(Ok(credentials)) => self.show(link, &credentials),
                Some(Err(error)) => self.fail(link, &format!("nobody has provided credentials: {error}")),
                None => {
                    let left = (*until)?.saturating_duration_since(now());
                    if left.is_zero() {
                        self.fail(link, &login::unanswered(link.config.connect_timeout))
                    } else {
                        Some(left)
                    }
                }
            },
            Self::Shown(handle, time) => {
                if !handle.is_done() {
                    // The answer of the server wakes no task, so it is checked for.
                    return Some(RETRY_AFTER);
                }
                let time = *time;
                let Self::Shown(handle, _) = std::mem::replace(self, Self::after(time)) else { return None };
                match handle.take().ok().and_then(|payload| payload.into_error()) {
                    Some(error) => {
                        // A server that does not know AUTH repeats its arguments, so they are removed from the error.
                        self.fail(link, Refusal::by_server(error.message().as_bytes()).error.message())
                    }
                    None => self.proceed(link, waker),
                }
            }
        }
    }

    fn ask(&mut self, link: &Link, waker: TaskWaker) -> Option<Duration> {
        let Some(provider) = &link.config.login.provider else {
            *self = Self::Never;
            return None;
        };
        let time = link.config.connect_timeout;
        match login::ask(provider, waker, time) {
            Ok(answer) => {
                // A time beyond the range of the machine's clock never passes.
                *self = Self::Asked(answer, now().checked_add(time));
                self.proceed(link, waker)
            }
            Err(error) => self.fail(link, &error.to_string()),
        }
    }

    /// Queues AUTH among the callers' commands.
    fn show(&mut self, link: &Link, credentials: &Credentials) -> Option<Duration> {
        let write = |request: &mut Request| credentials.auth().into_iter().for_each(|word| _ = request.word(word));
        match Request::bytes_of(write) {
            Ok(bytes) => {
                let name = Name::of(&["AUTH"]);
                let handle = link.shared.lock().pipe.push_here(EncodedRequest { bytes: &bytes, name }, clock_ms());
                *self = Self::Shown(handle, credentials.refresh_after);
                // The task writes AUTH before it waits.
                Some(RETRY_AFTER)
            }
            Err(error) => self.fail(link, error.message()),
        }
    }

    fn fail(&mut self, link: &Link, why: &str) -> Option<Duration> {
        let error = Refusal::temporary(format!("its credentials are not renewed: {why}")).at(&link.config.endpoint);
        link.tell(|endpoint| Event::Refused { endpoint, error });
        *self = Self::At(now() + RETRY_AFTER);
        Some(RETRY_AFTER)
    }
}
