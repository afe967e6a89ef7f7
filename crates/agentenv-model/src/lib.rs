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

mod card;
mod claims;
mod env;
mod multi;
mod parse;
mod plan;
mod problem;
mod reference;
mod tabs;

pub use card::compare_card;
pub use claims::{Claim, ClaimKind, Rank, check_claims, claims_of, site_table, winner};
pub use env::{
    BrowserSpec, ComputerSpec, DEFAULT_READY_TIMEOUT_S, EnvKind, EnvRecord, EnvRef, EnvRefError, EnvSpec, EnvVersion,
    FrontendSpec, Member, MultiSpec, NetworkSpec, ServiceSpec, Size, WebsiteSource, WebsiteSpec,
};
pub use multi::{MemberFile, MemberTarget, MultiFile, resolve_multi};
pub use parse::{EnvFile, FileSpec, Flags, MAX_ENV_FILE_BYTES, parse_env, parse_env_with_flags};
pub use plan::{
    Abilities, Plan, PlanInput, PlannedBrowser, PlannedService, PlannedWebsite, Program, Role, plan, resolve_settings,
};
pub use problem::{Place, Problem, Problems};
pub use reference::{EnvVariable, Reference, ReferenceError, SettingName, SettingValue};
pub use tabs::{StartTab, TabError, unclaimed_tabs};
