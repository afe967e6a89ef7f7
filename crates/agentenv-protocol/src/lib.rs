//! What every side of agent-env agrees on: ids, host names and patterns, the `website/v1` and `traffic/v1` names,
//! agent cards, the control API of a deploy, exit codes.
//!
//! This crate does no I/O, but for the HTTP client of its feature `client`. Wire types serialize; they are the only types
//! that do. Their JSON Schemas, for other languages, are in the crate's `schemas/` folder.

mod card;
#[cfg(feature = "client")]
pub mod client;
mod computer;
pub mod control;
mod exit;
mod home;
mod host;
mod ids;
#[cfg(test)]
mod schema;
mod token;
mod traffic;
mod website;

pub use card::{AgentCard, AgentExtension, AgentInterface, Capabilities, WebsiteParams};
pub use computer::{
    COMPUTER_ACTION_SCHEMA, ComputerAction, ComputerError, ComputerErrorKind, ComputerReply, Coordinate, Region,
    ScrollDirection,
};
pub use exit::ExitCode;
pub use home::{CACHE_ENV, HOME_ENV, Home};
pub use host::{HostError, HostName, HostPattern};
pub use ids::{
    ArtifactId, DeployId, Digest, IdError, Name, RunId, SECRET_VARIABLE_PREFIX, SandboxName, SecretPath, UniverseId,
};
pub use token::{AgentToken, ControlToken, SiteKey};
pub use traffic::{
    CAPTURE_FILE_MB, CAPTURE_FILE_MB_DEFAULT, CAPTURE_FILES, CAPTURE_FILES_DEFAULT, CaptureGap, CaptureId,
    CaptureState, TrafficCapture, TrafficCaptureListing, TrafficRing, TrafficService, serves_traffic,
    traffic_extension,
};
pub use website::{
    AGENT_CARD_PATH, CAPTURE_STATE_HEADER, CONTROL_TOKEN_HEADER, Cookie, DataGet, DataLoad, DataReply, ErrorBody,
    ErrorKind, LocalStorageItem, OriginState, PCAP_MEDIA_TYPE, SITE_KEY_ENV, SITE_KEY_HEADER, SameSite, SessionRequest,
    SessionState, TRAFFIC_CAPTURES_PATH, TRAFFIC_EXTENSION, Verify, WEBSITE_ALLOW_HOSTS_PARAM, WEBSITE_DOMAINS_PARAM,
    WEBSITE_EXTENSION, WEBSITE_LIVE_PARAM, WEBSITE_NAME_PARAM, WEBSITE_ROUTES_PARAM, WEBSITE_SETTINGS_ENV,
    WEBSITE_URLS_ENV, operation,
};
