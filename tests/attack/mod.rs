//! Attacks: hostile requests, scripts and dumps.

mod dumps;
mod hostile;
mod hostile_scripts;
mod published_faults;
mod split_requests;
