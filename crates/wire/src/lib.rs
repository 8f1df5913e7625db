//! What travels: the command table, requests and replies to and from bytes. No I/O, no state.
