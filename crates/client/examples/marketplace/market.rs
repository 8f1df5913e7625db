//! A marketplace: players sell items to each other, and no item is ever sold twice or paid for in vain.
//!
//! A player's items are the set `inventory:NAME`, the money is the field `funds` of the hash `users:NAME`, and the offers are
//! the sorted set `market:`, with `ITEM.SELLER` at its price. Each step watches the keys by which it decides, so that it is
//! repeated if another player was faster.

use sleeve::prelude::*;
use sleeve::{Client, Error, RankRange};

/// The outcome of a purchase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purchase {
    /// The item now belongs to the buyer.
    Done,
    /// The item is not on offer, or no longer at the price that the buyer has seen.
    Gone,
    /// The buyer does not have enough money.
    TooExpensive,
}

/// Creates a player.
pub fn enrol(client: &Client, name: &str, funds: i64, items: &[&str]) -> Result<(), Error> {
    client.hset(format!("users:{name}"), [("name", name.to_owned()), ("funds", funds.to_string())]).wait()?;
    if !items.is_empty() {
        client.sadd(format!("inventory:{name}"), items).wait()?;
    }
    Ok(())
}

/// Puts an item on the market. Returns false if the seller does not have it.
pub fn list_item(client: &Client, seller: &str, item: &str, price: i64) -> Result<bool, Error> {
    let inventory = format!("inventory:{seller}");
    client.watch(&inventory, |lease, transaction| {
        if !lease.sismember(&inventory, item).wait()? {
            return Ok(false);
        }
        transaction.zadd("market:", (price, format!("{item}.{seller}"))).forget();
        transaction.srem(&inventory, item).forget();
        Ok(true)
    })
}

/// Buys an item from a seller at the price that the buyer has seen.
pub fn purchase_item(client: &Client, buyer: &str, item: &str, seller: &str, price: i64) -> Result<Purchase, Error> {
    let offer = format!("{item}.{seller}");
    let (buyer_key, seller_key) = (format!("users:{buyer}"), format!("users:{seller}"));
    client.watch(["market:", &buyer_key], |lease, transaction| {
        // Both requests are in flight before the first is answered.
        let asked = lease.zscore("market:", &offer);
        let funds = lease.hget::<i64>(&buyer_key, "funds");
        if asked.wait()? != Some(price as f64) {
            return Ok(Purchase::Gone);
        }
        if funds.wait()? < price {
            return Ok(Purchase::TooExpensive);
        }
        transaction.hincrby(&seller_key, "funds", price).forget();
        transaction.hincrby(&buyer_key, "funds", -price).forget();
        transaction.sadd(format!("inventory:{buyer}"), item).forget();
        transaction.zrem("market:", &offer).forget();
        Ok(Purchase::Done)
    })
}

/// Returns the offers: each with its seller and its price, the cheapest first.
pub fn offers(client: &Client) -> Result<Vec<(String, String, i64)>, Error> {
    let listed: Vec<(String, f64)> = client.zrange_scores("market:", RankRange::by_rank(0, -1)).wait()?;
    let split = |(offer, price): (String, f64)| {
        let (item, seller) = offer.split_once('.')?;
        Some((item.to_owned(), seller.to_owned(), price as i64))
    };
    Ok(listed.into_iter().filter_map(split).collect())
}
