//! A Chromium of a deploy: how it is launched inside its sandbox, and what the supervisor does with it over CDP.
//!
//! [`chromium`] is pure: the command, environment and `/etc` files of the sandbox. [`Browser`] is a running one: it opens
//! start tabs (BR-4), signs users in (BR-2), and refuses a browser that is not new (BR-5).
//!
//! Nothing here shows a page to the agent: what needs a page happens in *hidden* targets, which clients see as type
//! `other` and Playwright not at all.

mod control;
mod error;
mod flags;
mod fonts;
mod hidden;
mod launch;
mod origin;
mod page;
mod policy;
mod residue;
mod sign_in;
mod tabs;
mod verify;

#[cfg(test)]
mod tests;

pub use control::Browser;
pub use error::{BrowserError, PageError, SignInError};
pub use fonts::font_cache;
pub use launch::{BrowserSpec, HOME, Launch, Proxy, Viewport, chromium, find_chromium};
pub use page::load as load_page;
