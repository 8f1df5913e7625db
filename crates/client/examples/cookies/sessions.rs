//! Login cookies of a shop: the users that are logged in, the time when each was last seen, and the items that each has
//! looked at.
//!
//! The hash `login:` has each token's user, the sorted set `recent:` the time of its last use, `viewed:TOKEN` the 25 items
//! that it viewed last, and `viewed:` counts views, so that the most viewed item stands first.

use sleeve::prelude::*;
use sleeve::{Client, Error, RankRange};

/// The number of items that are remembered for each visitor.
pub const VIEWED_MAX: i64 = 25;

/// Returns the user of a token.
pub fn check_token(client: &Client, token: &str) -> Result<Option<String>, Error> {
    client.hget("login:", token).wait()
}

/// Notes that a user viewed a page, which may be about an item: each command waits for the one before. `now` is in seconds.
pub fn update_token(client: &Client, token: &str, user: &str, item: Option<&str>, now: f64) -> Result<(), Error> {
    client.hset("login:", (token, user)).wait()?;
    client.zadd("recent:", (now, token)).wait()?;
    if let Some(item) = item {
        let viewed = format!("viewed:{token}");
        client.zadd(&viewed, (now, item)).wait()?;
        client.zremrangebyrank(&viewed, 0, -(VIEWED_MAX + 1)).wait()?;
        client.zincrby("viewed:", -1.0, item).wait()?;
    }
    Ok(())
}

/// Notes a view in one piece, with one round trip instead of five.
pub fn update_token_pipeline(
    client: &Client,
    token: &str,
    user: &str,
    item: Option<&str>,
    now: f64,
) -> Result<(), Error> {
    let batch = client.batch();
    batch.hset("login:", (token, user)).forget();
    let recent = batch.zadd("recent:", (now, token));
    let views = item.map(|item| {
        let viewed = format!("viewed:{token}");
        batch.zadd(&viewed, (now, item)).forget();
        batch.zremrangebyrank(&viewed, 0, -(VIEWED_MAX + 1)).forget();
        batch.zincrby("viewed:", -1.0, item)
    });
    batch.send();
    recent.wait()?;
    views.map_or(Ok(()), |views| views.wait().map(|_| ()))
}

/// Forgets all but the `limit` tokens that were used last, with their views. Returns the number of forgotten tokens.
pub fn clean_sessions(client: &Client, limit: i64) -> Result<usize, Error> {
    let tokens: Vec<String> = client.zrange("recent:", RankRange::by_rank(0, -(limit + 1))).wait()?;
    if tokens.is_empty() {
        return Ok(0);
    }
    let views: Vec<String> = tokens.iter().map(|token| format!("viewed:{token}")).collect();
    let transaction = client.transaction();
    transaction.del(views).forget();
    transaction.hdel("login:", &tokens).forget();
    transaction.zrem("recent:", &tokens).forget();
    transaction.exec().wait()?;
    Ok(tokens.len())
}
