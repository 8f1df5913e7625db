//! What serves: workers, drivers, sessions, execution and the commands by family.
