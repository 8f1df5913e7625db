//! The AOF from outside: simulated power cuts, files with every bit turned, and other servers that read it.
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
