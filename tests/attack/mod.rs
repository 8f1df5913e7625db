//! Attacks: hostile requests, scripts and dumps.

mod dumps;
mod hostile;
mod hostile_scripts;
mod split_requests;
