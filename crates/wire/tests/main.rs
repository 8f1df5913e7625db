//! The crate from outside: requests, replies, numbers and the command table.
//!
//! One program for all files, because linking a program takes longer than running most of them.

mod commands;
mod numbers;
mod replies;
mod requests;
