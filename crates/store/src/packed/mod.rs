//! Small collections as one run of bytes: the elements in it, and how it is read and changed.

pub mod element;
pub mod listpack;
pub mod pack;
pub mod ways;
