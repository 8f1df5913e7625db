//! Small collections as one run of bytes: how elements stand in it, how it is read, and how it is changed.

pub mod element;
pub mod listpack;
pub mod pack;
pub mod ways;
