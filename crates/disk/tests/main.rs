//! The log from outside: simulated power cuts, files with every bit turned, and what other servers make of it.
//!
//! One program for all files, because linking a program takes longer than running most of them.

mod base;
mod damage;
mod exchange;
mod interrupted;
mod left_over;
mod missing;
mod simulation;
mod states;
mod tampering;
