//! Envs as pure data: env.toml, references, name claims, and the plan of a deploy. Reads no file, opens no socket.
//!
//! [`parse_env`] turns the text of an env.toml into an [`EnvFile`], or into every problem of it at once. What is stored
//! of it is an [`EnvRecord`]. [`plan`] turns stored records into a [`Plan`], which a provider makes real.
//!
//! ```
//! use agentenv_model::parse_env;
//!
//! let text = r#"
//!     format = 1
//!     kind = "website"
//!     name = "shop"
//!     domains = ["shop.test"]
//!
//!     [server]
//!     command = ["./bin/shop"]
//!     port = 70000
//! "#;
//! let problems = parse_env("env.toml", text).unwrap_err();
//! assert_eq!(
//!     problems.to_string(),
//!     "env.toml:9:12: `server.port` is 70000; accepted: an integer from 1 to 65535",
//! );
//! ```
//!
//! # Keys of env.toml
//!
//! `format = 1`, `kind` and `name` in all of them; then by kind:
//!
//! | kind | keys |
//! |---|---|
//! | `website` | `domains`, `live`, `allow_hosts`, `secret_settings`, `ready_timeout_s` (60), `[settings]`; `[server]` with `command`, `port`, `build`; `[frontend]` with the same, or with `static` and `build`; `[services.NAME]` with `command`, `port`, `build`; or `image` in place of the last three |
//! | `browser` | `start_tabs`, `network` (`"sites"`, `"open"`, or an array of host patterns), `viewport = { width, height }` |
//! | `computer` | `start_tabs`, `network`, `resolution = { width, height }`, `route_sites` (true), `secret_settings`, `[settings]` |
//! | `multi` | `websites`, `computers`, `browsers`: arrays of members |
//!
//! `command` and `build` are arrays of a program and its arguments. A setting is a string, a number, a boolean, or a
//! reference: `"env:NAME"`, `"env:NAME?default=…"`, `"secret:PATH"`. A member is the name of a stored env, or a table with
//! that name as `env`, or with a `path` to a bundle or env file in the same folder, which `put` stores first; `alias` is
//! its name in the deploy.

mod card;
mod claims;
mod env;
mod multi;
mod parse;
mod plan;
mod problem;
mod reference;
mod source;
mod tabs;
mod values;

pub use card::compare_card;
pub use claims::{
    Claim, ClaimKind, LiveHosts, Reach, check_claims, claims_of, live_hosts, reach, site_reach, site_table,
    website_names, winner, winner_of,
};
pub use env::{
    BrowserSpec, ComputerSpec, DEFAULT_READY_TIMEOUT_S, EnvKind, EnvRecord, EnvRef, EnvRefError, EnvSpec, EnvVersion,
    FrontendSpec, Member, MultiSpec, NetworkSpec, ServiceSpec, Size, WebsiteSource, WebsiteSpec,
};
pub use multi::{MemberFile, MemberTarget, MultiFile, resolve_multi};
pub use parse::{EnvFile, FileSpec, Flags, MAX_ENV_FILE_BYTES, parse_env, parse_env_of_source, parse_env_with_flags};
pub use plan::{
    Abilities, CaptureOptions, ComputerSettings, Plan, PlanInput, PlannedBrowser, PlannedComputer, PlannedService,
    PlannedWebsite, Program, Role, computer_settings, hidden_values, plan, resolve_settings,
};
pub use problem::{Place, Problem, Problems};
pub use reference::{EnvVariable, Reference, ReferenceError, SettingName, SettingValue};
pub use source::{
    Declaration, Declared, DeclaredSetting, DeclaredSettings, MAX_SOURCE_BYTES, MAX_SOURCE_FILE_BYTES,
    MAX_SOURCE_FILES, READ_STACK_BYTES, RustManifest, RustPackage, SourceFile, is_source, read_rust, server_folder,
};
pub use tabs::{StartTab, TabError, unclaimed_tabs};
pub use values::Values;
