//! The data of `load` and `get`.
//!
//! `load` takes `{users?, products?, orders?}` and adds all of it or nothing:
//!
//! - a user is `{username, password, name, address?}`
//! - a product is `{slug, name, category, price_cents, stock?, summary?, description?, shape?, color?, accent?}`
//! - an order is `{user, items: [{product, quantity}], number?, status?, placed_at?, recipient?, address?, delivery?,
//!   payment?, note?}`; what it leaves out comes from the account, its total from the catalogue
//!
//! `get` answers `{users, products, orders, carts}`: users without passwords, orders with items and totals in the order
//! they were placed, carts that are not empty (`user` is null for a guest's). A selector names the lists it wants, each
//! with the members that its items must have: `{"orders": {"user": "ada"}, "carts": {}}`.

use agentenv_sdk::{Error, Result, Value, json};
use rusqlite::Connection;
use serde::Deserialize;
use serde_json::Map;

use super::{
    accounts::{self, Account},
    carts::{self, Line, Owner},
    catalogue::{self, Product, Sort},
    orders::{self, Checkout, Given},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    #[serde(default)]
    users: Vec<NewUser>,
    #[serde(default)]
    products: Vec<Product>,
    #[serde(default)]
    orders: Vec<NewOrder>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewUser {
    username: String,
    password: String,
    name: String,
    #[serde(default)]
    address: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOrder {
    user: String,
    items: Vec<NewItem>,
    number: Option<String>,
    status: Option<String>,
    placed_at: Option<String>,
    recipient: Option<String>,
    address: Option<String>,
    #[serde(default)]
    delivery: String,
    #[serde(default)]
    payment: String,
    #[serde(default)]
    note: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewItem {
    product: String,
    quantity: i64,
}

/// Adds; run it within one transaction.
pub fn load(connection: &Connection, load: Load) -> Result<()> {
    for user in load.users {
        let account = Account { username: user.username, name: user.name, address: user.address };
        accounts::register(connection, &account, &user.password)?;
    }
    load.products.iter().try_for_each(|product| catalogue::add(connection, product))?;
    load.orders.into_iter().try_for_each(|order| add_order(connection, order))
}

fn add_order(connection: &Connection, order: NewOrder) -> Result<()> {
    let account = accounts::find(connection, &order.user)?
        .ok_or_else(|| Error::bad_request(format!("an order is for the user “{}”, who is not there", order.user)))?;
    if order.items.is_empty() {
        return Err(Error::bad_request(format!("an order of “{}” has no items", order.user)));
    }
    let lines: Vec<Line> = order
        .items
        .into_iter()
        .map(|item| {
            let product = catalogue::find(connection, &item.product)?
                .ok_or_else(|| Error::bad_request(format!("an order has “{}”, which is no product", item.product)))?;
            if item.quantity < 1 {
                return Err(Error::bad_request(format!("an order has {} of “{}”", item.quantity, item.product)));
            }
            Ok(Line { product, quantity: item.quantity })
        })
        .collect::<Result<_>>()?;
    let address = order.address.unwrap_or(account.address);
    let checkout = Checkout {
        name: order.recipient.unwrap_or(account.name),
        // An account without an address can still have had an order sent somewhere.
        address: if address.is_empty() { "—".to_owned() } else { address },
        delivery: order.delivery,
        payment: order.payment,
        note: order.note,
    };
    let given = Given { number: order.number, placed_at: order.placed_at, status: order.status };
    orders::insert(connection, &account.username, &checkout, &lines, given).map(drop)
}

/// A list of `get` and the members of its items.
type List = (&'static str, &'static [&'static str]);

const LISTS: [List; 4] = [
    ("users", &["username", "name", "address"]),
    (
        "products",
        &["slug", "name", "category", "price_cents", "stock", "summary", "description", "shape", "color", "accent"],
    ),
    (
        "orders",
        &[
            "number",
            "user",
            "placed_at",
            "status",
            "recipient",
            "address",
            "delivery",
            "payment",
            "note",
            "items",
            "shipping_cents",
            "total_cents",
        ],
    ),
    ("carts", &["user", "items"]),
];

/// Answers the lists, all of them or those that the selector names.
pub fn get(connection: &Connection, selector: Option<&Value>) -> Result<Value> {
    let wanted = match selector {
        None | Some(Value::Null) => LISTS.iter().map(|(list, _)| (*list, Map::new())).collect(),
        Some(selector) => read_selector(selector)?,
    };
    let mut answer = Map::new();
    for (list, members) in wanted {
        let mut items = match list {
            "users" => users(connection)?,
            "products" => json!(catalogue::list(connection, None, Sort::Featured)?),
            "orders" => json!(orders::list(connection)?),
            _ => carts(connection)?,
        };
        if let Some(items) = items.as_array_mut() {
            items.retain(|item| members.iter().all(|(member, value)| item.get(member) == Some(value)));
        }
        answer.insert(list.to_owned(), items);
    }
    Ok(Value::Object(answer))
}

fn read_selector(selector: &Value) -> Result<Vec<(&'static str, Map<String, Value>)>> {
    let hint = "a selector names lists and the members that their items must have: {\"orders\": {\"user\": \"ada\"}}";
    let bad = |message: String| Error::bad_request(message).hint(hint);
    let Value::Object(wanted) = selector else { return Err(bad("the selector is not an object".to_owned())) };
    let mut lists = Vec::new();
    for (list, members) in wanted {
        let Some((list, known)) = LISTS.iter().find(|(name, _)| name == list) else {
            return Err(bad(format!("there is no list `{list}`: users, products, orders, carts")));
        };
        let Value::Object(members) = members else {
            return Err(bad(format!("what `{list}` selects is not an object")));
        };
        if let Some(unknown) = members.keys().find(|member| !known.contains(&member.as_str())) {
            return Err(bad(format!("`{list}` has no member `{unknown}`: {}", known.join(", "))));
        }
        lists.push((*list, members.clone()));
    }
    Ok(lists)
}

fn users(connection: &Connection) -> Result<Value> {
    let users = accounts::list(connection)?.into_iter();
    Ok(users.map(|user| json!({"username": user.username, "name": user.name, "address": user.address})).collect())
}

fn carts(connection: &Connection) -> Result<Value> {
    let mut statement = connection.prepare_cached("SELECT owner FROM cart_items GROUP BY owner ORDER BY min(id)")?;
    let owners: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut carts = Vec::new();
    for key in owners {
        let owner = match key.split_once(':') {
            Some(("user", name)) => Owner::User(name.to_owned()),
            Some((_, token)) => Owner::Guest(token.to_owned()),
            None => continue,
        };
        let items: Vec<Value> = carts::lines(connection, &owner)?
            .iter()
            .map(|line| json!({"product": line.product.slug, "quantity": line.quantity}))
            .collect();
        let user = match &owner {
            Owner::User(name) => Some(name),
            Owner::Guest(_) => None,
        };
        carts.push(json!({"user": user, "items": items}));
    }
    Ok(Value::Array(carts))
}
