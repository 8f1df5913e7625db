//! A consumer of a stream's group, as an iterator and as a stream of entries.
//!
//! It creates the group if it is missing. It first takes the entries that it had not acknowledged when it last ended, then
//! new ones, for which it waits on a connection of its own, and from time to time entries that other consumers have
//! abandoned. Its entries tell it which of them the program still has. It never acknowledges by itself: an entry that is not
//! acknowledged is delivered again.
//!
//! A lost connection may take entries with it that the server counts as delivered. Those are behind the last one that
//! arrived, so they are requested from there. One owner; its handle and its entries may be used on any thread.

pub(crate) mod entry;
pub(crate) mod handle;
mod held;
mod page;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;

use super::handles::{Client, Db};
use crate::commands::stream::StreamCommands;
use crate::error::{Effect, Error, ErrorKind};
use crate::reply::{Reply, parked};
use crate::resp::options::stream::{ConsumerOptions, GroupStart, ReadOptions};
use crate::resp::request::{Request, ToArg};
use crate::sys::now;
use entry::{Delivery, Entry};
use handle::ConsumerHandle;
use held::Held;
use page::{Claimed, Page, Record};

/// The id that is before all entries.
const FIRST: &str = "0-0";

/// The shortest wait for entries; a wait of zero would have no limit.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// A consumer of a group: [`Client::group`] returns it. In async code `consumer.next().await` gives the next entry, in any
/// runtime and without another crate, and it is a [`Stream`]; a `for` loop over `&mut consumer` waits for each entry.
///
/// ```
/// # #[cfg(feature = "embedded")] {
/// use sleeve::{Client, FromReply, ToArgs, prelude::*};
///
/// #[derive(FromReply, ToArgs)]
/// struct Order {
///     item: String,
///     pieces: u32,
/// }
///
/// let client = Client::embedded();
/// client.xadd("orders", Order { item: "lamp".into(), pieces: 2 }).wait()?;
///
/// let mut orders = client.group("orders", "shipping", "worker-1");
/// let stop = orders.handle(); // ends the loop, from any thread
/// for entry in &mut orders {
///     let entry = entry?;
///     let order: Order = entry.read()?;
///     println!("{} {}", order.pieces, order.item);
///     entry.ack().forget(); // or .wait()?, or .await?; many at once: stop.ack(entries)
///     stop.stop();
/// }
/// # }
/// # Ok::<(), sleeve::Error>(())
/// ```
///
/// # At least once
///
/// Each entry of the stream goes to one consumer of the group, and is delivered again until it is acknowledged. So work on an
/// entry must tolerate being done twice:
///
/// - A consumer first gets the entries that its name had and did not acknowledge when it last ended. Two that run at the same
///   time must have different names.
/// - An acknowledgement that was in flight when the connection broke may be lost.
/// - With [`ConsumerOptions::claim_after`], an entry that takes longer than that may go to another consumer as well.
///
/// An entry that is dropped without [`Entry::ack`] stays with the consumer, and is delivered again when it is claimed or when
/// the consumer begins anew. Entries that were deleted from the stream are acknowledged unseen.
///
/// # Errors
///
/// A lost connection is none: the next one goes on at the same place. If no connection can be made within the command
/// timeout, or if the server refuses the command for the moment, an error is returned, and a caller that goes on reading
/// tries again. After any other error there are no entries.
///
/// # The end
///
/// [`ConsumerHandle::stop`] ends it: nothing more is asked for, the entries that the server has given to this consumer still
/// arrive, and then the loop ends. [`ConsumerHandle::finish`] waits until all entries that were handed out are acknowledged
/// or dropped, in any thread. A consumer that is dropped instead leaves the entries that it had asked for to the next of its
/// name, or to a consumer that claims them.
#[must_use = "nothing is asked for until it is read"]
pub struct Consumer {
    held: Arc<Held>,
    options: ConsumerOptions,
    /// The received entries that were not handed out yet.
    ready: VecDeque<Entry>,
    /// The request in flight.
    flight: ConsumerRequest,
    next: Next,
    /// The last entry of the pending ones that has arrived: entries that the server has given to this consumer, and that it
    /// has not received, are behind it.
    last: String,
    /// The time at which abandoned entries are claimed again.
    claims_at: Option<Instant>,
}

/// The kind of the next request.
enum Next {
    /// The creation of the group.
    Group,
    /// The entries that this consumer was given and has not acknowledged, behind the last one that arrived.
    Own,
    /// The abandoned entries, from this id on.
    Abandoned(String),
    New,
    /// The entries that the server may have given to this consumer while the last wait ended, behind the last one that
    /// arrived.
    Rest,
    /// The end of the consumer: there is no further request.
    End,
}

enum ConsumerRequest {
    None,
    Group(Reply<()>),
    Own(Reply<Page>),
    Abandoned(Reply<Claimed>),
    New(Reply<Page>),
}

macro_rules! groups {
    ($handle:ident) => {
        impl $handle {
            /// Reads a stream as one consumer of a group, which is created if it is missing; see [`Consumer`].
            pub fn group(&self, stream: impl ToArg, group: impl ToArg, consumer: impl ToArg) -> Consumer {
                self.group_with(stream, group, consumer, ConsumerOptions::new())
            }

            /// Creates a consumer as [`group`](Self::group) does, with options.
            pub fn group_with(
                &self,
                stream: impl ToArg,
                group: impl ToArg,
                consumer: impl ToArg,
                options: ConsumerOptions,
            ) -> Consumer {
                let place = Db { origin: self.origin.clone(), database: self.database };
                Consumer::new(place, Request::words_of((stream, group, consumer)), options)
            }
        }
    };
}

groups!(Client);
groups!(Db);

impl Consumer {
    fn new(place: Db, names: Result<Vec<Vec<u8>>, Error>, options: ConsumerOptions) -> Self {
        let claims_at = options.claim_after.map(|_| now());
        let (ready, flight, next) = (VecDeque::new(), ConsumerRequest::None, Next::Group);
        let held = Arc::new(Held::new(place, names));
        Self { held, options, ready, flight, next, last: FIRST.to_owned(), claims_at }
    }

    /// Returns a handle that ends the consumer, and acknowledges several entries at once: from any thread, while the consumer
    /// is being read.
    pub fn handle(&self) -> ConsumerHandle {
        ConsumerHandle::of(Arc::clone(&self.held))
    }

    /// Returns the next entry once it has arrived, and `None` if the consumer was stopped or has ended with an error. If the
    /// future is dropped earlier, the next caller gets the entry.
    ///
    /// # Errors
    /// As for [`Consumer`].
    pub async fn next(&mut self) -> Option<Result<Entry, Error>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns the next entry as [`next`](Consumer::next) does, under the name that it has at a
    /// [`Subscription`](crate::Subscription).
    ///
    /// # Errors
    /// As for [`Consumer`].
    pub async fn recv(&mut self) -> Option<Result<Entry, Error>> {
        self.next().await
    }

    /// Returns the entries, as an iterator that waits for each.
    pub fn iter(&mut self) -> Entries<'_> {
        Entries(self)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Entry, Error>>> {
        self.held.enter_reader(context.waker());
        loop {
            if self.held.is_stopped() {
                self.wind_up();
            }
            if let Some(entry) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(entry)));
            }
            let taken = match &mut self.flight {
                ConsumerRequest::None if matches!(self.next, Next::End) => return Poll::Ready(None),
                ConsumerRequest::None => {
                    self.flight = self.ask();
                    continue;
                }
                ConsumerRequest::Group(reply) => Pin::new(reply).poll(context).map(|made| self.take_group(made)),
                ConsumerRequest::Own(reply) => Pin::new(reply).poll(context).map(|page| self.take_own(page)),
                ConsumerRequest::Abandoned(reply) => {
                    Pin::new(reply).poll(context).map(|page| self.take_abandoned(page))
                }
                ConsumerRequest::New(reply) => Pin::new(reply).poll(context).map(|page| self.take_new(page)),
            };
            let Poll::Ready(taken) = taken else { return Poll::Pending };
            self.flight = ConsumerRequest::None;
            if let Err(error) = taken
                && let Some(error) = self.bear(error)
            {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }

    /// Sends the next request.
    fn ask(&self) -> ConsumerRequest {
        let (place, count) = (&self.held.place, self.options.count);
        let names = match &self.held.names {
            Ok(names) => names,
            Err(error) => return ConsumerRequest::Group(Reply::failed(error.clone(), None)),
        };
        let [stream, group, consumer] = names.each_ref().map(Vec::as_slice);
        match &self.next {
            Next::Group => {
                ConsumerRequest::Group(place.xgroup_create(stream, group, self.options.start.clone().make_stream()))
            }
            Next::Own | Next::Rest => {
                let options = ReadOptions::new().count(count);
                ConsumerRequest::Own(place.xreadgroup_with(group, consumer, stream, &self.last, options))
            }
            Next::Abandoned(id) => {
                let idle = self.options.claim_after.unwrap_or(Duration::MAX);
                let idle_ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX).min(i64::MAX as u64);
                ConsumerRequest::Abandoned(place.xautoclaim(stream, group, consumer, idle_ms, id, count))
            }
            Next::New => {
                // A wait of zero would have no limit, so it is at least a millisecond.
                let left = self.claims_at.map(|at| at.saturating_duration_since(now()).max(WAIT_MIN));
                let options = ReadOptions::new().count(count).block(left.unwrap_or_default());
                ConsumerRequest::New(place.xreadgroup_with(group, consumer, stream, ">", options))
            }
            Next::End => ConsumerRequest::None,
        }
    }

    /// Returns the next request, after all entries of the last reply were handed out.
    fn go_on(&self) -> Next {
        match self.claims_at {
            Some(at) if now() >= at => Next::Abandoned(FIRST.to_owned()),
            _ => Next::New,
        }
    }

    fn take_group(&mut self, made: Result<(), Error>) -> Result<(), Error> {
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(error),
            _ => self.next = Next::Own,
        }
        Ok(())
    }

    fn take_own(&mut self, page: Result<Page, Error>) -> Result<(), Error> {
        let records = page?.records;
        match records.last() {
            Some(last) => self.last.clone_from(&last.id),
            None if matches!(self.next, Next::Rest) => self.next = Next::End,
            None => self.next = self.go_on(),
        }
        self.hand_out(records, Delivery::Pending);
        Ok(())
    }

    fn take_abandoned(&mut self, page: Result<Claimed, Error>) -> Result<(), Error> {
        let Claimed { next, records } = page?;
        self.next = if next == FIRST {
            self.claims_at = self.options.claim_after.and_then(|idle| now().checked_add(idle.max(WAIT_MIN)));
            Next::New
        } else {
            Next::Abandoned(next)
        };
        self.hand_out(records, Delivery::Claimed);
        Ok(())
    }

    fn take_new(&mut self, page: Result<Page, Error>) -> Result<(), Error> {
        let records = page?.records;
        if let Some(last) = records.last() {
            self.last.clone_from(&last.id);
        }
        self.next = self.go_on();
        self.hand_out(records, Delivery::New);
        Ok(())
    }

    /// Hands out the received entries, except those that the program has already, and those that were deleted from the
    /// stream.
    fn hand_out(&mut self, records: Vec<Record>, delivery: Delivery) {
        let mut gone = Vec::new();
        for record in records {
            match record.fields {
                None => gone.push(record.id),
                Some(fields) => self.ready.extend(Entry::new(&self.held, record.id, fields, delivery)),
            }
        }
        if let (Ok([stream, group, _]), false) = (&self.held.names, gone.is_empty()) {
            self.held.place.xack(stream.as_slice(), group.as_slice(), gone).forget();
        }
    }

    /// Stops requesting entries, except those that the server may have given to this consumer already.
    fn wind_up(&mut self) {
        match (&self.next, &self.flight) {
            (Next::Rest | Next::End, _) => {}
            (Next::Group, _) => (self.flight, self.next) = (ConsumerRequest::None, Next::End),
            // The reply in flight is not one that waits, so it arrives soon.
            (_, ConsumerRequest::Group(_) | ConsumerRequest::Own(_) | ConsumerRequest::Abandoned(_)) => {}
            // The request is dropped, which ends its wait on the server.
            (_, ConsumerRequest::None | ConsumerRequest::New(_)) => {
                (self.flight, self.next) = (ConsumerRequest::None, Next::Rest)
            }
        }
    }

    /// Handles an error. Returns it if the program has to get it.
    fn bear(&mut self, error: Error) -> Option<Error> {
        match (error.kind(), error.code()) {
            // The stream or the group was removed, with all pending entries.
            (_, Some("NOGROUP" | "UNBLOCKED")) => {
                self.last = FIRST.to_owned();
                self.options.start = GroupStart::first();
                self.next = if matches!(self.next, Next::Rest) { Next::End } else { Next::Group };
                None
            }
            // Entries may have been lost with the connection; they are behind those that arrived.
            (ErrorKind::Disconnected, _) if matches!(self.next, Next::New) => {
                self.next = Next::Own;
                None
            }
            (ErrorKind::Disconnected, _) => None,
            (ErrorKind::Timeout | ErrorKind::Connect | ErrorKind::QueueFull, _) => {
                if matches!(self.next, Next::New) {
                    self.next = Next::Own;
                }
                Some(error)
            }
            (ErrorKind::Server, _) if error.effect() == Effect::Refused => Some(error),
            _ => {
                self.next = Next::End;
                Some(error)
            }
        }
    }
}

impl Stream for Consumer {
    type Item = Result<Entry, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl<'a> IntoIterator for &'a mut Consumer {
    type Item = Result<Entry, Error>;
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Entries<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The entries of a [`Consumer`], as an iterator that waits for each.
#[derive(Debug)]
pub struct Entries<'a>(&'a mut Consumer);

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        parked(None, |context| self.0.poll(context)).flatten()
    }
}
