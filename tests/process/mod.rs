//! The server as a process of the system, and the tools that look at it.

mod doctor;
mod memory_figures;
mod starter;
mod system;
