//! Every problem of one declaration at once.
use agentenv_sdk::website;

#[website(
    domains = ["https://shop.test/", "shop.test:443", "127.0.0.1", "localhost", "a.*.test", "", 5],
    name = "Shop",
    live = "yes",
    title = "Shop",
    name = "shop",
    live
)]
struct Shop;

#[website]
struct Nothing;

#[website(domains = "shop.test")]
struct NoList;

#[website(domains = ["a.test"])]
struct Generic<T>(T);

#[website(domains = ["a.test"])]
enum NoStruct {}

#[website(domains = ["a.test"])]
struct _1;

fn main() {}
