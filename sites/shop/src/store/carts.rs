//! Carts, of accounts and of browsers that are not signed in.

use agentenv_sdk::{Error, Result};
use rusqlite::{Connection, params};

use super::catalogue::{self, Product};

/// As many of one thing as the shop sells at once.
pub const MAX_QUANTITY: i64 = 20;
/// From here on delivery is free.
pub const FREE_DELIVERY_CENTS: i64 = 6000;

/// Whose cart it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    User(String),
    Guest(String),
}

impl Owner {
    pub fn key(&self) -> String {
        match self {
            Self::User(name) => format!("user:{name}"),
            Self::Guest(token) => format!("guest:{token}"),
        }
    }
}

/// One line of a cart.
#[derive(Clone, Debug)]
pub struct Line {
    pub product: Product,
    pub quantity: i64,
}

impl Line {
    pub fn total_cents(&self) -> i64 {
        self.product.price_cents * self.quantity
    }
}

/// A new guest's token.
pub fn guest(connection: &Connection) -> Result<Owner> {
    Ok(Owner::Guest(connection.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?))
}

pub fn lines(connection: &Connection, owner: &Owner) -> Result<Vec<Line>> {
    let mut statement =
        connection.prepare_cached("SELECT product, quantity FROM cart_items WHERE owner = ? ORDER BY id")?;
    let rows = statement.query_map([owner.key()], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    let mut lines = Vec::new();
    for row in rows {
        let (slug, quantity) = row?;
        if let Some(product) = catalogue::find(connection, &slug)? {
            lines.push(Line { product, quantity });
        }
    }
    Ok(lines)
}

/// How many things are in it.
pub fn count(connection: &Connection, owner: &Owner) -> Result<i64> {
    let mut statement =
        connection.prepare_cached("SELECT coalesce(sum(quantity), 0) FROM cart_items WHERE owner = ?")?;
    Ok(statement.query_row([owner.key()], |row| row.get(0))?)
}

/// Adds to what is there.
pub fn add(connection: &Connection, owner: &Owner, slug: &str, quantity: i64) -> Result<Product> {
    let there = quantity_of(connection, owner, slug)?;
    set(connection, owner, slug, there + quantity.clamp(1, MAX_QUANTITY))
}

/// Sets the quantity; none removes the line.
pub fn set(connection: &Connection, owner: &Owner, slug: &str, quantity: i64) -> Result<Product> {
    let product = catalogue::find(connection, slug)?.ok_or_else(|| Error::not_found("We don't sell that."))?;
    if quantity < 1 {
        connection
            .prepare_cached("DELETE FROM cart_items WHERE owner = ? AND product = ?")?
            .execute(params![owner.key(), slug])?;
        return Ok(product);
    }
    if product.stock == 0 {
        return Err(Error::bad_request(format!("{} is sold out.", product.name)));
    }
    if quantity > product.stock {
        return Err(Error::bad_request(format!("We have only {} of {}.", product.stock, product.name)));
    }
    if quantity > MAX_QUANTITY {
        return Err(Error::bad_request(format!("We sell at most {MAX_QUANTITY} of one thing at once.")));
    }
    connection
        .prepare_cached(
            "INSERT INTO cart_items (owner, product, quantity) VALUES (?, ?, ?)
             ON CONFLICT (owner, product) DO UPDATE SET quantity = excluded.quantity",
        )?
        .execute(params![owner.key(), slug, quantity])?;
    Ok(product)
}

pub fn clear(connection: &Connection, owner: &Owner) -> Result<()> {
    connection.prepare_cached("DELETE FROM cart_items WHERE owner = ?")?.execute([owner.key()])?;
    Ok(())
}

/// Moves a guest's cart into an account's, as signing in does; what doesn't fit is left out.
pub fn merge(connection: &Connection, guest: &Owner, account: &Owner) -> Result<()> {
    for line in lines(connection, guest)? {
        let there = quantity_of(connection, account, &line.product.slug)?;
        let quantity = (there + line.quantity).min(line.product.stock).min(MAX_QUANTITY);
        if quantity > there {
            set(connection, account, &line.product.slug, quantity)?;
        }
    }
    clear(connection, guest)
}

/// What delivery costs.
pub fn delivery_cents(goods_cents: i64, express: bool) -> i64 {
    match (express, goods_cents >= FREE_DELIVERY_CENTS) {
        (true, _) => 1200,
        (false, true) => 0,
        (false, false) => 490,
    }
}

fn quantity_of(connection: &Connection, owner: &Owner, slug: &str) -> Result<i64> {
    let mut statement = connection
        .prepare_cached("SELECT coalesce(sum(quantity), 0) FROM cart_items WHERE owner = ? AND product = ?")?;
    Ok(statement.query_row(params![owner.key(), slug], |row| row.get(0))?)
}
