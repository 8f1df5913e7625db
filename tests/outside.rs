//! All tests of running servers and clients, in one program, because linking a program takes longer than running most of
//! them. `tidy`, which reads sources and runs nothing, is a program of its own.

mod acknowledged;
mod client;
mod collections;
mod connecting;
mod cut;
mod differential;
mod dumps;
mod endurance;
mod golden;
mod hostile;
mod hostile_scripts;
mod limits;
mod linearizable;
mod migrate;
mod multiplex;
mod names;
mod options;
mod permissions;
mod persistence;
mod pieces;
mod point_in_time;
mod process;
mod programs;
mod rdb_files;
mod reconnect;
mod replay;
mod scripts;
mod servers;
mod subscribe;
mod synced;
mod tls;
mod users;
mod waiting;
mod workers;
