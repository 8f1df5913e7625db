//! What is kept: databases, shards and locks, the hash table, values, expiry. No sockets, no commands, no clock.
