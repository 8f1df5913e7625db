//! 64 buyers compete for the items that 8 sellers put on the market; at the end no item is lost and none exists twice.

mod market;

use std::thread;

use market::{Purchase, enrol, list_item, offers, purchase_item};
use sleeve::prelude::*;
use sleeve::{Client, Error};

const BUYERS: usize = 64;
const SELLERS: usize = 8;

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "embedded://".to_owned());
    let client = Client::connect(&url)?;
    client.flushdb().wait()?;
    for seller in 0..SELLERS {
        let items: Vec<String> = (0..4).map(|number| format!("item{seller}-{number}")).collect();
        let names: Vec<&str> = items.iter().map(String::as_str).collect();
        enrol(&client, &format!("seller{seller}"), 0, &names)?;
        for item in names {
            list_item(&client, &format!("seller{seller}"), item, 10)?;
        }
    }
    for buyer in 0..BUYERS {
        enrol(&client, &format!("buyer{buyer}"), 20, &[])?;
    }
    let sold: usize = thread::scope(|scope| {
        let shop = |buyer: usize| {
            let client = client.clone();
            scope.spawn(move || shopping(&client, &format!("buyer{buyer}")))
        };
        let buyers: Vec<_> = (0..BUYERS).map(shop).collect();
        buyers.into_iter().filter_map(|buyer| buyer.join().ok()?.ok()).sum()
    });
    let mut income = 0;
    for seller in 0..SELLERS {
        income += client.hget::<i64>(format!("users:seller{seller}"), "funds").wait()?;
    }
    println!("{sold} items were sold for {income} in sum; {} are still on offer", offers(&client)?.len());
    Ok(())
}

/// Buys offers until there are none, or no money is left. Returns the number of bought items.
fn shopping(client: &Client, buyer: &str) -> Result<usize, Error> {
    let mut bought = 0;
    loop {
        let offers = offers(client)?;
        let Some((item, seller, price)) = offers.first() else { return Ok(bought) };
        match purchase_item(client, buyer, item, seller, *price)? {
            Purchase::Done => bought += 1,
            Purchase::Gone => {}
            Purchase::TooExpensive => return Ok(bought),
        }
    }
}
