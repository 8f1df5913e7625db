//! The client against real servers and the embedded engine.

mod blocking;
mod calls;
mod coalescing;
mod collections;
mod connecting;
mod credentials;
mod examples;
mod groups;
mod idle;
mod multiplex;
mod near_cache;
mod reconnect;
mod replicated;
mod scripts;
mod subscriptions;
mod synced;
