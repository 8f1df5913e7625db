//! A subscription to channels, as a stream of messages that outlives its connection.
//!
//! It has a connection of its own, or a session of the embedded engine. If the connection is lost, it is made again and all
//! names are subscribed again; the stream then has an event that says so, because messages may be missing. The subscription
//! ends when it is dropped. It may be read from any thread; each message goes to one reader.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;

#[cfg(feature = "embedded")]
use super::embedded_listener::EmbeddedListener;
use super::event::SubscriptionEvent;
use super::inbox::Inbox;
use super::listener;
use super::listener::{Listener, Upstream};
use super::names::{Change, SubscriptionVerb};
use super::wanted::WantedNames;
use crate::error::{Error, ErrorKind};
use crate::reactor::TaskWaker;
use crate::reactor::watcher::watch_for;
use crate::resp::request::{Request, ToArgs};
use crate::sys::now;
#[cfg(feature = "embedded")]
use crate::sys::off_thread::apart;
use crate::sys::{Process, inherited};
use crate::transport::Transport;
#[cfg(feature = "embedded")]
use crate::transport::embedded::Embedded;

/// A subscription to channels; see [`Client::subscribe`](crate::Client::subscribe).
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, SubscriptionEvent, prelude::*};
///
/// let client = Client::embedded();
/// let subscription = client.subscribe(["news"])?;
/// client.publish("news", "hello").wait()?;
/// let Some(SubscriptionEvent::Message(message)) = subscription.recv().wait_for(std::time::Duration::from_secs(5))? else {
///     panic!("nothing came");
/// };
/// assert_eq!(message.payload, b"hello");
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// Channels can be added and removed while it lives; every new connection begins with the channels that are wanted then.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// # use sleeve::{Client, prelude::*};
/// # let client = Client::embedded();
/// let subscription = client.subscribe("news")?;
/// subscription.psubscribe("weather.*")?; // in async code: psubscribe_async(..).await
/// subscription.unsubscribe("news")?;
/// client.publish("news", "unheard").wait()?;
/// client.publish("weather.rome", "sunny").wait()?;
/// let message = subscription.recv().wait()?.into_message().expect("nothing was lost");
/// assert_eq!(message.channel_text(), "weather.rome");
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// In async code `subscription.recv().await` is the same, in any runtime and without another crate; in a `while let`,
/// `subscription.next().await`. It is a [`Stream`] too, for `StreamExt` and the like, and a `for` loop over it waits for
/// each; all of these end after an error.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// # use sleeve::{Client, SubscriptionEvent, prelude::*};
/// # let client = Client::embedded();
/// let subscription = client.psubscribe("weather.*")?;
/// client.publish("weather.rome", 31).wait()?;
/// for event in &subscription {
///     if let SubscriptionEvent::Message(message) = event? {
///         assert_eq!(message.channel_text(), "weather.rome");
///         assert_eq!(message.payload_as::<i64>()?, 31);
///         break;
///     }
/// }
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
pub struct Subscription {
    source: Source,
    /// True once an iterator or a stream has returned the error after which no event arrives.
    ended: AtomicBool,
}

#[derive(Clone)]
enum Source {
    Remote(Arc<Listener>),
    #[cfg(feature = "embedded")]
    Local(Arc<EmbeddedListener>),
}

/// Defines the methods that change the names of a subscription.
macro_rules! changes {
    ($($(#[$doc:meta])* $method:ident $method_async:ident $verb:ident;)+) => { $(
        $(#[$doc])*
        /// The change holds from now on, for every later connection as well.
        ///
        /// # Errors
        /// The server's error if it refuses; then nothing has changed. [`ErrorKind::Timeout`] if it does not confirm within
        /// the connect timeout; the names stay wanted then.
        pub fn $method(&self, names: impl ToArgs) -> Result<(), Error> {
            self.source.change(change(SubscriptionVerb::$verb, names)?)
        }

        #[doc = concat!("As [`", stringify!($method), "`](Self::", stringify!($method), "), for async code: the runtime's thread goes on meanwhile. Begun when it is first awaited; dropped after that, it is done all the same.")]
        ///
        /// # Errors
        #[doc = concat!("As for [`", stringify!($method), "`](Self::", stringify!($method), ").")]
        pub async fn $method_async(&self, names: impl ToArgs) -> Result<(), Error> {
            self.source.clone().change_async(change(SubscriptionVerb::$verb, names)?).await
        }
    )+ };
}

impl Source {
    /// Changes the names of the subscription, and waits until the server has confirmed it.
    fn change(&self, change: Change) -> Result<(), Error> {
        match self {
            Self::Remote(listener) if !listener.process.is_this() => Err(inherited()),
            Self::Remote(listener) => match Changing::begin(listener, change)? {
                Some(changing) => changing.listener.wanted.wait(changing.number, changing.deadline),
                None => Ok(()),
            },
            #[cfg(feature = "embedded")]
            Self::Local(listener) => listener.change(change),
        }
    }

    /// Changes the names as `change` does, without blocking the calling thread.
    async fn change_async(self, change: Change) -> Result<(), Error> {
        match self {
            Self::Remote(listener) if !listener.process.is_this() => Err(inherited()),
            Self::Remote(listener) => match Changing::begin(&listener, change)? {
                Some(changing) => {
                    let deadline = changing.deadline;
                    let look =
                        move |task_waker, is_late| changing.listener.wanted.look(changing.number, task_waker, is_late);
                    watch_for(deadline, look).await
                }
                None => Ok(()),
            },
            #[cfg(feature = "embedded")]
            Self::Local(listener) => apart("sleeve-subscribe", move || listener.change(change)).await,
        }
    }
}

/// A change in progress, until its caller stops waiting for it.
struct Changing {
    listener: Arc<Listener>,
    number: u64,
    deadline: Option<Instant>,
}

impl Changing {
    /// Queues a change; returns none if there is no confirmation to wait for.
    fn begin(listener: &Arc<Listener>, change: Change) -> Result<Option<Self>, Error> {
        if let Upstream::Cluster(_) = listener.upstream {
            change.check_one_slot(listener.wanted.shard_channel().as_deref())?;
        }
        let deadline = now().checked_add(listener.config.connect_timeout);
        let Some(number) = listener.wanted.change(change) else { return Ok(None) };
        listener.task_waker.wake();
        Ok(Some(Self { listener: Arc::clone(listener), number, deadline }))
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.listener.wanted.leave(self.number);
    }
}

impl Subscription {
    /// Subscribes to these names with this command, and waits until the server has confirmed it.
    pub(crate) fn open(transport: &Transport, verb: SubscriptionVerb, names: impl ToArgs) -> Result<Self, Error> {
        let first = change(verb, names)?;
        match transport {
            #[cfg(feature = "embedded")]
            Transport::Local(embedded) => Self::local(embedded, first),
            transport => {
                let (subscription, listener) = Self::remote(transport, first)?;
                listener.inbox.wait_begun()?;
                Ok(subscription)
            }
        }
    }

    /// Opens a subscription as `open` does, without blocking the calling thread.
    pub(crate) async fn open_async(
        transport: Transport,
        verb: SubscriptionVerb,
        names: impl ToArgs,
    ) -> Result<Self, Error> {
        let first = change(verb, names)?;
        match transport {
            #[cfg(feature = "embedded")]
            Transport::Local(embedded) => apart("sleeve-subscribe", move || Self::local(&embedded, first)).await,
            transport => {
                let (subscription, listener) = Self::remote(&transport, first)?;
                watch_for(None, move |task_waker, _| listener.inbox.look_begun(task_waker)).await?;
                Ok(subscription)
            }
        }
    }

    /// Opens a subscription in the embedded engine, which confirms it at once.
    #[cfg(feature = "embedded")]
    fn local(embedded: &Embedded, first: Change) -> Result<Self, Error> {
        let listener = EmbeddedListener::open(embedded.engine(), first, embedded.config().limits.queue_bytes_max)?;
        Ok(Self::of(Source::Local(Arc::new(listener))))
    }

    changes! {
        /// Listens to these channels too, and waits until the server has confirmed it.
        subscribe subscribe_async Subscribe;
        /// Listens also to all channels with names that match these patterns; see [`subscribe`](Self::subscribe).
        psubscribe psubscribe_async PSubscribe;
        /// Listens to these shard channels too; see [`subscribe`](Self::subscribe).
        ssubscribe ssubscribe_async SSubscribe;
        /// Removes these channels from the subscription; without names, all channels. Messages that had arrived before stay.
        unsubscribe unsubscribe_async Unsubscribe;
        /// Removes these patterns from the subscription; without names, all patterns.
        punsubscribe punsubscribe_async PUnsubscribe;
        /// Removes these shard channels from the subscription; without names, all shard channels.
        sunsubscribe sunsubscribe_async SUnsubscribe;
    }

    fn of(source: Source) -> Self {
        Self { source, ended: AtomicBool::new(false) }
    }

    /// Creates a subscription over a connection, which its task has yet to make.
    fn remote(transport: &Transport, first: Change) -> Result<(Self, Arc<Listener>), Error> {
        transport.check_process()?;
        let (config, process) = (transport.config().clone(), Process::this());
        let upstream = match transport {
            Transport::Remote(link) | Transport::Replicated(link, _) => Upstream::Server(link.health.clone()),
            Transport::Cluster(cluster) => {
                first.check_one_slot(None)?;
                Upstream::Cluster(Arc::clone(cluster))
            }
            #[cfg(feature = "embedded")]
            Transport::Local(_) => return Err(Error::usage("an engine in this process has no connection")),
        };
        let failed = |error| Error::unsent(ErrorKind::Connect, format!("cannot start a subscription: {error}"));
        let task_waker = TaskWaker::new().map_err(failed)?;
        let inbox = Inbox::new(config.limits.queue_bytes_max, task_waker);
        let listener =
            Arc::new(Listener { config, upstream, inbox, task_waker, wanted: WantedNames::new(first), process });
        listener::start(Arc::clone(&listener)).map_err(failed)?;
        Ok((Self::of(Source::Remote(Arc::clone(&listener))), listener))
    }

    /// Returns the next event, to be awaited or waited for.
    pub fn recv(&self) -> Recv<'_> {
        Recv { subscription: self }
    }

    /// Returns the next event once it arrives, and `None` after the error that has ended the subscription: as a stream's
    /// `next`, without another crate.
    pub async fn next(&self) -> Option<Result<SubscriptionEvent, Error>> {
        let event = self.recv().await;
        self.until_error(event)
    }

    /// Returns an iterator over all events; this thread waits for each. The last item is the error that ends the
    /// subscription.
    pub fn iter(&self) -> Messages<'_> {
        Messages { subscription: self }
    }

    /// Returns the next event, or `None` at the timeout.
    ///
    /// # Errors
    /// The reason why no event will arrive any more.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<SubscriptionEvent>, Error> {
        // A time beyond the range of the machine's clock never passes.
        self.wait_until(now().checked_add(timeout))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Result<Option<SubscriptionEvent>, Error> {
        match &self.source {
            Source::Remote(listener) if !listener.process.is_this() => Err(inherited()),
            Source::Remote(listener) => listener.inbox.wait(deadline),
            #[cfg(feature = "embedded")]
            Source::Local(listener) => listener.wait(deadline),
        }
    }

    /// Returns an event for iterators and streams, which end after the first error.
    fn until_error(&self, event: Result<SubscriptionEvent, Error>) -> Option<Result<SubscriptionEvent, Error>> {
        let had_ended = self.ended.fetch_or(event.is_err(), Ordering::Relaxed);
        (!had_ended || event.is_ok()).then_some(event)
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<SubscriptionEvent, Error>> {
        let polled = match &self.source {
            Source::Remote(listener) if !listener.process.is_this() => Some(Err(inherited())),
            Source::Remote(listener) => listener.inbox.poll(context.waker()),
            #[cfg(feature = "embedded")]
            Source::Local(listener) => listener.poll(context.waker()),
        };
        polled.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.source {
            Source::Remote(listener) if !listener.process.is_this() => {}
            Source::Remote(listener) => listener.inbox.abandon(),
            #[cfg(feature = "embedded")]
            Source::Local(_) => {}
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Subscription {
    type Item = Result<SubscriptionEvent, Error>;
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.iter()
    }
}

/// Returns a change that adds or removes these names.
fn change(verb: SubscriptionVerb, names: impl ToArgs) -> Result<Change, Error> {
    let mut request = Request::empty();
    request.arg(names);
    let change = Change { verb, names: request.words().into_iter().map(<[u8]>::to_vec).collect() };
    if change.names.is_empty() && SubscriptionVerb::ADDING.contains(&verb) {
        return Err(Error::usage(format!("{} needs at least one name", verb.command())));
    }
    match request.refusal() {
        Some(error) => Err(error),
        // The request is encoded again when it is sent; this call only checks that it can be.
        None => verb.request(&change.names).map(|_| change),
    }
}

/// The events of a subscription, as an iterator that waits for each; see [`Subscription::iter`].
#[derive(Debug)]
pub struct Messages<'a> {
    subscription: &'a Subscription,
}

impl Iterator for Messages<'_> {
    type Item = Result<SubscriptionEvent, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.subscription.until_error(self.subscription.recv().wait())
    }
}

impl Stream for &Subscription {
    type Item = Result<SubscriptionEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context).map(|event| self.until_error(event))
    }
}

impl Stream for Subscription {
    type Item = Result<SubscriptionEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context).map(|event| self.until_error(event))
    }
}

/// The next event of a subscription. If it is dropped, it takes no event away from a later caller.
#[derive(Debug)]
#[must_use = "nothing happens until it is awaited or waited for"]
pub struct Recv<'a> {
    subscription: &'a Subscription,
}

impl Recv<'_> {
    /// Waits for the event.
    ///
    /// # Errors
    /// The reason why no event will arrive any more.
    pub fn wait(self) -> Result<SubscriptionEvent, Error> {
        loop {
            if let Some(event) = self.subscription.wait_until(None)? {
                return Ok(event);
            }
        }
    }

    /// Waits for the event for at most this long; `None` at the timeout.
    ///
    /// # Errors
    /// The reason why no event will arrive any more.
    pub fn wait_for(self, timeout: Duration) -> Result<Option<SubscriptionEvent>, Error> {
        self.subscription.recv_timeout(timeout)
    }
}

impl Future for Recv<'_> {
    type Output = Result<SubscriptionEvent, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.subscription.poll(context)
    }
}
