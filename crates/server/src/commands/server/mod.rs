//! Commands about the server: its configuration, its users, its counters, and commands for features of other servers that it
//! lacks.

pub mod acl;
pub mod admin;
pub mod cluster;
pub mod config;
pub mod debug;
pub mod info;
mod info_aof;
pub mod info_sections;
pub mod info_writer;
pub mod lolwut;
pub mod memory;
pub mod module;
pub mod monitoring;
pub mod persistence;
pub mod replication;
