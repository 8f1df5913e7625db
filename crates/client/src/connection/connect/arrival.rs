//! The way from a stream to a connection that is ready for use: greeted, over the server's Unix socket if that is on this
//! machine and offered, and through shared memory if the server hands some out.
//!
//! The move to the Unix socket is made before any caller uses the connection, so no caller notices it. If it does not
//! succeed, for any reason, the greeted stream over TCP is used. A stream with TLS stays as it is. On the reactor's thread,
//! as all connecting code.

use std::time::Duration;

use super::attempt::Attempt;
use super::handshake::{Greeting, Introduction, greet};
use super::login;
use super::memory_offer::share_memory;
use super::refusal::Refusal;
use super::socket::Socket;
use super::unix_offer::Offer;
use crate::config::{Config, Endpoint};
use crate::reactor::task_context::TaskContext;

/// The longest time that the move may take; it is short, because the server has just answered.
const MOVE_TIME_MAX: Duration = Duration::from_secs(1);

/// Greets the server at the other end, and moves to its Unix socket if that is offered.
pub(crate) async fn arrive(
    socket: Socket,
    config: &Config,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<(Socket, Greeting), Refusal> {
    let credentials = login::credentials(config, context, attempt).await?;
    let asks_for_offer = config.same_machine.moves_to_unix_socket && socket.is_plain_and_local();
    let introduction = Introduction { config, credentials: credentials.as_ref(), asks_for_offer };
    let (greeting, offer) = greet(&socket, &introduction, context, attempt).await?;
    if let Some(offer) = offer {
        let time = MOVE_TIME_MAX.min(attempt.left() / 2);
        let mut tick = || attempt.tick();
        let mut part = Attempt::new(time, &mut tick);
        if let Ok(moved) = follow(&offer, &socket, &introduction, context, &mut part).await {
            return Ok(moved);
        }
        return Ok((socket, greeting));
    }
    let shares = config.same_machine.shares_memory && matches!(config.endpoint, Endpoint::Unix(_));
    Ok((if shares { share_memory(socket, context, attempt).await? } else { socket }, greeting))
}

/// Connects to the Unix socket, and greets the server there once it has proved to be the one at the other end of `tcp`.
async fn follow(
    offer: &Offer,
    tcp: &Socket,
    introduction: &Introduction<'_>,
    context: &TaskContext,
    attempt: &mut Attempt<'_>,
) -> Result<(Socket, Greeting), Refusal> {
    let socket = offer.dial(tcp, context, attempt).await?;
    let introduction = Introduction { asks_for_offer: false, ..*introduction };
    let (greeting, _) = greet(&socket, &introduction, context, attempt).await?;
    let shares = introduction.config.same_machine.shares_memory;
    Ok((if shares { share_memory(socket, context, attempt).await? } else { socket }, greeting))
}
