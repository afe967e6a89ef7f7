//! Orders.

use agentenv_sdk::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::{
    carts::{self, Line, Owner},
    catalogue,
};

/// An order, as `get` answers it.
#[derive(Clone, Debug, Serialize)]
pub struct Order {
    pub number: String,
    pub user: String,
    pub placed_at: String,
    pub status: String,
    pub recipient: String,
    pub address: String,
    pub delivery: String,
    pub payment: String,
    pub note: String,
    pub items: Vec<Item>,
    pub shipping_cents: i64,
    pub total_cents: i64,
}

/// One line of an order, with the price of that day.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    pub product: String,
    pub name: String,
    pub price_cents: i64,
    pub quantity: i64,
}

/// What a customer says at checkout.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Checkout {
    pub name: String,
    pub address: String,
    #[serde(default)]
    pub delivery: String,
    #[serde(default)]
    pub payment: String,
    #[serde(default)]
    pub note: String,
}

/// What is left to the clock and to circumstances when an order is loaded instead of placed.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub number: Option<String>,
    pub placed_at: Option<String>,
    pub status: Option<String>,
}

/// Orders what is in the account's cart, and empties it.
pub fn place(connection: &Connection, user: &str, checkout: &Checkout) -> Result<String> {
    let owner = Owner::User(user.to_owned());
    let lines = carts::lines(connection, &owner)?;
    if lines.is_empty() {
        return Err(Error::bad_request("Your cart is empty."));
    }
    let number = insert(connection, user, checkout, &lines, Given::default())?;
    carts::clear(connection, &owner)?;
    Ok(number)
}

/// Writes an order of these lines and takes them out of stock.
pub fn insert(
    connection: &Connection,
    user: &str,
    checkout: &Checkout,
    lines: &[Line],
    given: Given,
) -> Result<String> {
    let (recipient, address) = (checkout.name.trim(), checkout.address.trim());
    if recipient.is_empty() || address.is_empty() {
        return Err(Error::bad_request("Please fill in who receives the parcel, and where."));
    }
    let express = match checkout.delivery.as_str() {
        "" | "standard" => false,
        "express" => true,
        other => return Err(Error::bad_request(format!("We don't deliver by “{other}”."))),
    };
    let payment = match checkout.payment.as_str() {
        "" | "invoice" => "invoice",
        "on-delivery" => "on-delivery",
        other => return Err(Error::bad_request(format!("We don't take payment by “{other}”."))),
    };
    for line in lines {
        take_from_stock(connection, line)?;
    }
    let goods: i64 = lines.iter().map(Line::total_cents).sum();
    let shipping = carts::delivery_cents(goods, express);
    let number = match given.number {
        Some(number) => number,
        None => next_number(connection)?,
    };
    if find(connection, &number)?.is_some() {
        return Err(Error::bad_request(format!("there is an order {number} already")));
    }
    connection
        .prepare_cached(
            "INSERT INTO orders (number, user, placed_at, status, recipient, address, delivery, payment, note,
                shipping_cents, total_cents)
             VALUES (?, ?, coalesce(?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now')), ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            number,
            user,
            given.placed_at,
            given.status.as_deref().unwrap_or("confirmed"),
            recipient,
            address,
            if express { "express" } else { "standard" },
            payment,
            checkout.note.trim(),
            shipping,
            goods + shipping
        ])?;
    for line in lines {
        connection
            .prepare_cached(
                "INSERT INTO order_items (number, product, name, price_cents, quantity) VALUES (?, ?, ?, ?, ?)",
            )?
            .execute(params![number, line.product.slug, line.product.name, line.product.price_cents, line.quantity])?;
    }
    Ok(number)
}

/// Six digits that an agent can't guess, and that are the same in every run: they follow from how many orders there are.
fn next_number(connection: &Connection) -> Result<String> {
    let mut count: i64 = connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    loop {
        count += 1;
        let number = format!("KK-{}", 100_000 + (count * 472_883 + 318_211) % 900_000);
        if find(connection, &number)?.is_none() {
            return Ok(number);
        }
    }
}

fn take_from_stock(connection: &Connection, line: &Line) -> Result<()> {
    let product =
        catalogue::find(connection, &line.product.slug)?.ok_or_else(|| Error::not_found("no such product"))?;
    if product.stock < line.quantity {
        let message = match product.stock {
            0 => format!("{} has just sold out.", product.name),
            left => format!("We have only {left} of {}.", product.name),
        };
        return Err(Error::bad_request(message));
    }
    connection
        .prepare_cached("UPDATE products SET stock = stock - ? WHERE slug = ?")?
        .execute(params![line.quantity, product.slug])?;
    Ok(())
}

const COLUMNS: &str = "number, user, placed_at, status, recipient, address, delivery, payment, note, shipping_cents, \
    total_cents";

pub fn find(connection: &Connection, number: &str) -> Result<Option<Order>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM orders WHERE number = ?"))?;
    let order = statement.query_row([number], order_of).optional()?;
    order.map(|order| with_items(connection, order)).transpose()
}

/// The orders of an account, newest first.
pub fn of_user(connection: &Connection, user: &str) -> Result<Vec<Order>> {
    select(connection, "WHERE user = ?1 ORDER BY placed_at DESC, id DESC", Some(user))
}

/// All orders, in the order they were placed.
pub fn list(connection: &Connection) -> Result<Vec<Order>> {
    select(connection, "WHERE ?1 IS NULL ORDER BY id", None)
}

fn select(connection: &Connection, rest: &str, argument: Option<&str>) -> Result<Vec<Order>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM orders {rest}"))?;
    let orders: Vec<Order> = statement.query_map([argument], order_of)?.collect::<Result<_, _>>()?;
    orders.into_iter().map(|order| with_items(connection, order)).collect()
}

fn with_items(connection: &Connection, mut order: Order) -> Result<Order> {
    let mut statement = connection
        .prepare_cached("SELECT product, name, price_cents, quantity FROM order_items WHERE number = ? ORDER BY id")?;
    let items = statement.query_map([&order.number], |row| {
        Ok(Item { product: row.get(0)?, name: row.get(1)?, price_cents: row.get(2)?, quantity: row.get(3)? })
    })?;
    order.items = items.collect::<Result<_, _>>()?;
    Ok(order)
}

fn order_of(row: &Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order {
        number: row.get(0)?,
        user: row.get(1)?,
        placed_at: row.get(2)?,
        status: row.get(3)?,
        recipient: row.get(4)?,
        address: row.get(5)?,
        delivery: row.get(6)?,
        payment: row.get(7)?,
        note: row.get(8)?,
        items: Vec::new(),
        shipping_cents: row.get(9)?,
        total_cents: row.get(10)?,
    })
}
