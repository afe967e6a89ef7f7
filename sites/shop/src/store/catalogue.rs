//! Categories and products.

use agentenv_sdk::{Error, Result};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize)]
pub struct Category {
    pub slug: String,
    pub name: String,
    pub blurb: String,
}

/// A product, as it is sold and as `load` takes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Product {
    pub slug: String,
    pub name: String,
    /// A category's slug.
    pub category: String,
    pub price_cents: i64,
    #[serde(default = "ten")]
    pub stock: i64,
    #[serde(default)]
    pub summary: String,
    #[serde(default)]
    pub description: String,
    /// What its picture shows: see `pictures.rs`.
    #[serde(default = "mug")]
    pub shape: String,
    #[serde(default = "clay")]
    pub color: String,
    #[serde(default = "cream")]
    pub accent: String,
}

fn ten() -> i64 {
    10
}

fn mug() -> String {
    "mug".to_owned()
}

fn clay() -> String {
    "#9c7a5b".to_owned()
}

fn cream() -> String {
    "#ece3d4".to_owned()
}

/// The order of a list of products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    #[default]
    Featured,
    PriceUp,
    PriceDown,
    Name,
}

impl Sort {
    pub const ALL: [(Self, &str, &str); 4] = [
        (Self::Featured, "featured", "Featured"),
        (Self::PriceUp, "price-up", "Price, low to high"),
        (Self::PriceDown, "price-down", "Price, high to low"),
        (Self::Name, "name", "Name"),
    ];

    fn sql(self) -> &'static str {
        match self {
            Self::Featured => "id",
            Self::PriceUp => "price_cents, id",
            Self::PriceDown => "price_cents DESC, id",
            Self::Name => "name COLLATE NOCASE, id",
        }
    }
}

pub fn seed(connection: &Connection) -> Result<()> {
    #[derive(Deserialize)]
    struct Catalogue {
        categories: Vec<Category>,
        products: Vec<Product>,
    }
    let catalogue: Catalogue = serde_json::from_str(include_str!("../../assets/catalogue.json"))?;
    for category in catalogue.categories {
        connection.prepare_cached("INSERT INTO categories (slug, name, blurb) VALUES (?, ?, ?)")?.execute(params![
            category.slug,
            category.name,
            category.blurb
        ])?;
    }
    catalogue.products.iter().try_for_each(|product| add(connection, product))
}

/// Adds a product.
pub fn add(connection: &Connection, product: &Product) -> Result<()> {
    let slug_ok = !product.slug.is_empty()
        && product.slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !slug_ok {
        let hint = "lower-case letters, digits and `-`";
        return Err(Error::bad_request(format!("`{}` is not a product's slug", product.slug)).hint(hint));
    }
    if category(connection, &product.category)?.is_none() {
        return Err(Error::bad_request(format!("there is no category `{}`", product.category)));
    }
    if find(connection, &product.slug)?.is_some() {
        return Err(Error::bad_request(format!("there is a product `{}` already", product.slug)));
    }
    if product.price_cents < 1 || product.stock < 0 {
        return Err(Error::bad_request(format!("the price or the stock of `{}` is negative", product.slug)));
    }
    connection
        .prepare_cached(
            "INSERT INTO products (slug, name, category, price_cents, stock, summary, description, shape, color, accent)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            product.slug,
            product.name,
            product.category,
            product.price_cents,
            product.stock,
            product.summary,
            product.description,
            product.shape,
            product.color,
            product.accent
        ])?;
    Ok(())
}

pub fn categories(connection: &Connection) -> Result<Vec<Category>> {
    let mut statement = connection.prepare_cached("SELECT slug, name, blurb FROM categories ORDER BY rowid")?;
    let rows = statement.query_map([], category_of)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub fn category(connection: &Connection, slug: &str) -> Result<Option<Category>> {
    let mut statement = connection.prepare_cached("SELECT slug, name, blurb FROM categories WHERE slug = ?")?;
    Ok(statement.query_row([slug], category_of).optional()?)
}

fn category_of(row: &Row<'_>) -> rusqlite::Result<Category> {
    Ok(Category { slug: row.get(0)?, name: row.get(1)?, blurb: row.get(2)? })
}

const COLUMNS: &str = "slug, name, category, price_cents, stock, summary, description, shape, color, accent";

pub fn find(connection: &Connection, slug: &str) -> Result<Option<Product>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM products WHERE slug = ?"))?;
    Ok(statement.query_row([slug], product_of).optional()?)
}

/// The products of a category, or of all.
pub fn list(connection: &Connection, category: Option<&str>, sort: Sort) -> Result<Vec<Product>> {
    let order = sort.sql();
    let sql = format!("SELECT {COLUMNS} FROM products WHERE ?1 IS NULL OR category = ?1 ORDER BY {order}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([category], product_of)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The products that have every word of the query in their name, summary, description or category; those that have them
/// all in the name come first.
pub fn search(connection: &Connection, query: &str, sort: Sort) -> Result<Vec<Product>> {
    let words: Vec<String> = query.split_whitespace().map(|word| singular(&word.to_lowercase())).collect();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let categories = categories(connection)?;
    let mut found: Vec<(bool, Product)> = Vec::new();
    for product in list(connection, None, sort)? {
        let category = categories.iter().find(|category| category.slug == product.category);
        let category = category.map_or("", |category| &category.name);
        let name = product.name.to_lowercase();
        let text = format!("{name} {} {} {category}", product.summary, product.description).to_lowercase();
        if words.iter().all(|word| text.contains(word)) {
            found.push((words.iter().all(|word| name.contains(word)), product));
        }
    }
    if sort == Sort::Featured {
        found.sort_by_key(|(in_name, _)| !in_name);
    }
    Ok(found.into_iter().map(|(_, product)| product).collect())
}

/// People search for `mugs` and mean a mug.
fn singular(word: &str) -> String {
    word.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with('s')).unwrap_or(word).to_owned()
}

fn product_of(row: &Row<'_>) -> rusqlite::Result<Product> {
    Ok(Product {
        slug: row.get(0)?,
        name: row.get(1)?,
        category: row.get(2)?,
        price_cents: row.get(3)?,
        stock: row.get(4)?,
        summary: row.get(5)?,
        description: row.get(6)?,
        shape: row.get(7)?,
        color: row.get(8)?,
        accent: row.get(9)?,
    })
}
