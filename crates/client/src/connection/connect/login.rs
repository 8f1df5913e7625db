//! Asking a provider for the credentials with which a connection logs in.
//!
//! A provider is the application's code and may take its time, so it is asked on another thread (`questions`); connections
//! that ask at the same moment get the same answer. It has as much time as a connection may take. A provider that needs more
//! is asked anew by the next connection that needs credentials, and the call that ends first counts. Any thread may ask.

use std::io;
use std::time::Duration;

use super::attempt::Attempt;
use super::questions::{Answer, Questions};
use super::refusal::Refusal;
use crate::config::Config;
use crate::config::credentials::{Credentials, Provider};
use crate::reactor::TaskWaker;
use crate::reactor::task_context::TaskContext;
use crate::sys::PerProcess;

/// The largest number of providers that are asked at the same time.
const THREADS_MAX: usize = 16;

static QUESTIONS: PerProcess<Questions<Provider, Credentials>> = PerProcess::new(|| {
    Questions::new("sleeve-credentials", THREADS_MAX, |provider| provider.ask().map_err(io::Error::other))
});

/// Begins to ask a provider, which may take this time.
pub(crate) fn ask(provider: &Provider, waker: TaskWaker, time: Duration) -> io::Result<Answer<Credentials>> {
    QUESTIONS.get().ask(provider, waker, time)
}

/// Returns the error text for a provider that has not answered in this time.
pub(crate) fn unanswered(time: Duration) -> String {
    format!("nobody has provided credentials within {time:?}, and the provider may still be at it")
}

/// Returns the credentials with which a connection logs in, if it logs in at all.
pub(super) async fn credentials(
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<Option<Credentials>, Refusal> {
    if let Some(provider) = &config.login.provider {
        let answer = ask(provider, context.task_waker(), config.connect_timeout)?;
        return match answer.hear(context, attempt).await {
            Ok(credentials) => Ok(Some(credentials)),
            // A provider's own errors have no kind.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(Refusal::temporary(unanswered(config.connect_timeout)))
            }
            Err(error) => Err(Refusal::temporary(format!("nobody has provided credentials: {error}"))),
        };
    }
    let known = |password: &String| Credentials { user: config.login.user.clone(), ..Credentials::new(password) };
    Ok(config.login.password.as_ref().map(known))
}
