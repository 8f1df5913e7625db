//! Asking for the credentials that a connection is greeted with, where a provider has them.
//!
//! A provider is the application's code and may take its time, so it is asked elsewhere (`questions`); connections that ask at
//! the same moment hear the same answer. Any thread may ask.

use std::io;

use super::attempt::Attempt;
use super::questions::{Answer, Questions};
use super::refusal::Refusal;
use crate::config::Config;
use crate::config::credentials::{Credentials, Provider};
use crate::process::fork::PerProcess;
use crate::reactor::TaskWaker;
use crate::reactor::task_context::TaskContext;

/// Providers that are asked at the same time at most.
const THREADS_MAX: usize = 16;

static QUESTIONS: PerProcess<Questions<Provider, Credentials>> = PerProcess::new(|| {
    Questions::new("sleeve-credentials", THREADS_MAX, |provider| provider.ask().map_err(io::Error::other))
});

/// Begins to ask a provider.
pub(crate) fn ask(provider: &Provider, waker: TaskWaker) -> io::Result<Answer<Credentials>> {
    QUESTIONS.get().ask(provider, waker)
}

/// Who a connection logs in as, if as anybody.
pub(super) async fn credentials(
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<Option<Credentials>, Refusal> {
    if let Some(provider) = &config.credentials {
        let answer = ask(provider, context.task_waker())?;
        return match answer.hear(context, attempt).await {
            Ok(credentials) => Ok(Some(credentials)),
            Err(error) => Err(Refusal::temporary(format!("nobody has provided credentials: {error}"))),
        };
    }
    let known = |password: &String| Credentials { user: config.user.clone(), ..Credentials::new(password) };
    Ok(config.password.as_ref().map(known))
}
