//! What `derive(Settings)` refuses.
use agentenv_sdk::{SecretString, Settings};

#[derive(Settings)]
struct Secrets {
    #[setting(default = "hunter2")]
    password: SecretString,
    #[setting(default)]
    token: Option<SecretString>,
    #[setting(rename = "x")]
    title: String,
}

#[derive(Settings)]
struct Unnamed(String);

#[derive(Settings)]
enum NoStruct {
    A,
}

fn main() {}
