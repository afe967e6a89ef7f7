//! Accounts and their passwords.

use agentenv_sdk::{Error, Result};
use hmac::{Hmac, Mac};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::Sha256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub username: String,
    pub name: String,
    pub address: String,
}

impl Account {
    /// What a friendly shop calls its customer.
    pub fn first_name(&self) -> &str {
        self.name.split_whitespace().next().unwrap_or(&self.username)
    }
}

/// Makes an account.
pub fn register(connection: &Connection, account: &Account, password: &str) -> Result<()> {
    let Account { username, name, address } = account;
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_@".contains(c);
    if username.is_empty() || username.len() > 64 || !username.chars().all(letter) {
        return Err(Error::bad_request(format!("“{username}” can't be a username"))
            .hint("lower-case letters, digits and . - _ @, 64 at most"));
    }
    if name.trim().is_empty() {
        return Err(Error::bad_request(format!("the account “{username}” has no name")));
    }
    if password.is_empty() {
        return Err(Error::bad_request(format!("the account “{username}” has no password")));
    }
    if find(connection, username)?.is_some() {
        return Err(Error::bad_request(format!("the username “{username}” is taken")));
    }
    let salt: String = connection.query_row("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0))?;
    let password = hash(&salt, password);
    connection
        .prepare_cached("INSERT INTO users (username, name, address, password) VALUES (?, ?, ?, ?)")?
        .execute(params![username, name.trim(), address.trim(), password])?;
    Ok(())
}

pub fn update(connection: &Connection, account: &Account) -> Result<()> {
    if account.name.trim().is_empty() {
        return Err(Error::bad_request("Please tell us your name."));
    }
    connection.prepare_cached("UPDATE users SET name = ?, address = ? WHERE username = ?")?.execute(params![
        account.name.trim(),
        account.address.trim(),
        account.username
    ])?;
    Ok(())
}

pub fn find(connection: &Connection, username: &str) -> Result<Option<Account>> {
    let mut statement = connection.prepare_cached("SELECT username, name, address FROM users WHERE username = ?")?;
    Ok(statement.query_row([username], account_of).optional()?)
}

pub fn list(connection: &Connection) -> Result<Vec<Account>> {
    let mut statement = connection.prepare_cached("SELECT username, name, address FROM users ORDER BY rowid")?;
    let rows = statement.query_map([], account_of)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whether this is the account's password.
pub fn check(connection: &Connection, username: &str, password: &str) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT password FROM users WHERE username = ?")?;
    let stored: Option<String> = statement.query_row([username], |row| row.get(0)).optional()?;
    Ok(stored.is_some_and(|stored| stored.split_once('$').is_some_and(|(salt, _)| hash(salt, password) == stored)))
}

/// One round of HMAC with a salt: the accounts are made up, and a load of thousands of them must not take minutes.
fn hash(salt: &str, password: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(salt.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(password.as_bytes());
    format!("{salt}${}", hex::encode(mac.finalize().into_bytes()))
}

fn account_of(row: &Row<'_>) -> rusqlite::Result<Account> {
    Ok(Account { username: row.get(0)?, name: row.get(1)?, address: row.get(2)? })
}
