//! A thin client of the Chrome DevTools Protocol: flat sessions over one WebSocket, tolerant of fields it doesn't know.
//!
//! The caller supplies the connections, since the browser listens where only a placed socket reaches it:
//!
//! ```ignore
//! let cdp = Cdp::connect(|| sandbox.dial(9222), 9222, Duration::from_secs(20)).await?;
//! let mut events = cdp.events();
//! let page = cdp.attach(&target).await?;
//! page.call("Page.enable", json!({})).await?;
//! page.call("Page.navigate", json!({ "url": "https://shop.test/" })).await?;
//! while !events.next().await?.is(&page, "Page.loadEventFired") {}
//! ```

mod connect;
mod error;
mod events;
mod link;
mod session;

#[cfg(test)]
mod tests;

pub use error::CdpError;
pub use events::{Event, Events};
pub use session::{Cdp, Session};
