//! What asks: `Client`, `Db`, `Reply`.
