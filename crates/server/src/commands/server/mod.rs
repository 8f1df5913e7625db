//! Commands about the server: its configuration, its users, what it has counted, and what of other servers it is not.

pub mod acl;
pub mod admin;
pub mod cluster;
pub mod config;
pub mod debug;
pub mod info;
mod info_replica;
pub mod info_sections;
pub mod info_writer;
pub mod lolwut;
pub mod memory;
pub mod module;
pub mod monitoring;
pub mod persistence;
pub mod replication;
