//! The client from outside, in one program: what it does in tasks, with an engine inside, and with the worst around it.

mod awake;
mod changes;
mod closing;
mod cluster;
mod coalescing;
mod consumers;
mod deadlines;
mod derives;
mod embedded_settings;
mod endless;
mod events;
mod forks;
mod near;
mod neighbours;
mod resend;
mod scripted;
mod sentinel;
mod silence;
mod tasks;
mod testing;
mod threads;
mod timeouts;
mod values;
mod worst;
