//! What the outside tests share: starting servers, finding peers, reading transcripts.
