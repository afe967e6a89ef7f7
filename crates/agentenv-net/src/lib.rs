//! Gateway, site proxy, DNS, TLS minting and the one decision function.
//!
//! This crate knows nothing of sandboxes and makes no socket: it is handed bound listeners and a [`Dial`], and answers on
//! them. The supervisor wires it once, from top to bottom:
//!
//! ```
//! use std::{io, net::{TcpListener, UdpSocket}, sync::Arc};
//! use agentenv_net::{AddressBook, Authority, BrowserNet, BrowserSockets, DeniedLog, DenyReason, Dial, Gateway, Limits, Role,
//!     SiteTable, Sites, Upstream, Website};
//! use agentenv_protocol::{AgentToken, ControlToken, HostName, HostPattern, Name, SandboxName, SiteKey,
//!     control::SiteTableEntry};
//! use tokio::net::TcpStream;
//!
//! struct Placed; // The composing crate's: connects by the sandboxes' sockets.
//! impl Dial for Placed {
//!     fn dial<'a>(&'a self, target: &'a Upstream) -> futures_util::future::BoxFuture<'a, io::Result<TcpStream>> {
//!         Box::pin(async move { Err(io::Error::other(format!("{target} is not there"))) })
//!     }
//! }
//! struct Log; // And its denied log.
//! impl DeniedLog for Log {
//!     fn denied(&self, _sandbox: &SandboxName, _host: &str, _port: u16, _reason: &DenyReason) {}
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (shop, browser, host) = (Name::parse("shop")?, Name::parse("browser")?, HostName::parse("shop.test")?);
//! // 1. The names of the deploy, their addresses, and who certifies them.
//! let table = Arc::new(SiteTable::new([
//!     SiteTableEntry { pattern: HostPattern::Exact(host.clone()), website: shop.clone() },
//! ]));
//! let book = Arc::new(AddressBook::new(&table));
//! let authority = Arc::new(Authority::new()?);
//! let _for_the_trust_stores = authority.ca_pem();
//! // 2. The websites as upstreams: one object for the gateway and all browsers.
//! let sites = Sites::new(Arc::new(Placed), Limits::default(), [
//!     Website { name: shop.clone(), pages: Some(Role::Server), host: Some(host.clone()) },
//! ]);
//! // 3. The network of each browser, over the sockets placed in its sandbox.
//! let net = BrowserNet {
//!     sandbox: SandboxName::of_browser(&browser), table: table.clone(), book, authority, sites: sites.clone(),
//!     denied: Arc::new(Log), real: None,
//! };
//! let served = net.spawn(BrowserSockets {
//!     dns_udp: Some(UdpSocket::bind("127.0.0.1:0")?),
//!     forward_port: Some(TcpListener::bind("127.0.0.1:0")?),
//!     ..BrowserSockets::default()
//! })?;
//! // 4. The gateway, on the host.
//! let gateway = Gateway::builder(ControlToken::random(), AgentToken::random(), sites.clone(), table)
//!     .service(shop.clone(), SiteKey::random())
//!     .website(shop.clone(), host)
//!     .browser(browser.clone())
//!     .spawn(TcpListener::bind("127.0.0.1:0")?)?;
//! assert!(gateway.browse_url(&shop).is_some() && gateway.cdp_url(&browser).starts_with(&gateway.url()));
//! // A reset (RUN-7): close CDP connections and hold new ones, stop the browser, cut the sites' connections, reset data ...
//! let hold = gateway.cdp().close_all(&browser, 1012, "reset").await;
//! sites.cut_all();
//! drop(hold); // ... and let clients in again, when the browser is there.
//! // The end: every listener hears it, and has `Limits::grace`.
//! gateway.shutdown().await;
//! served.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! # The life of a request
//!
//! A browser asks the name server for `shop.test` and gets an address of its own ([`AddressBook`]), or it sends the forward
//! port a CONNECT. Either way [`decide`] says whose the name is. TLS is ended here with a leaf for exactly that name
//! ([`Authority`]); the handshake must name it and every request must be for it. The request goes, in this process, to the
//! site's pages over a pooled connection ([`Sites`]).
//!
//! # What holds
//!
//! - One function decides. DNS, TLS, plain HTTP and the forward port only ask it. What is [`Verdict::Direct`] is dialled by
//!   [`RealNetwork`], by a name's own public addresses, and denied where a network has none.
//! - An agent's request never carries a site's key; the control token is never passed on; no redirect is followed.
//! - HTTP/1 that could be framed two ways is refused before it is parsed, and what is passed on is written anew.
//! - Every wait and every buffer has a limit: `limits.rs` names them, [`Limits`] holds the ones that may be shortened.
//! - An error has one place where it becomes a status, and says whose fault it is: the client's, the site's, the gateway's.

mod addresses;
mod authority;
mod body;
mod browser_net;
mod captures;
mod cdp;
mod decide;
mod dns;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod gateway;
mod guard;
mod headers;
mod hop;
mod interim;
mod life;
mod limits;
mod oneshot;
mod real;
mod relay;
mod serve;
mod site_client;
mod sites;
mod stall;
mod upstream;
mod write_through;

pub use addresses::AddressBook;
pub use authority::{Authority, AuthorityError};
pub use browser_net::{BrowserNet, BrowserNetHandle, BrowserSockets};
pub use captures::{CaptureBytes, CaptureMissing, Captures};
pub use cdp::{CdpGate, Hold};
pub use decide::{DeniedLog, DenyReason, SiteTable, Verdict, decide};
pub use gateway::{Computer, Gateway, GatewayBuilder};
pub use limits::Limits;
pub use real::{HostNetwork, HostNetworkError, RealNetwork, UpstreamProxy, UpstreamProxyError};
pub use site_client::{SiteClient, SiteError};
pub use sites::{Sites, Website};
pub use upstream::{Dial, Role, Upstream};
