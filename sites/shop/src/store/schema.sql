CREATE TABLE categories (
    slug TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    blurb TEXT NOT NULL
) STRICT;
CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    category TEXT NOT NULL REFERENCES categories (slug),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    stock INTEGER NOT NULL CHECK (stock >= 0),
    summary TEXT NOT NULL,
    description TEXT NOT NULL,
    shape TEXT NOT NULL,
    color TEXT NOT NULL,
    accent TEXT NOT NULL
) STRICT;
CREATE TABLE users (
    username TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    address TEXT NOT NULL,
    password TEXT NOT NULL
) STRICT;
-- `owner` is `user:NAME`, or `guest:TOKEN` of a browser that is not signed in.
CREATE TABLE cart_items (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    product TEXT NOT NULL REFERENCES products (slug),
    quantity INTEGER NOT NULL CHECK (quantity BETWEEN 1 AND 20),
    UNIQUE (owner, product)
) STRICT;
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE,
    user TEXT NOT NULL REFERENCES users (username),
    placed_at TEXT NOT NULL,
    status TEXT NOT NULL,
    recipient TEXT NOT NULL,
    address TEXT NOT NULL,
    delivery TEXT NOT NULL,
    payment TEXT NOT NULL,
    note TEXT NOT NULL,
    shipping_cents INTEGER NOT NULL,
    total_cents INTEGER NOT NULL
) STRICT;
CREATE TABLE order_items (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL REFERENCES orders (number),
    product TEXT NOT NULL,
    name TEXT NOT NULL,
    price_cents INTEGER NOT NULL,
    quantity INTEGER NOT NULL
) STRICT;
CREATE INDEX orders_of_user ON orders (user);
CREATE INDEX items_of_order ON order_items (number);
