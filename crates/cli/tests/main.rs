//! The tools from outside, as processes.
//!
//! One program for all files, because linking a program takes longer than running most of them.

mod backup;
mod bench;
mod check;
mod check_aof;
mod check_rdb;
mod cluster;
mod foreign_paths;
mod formats;
mod http;
mod modes;
mod packaging;
mod programs;
mod salvage;
mod sweep;
