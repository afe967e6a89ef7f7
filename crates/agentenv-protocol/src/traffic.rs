//! The `traffic/v1` API of a gateway (PR-4): what was captured, ring by ring and file by file.
//!
//! | method and path | answer |
//! |---|---|
//! | GET [`TRAFFIC_CAPTURES_PATH`](crate::TRAFFIC_CAPTURES_PATH) | [`TrafficCaptureListing`] |
//! | GET the same and `/ID` | the file, as [`PCAP_MEDIA_TYPE`](crate::PCAP_MEDIA_TYPE) |
//!
//! Both need the control token. A file may be asked for in parts (`Range`, `If-Range`). One that was rotated away answers 410.

use std::{fmt, net::Ipv4Addr, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use crate::{AgentCard, AgentExtension, IdError, Name, TRAFFIC_EXTENSION, ids::text_forms};

/// How many files a ring may have: of one alone nothing would be left at each rotation.
pub const CAPTURE_FILES: RangeInclusive<u32> = 2..=1000;
/// How many files a ring has where nobody says (CAP-3).
pub const CAPTURE_FILES_DEFAULT: u32 = 10;
/// How long a file of a ring may get, in MB of 10^6 bytes: what readers of pcap files still open at once.
pub const CAPTURE_FILE_MB: RangeInclusive<u32> = 1..=1000;
/// How long a file gets where nobody says, in MB of 10^6 bytes (CAP-3).
pub const CAPTURE_FILE_MB_DEFAULT: u32 = 20;

/// The id of a capture file within its deploy: `shop.12.pcap` is generation 12 of the ring of website `shop`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaptureId {
    /// The website whose ring it is of.
    pub website: Name,
    /// Its place in the ring's order, from 1; never used twice.
    pub generation: u64,
}

impl CaptureId {
    /// Parses the one spelling that an id has.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let parsed = || {
            let (website, generation) = text.strip_suffix(".pcap")?.split_once('.')?;
            let id = Self { website: Name::parse(website).ok()?, generation: generation.parse().ok()? };
            (id.generation > 0 && id.to_string() == text).then_some(id)
        };
        parsed()
            .ok_or_else(|| IdError::new(text, "a capture id", "a website's name, a number and `pcap`, joined by `.`"))
    }
}

impl fmt::Display for CaptureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.pcap", self.website, self.generation)
    }
}

text_forms!(CaptureId, IdError);

/// Everything that a deploy has captured and still has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrafficCaptureListing {
    /// The files, oldest first within each ring.
    pub captures: Vec<TrafficCapture>,
    /// The rings, one for each network namespace that holds website services.
    pub rings: Vec<TrafficRing>,
}

/// One file of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrafficCapture {
    /// Id.
    pub id: CaptureId,
    /// The website whose packets it holds.
    pub website: Name,
    /// The website's services.
    pub services: Vec<Name>,
    /// Its place in the ring's order.
    pub generation: u64,
    /// Bytes of whole records, the file's header included.
    pub bytes: u64,
    /// Packets in them.
    pub packets: u64,
    /// When the first was captured: RFC 3339, UTC, microseconds.
    pub first_packet: Option<String>,
    /// When the last was captured.
    pub last_packet: Option<String>,
    /// Whether it can still grow.
    pub state: CaptureState,
    /// Packets that the kernel dropped while this file was the current one.
    pub dropped: u64,
}

/// Whether a capture file is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaptureState {
    /// Nothing will be added.
    Complete,
    /// It is the current file of a running capture.
    Growing,
    /// It ends in something that is no whole record, or holds nothing readable; `bytes` counts what is good.
    Damaged,
}

impl CaptureState {
    /// The word for it, in JSON and in headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Growing => "growing",
            Self::Damaged => "damaged",
        }
    }
}

/// One ring: the captured packets of one website's network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrafficRing {
    /// The website.
    pub website: Name,
    /// Who speaks in it.
    pub services: Vec<TrafficService>,
    /// The address that the gateway and browsers' requests come from.
    pub gateway_address: Ipv4Addr,
    /// Whether packets are being recorded.
    pub recording: bool,
    /// How many files are kept.
    pub files: u32,
    /// How long each of them gets, in bytes; one packet more at most.
    pub file_bytes: u64,
    /// Packets that the kernel dropped since the deploy.
    pub dropped: u64,
    /// The times in which nothing was recorded.
    pub gaps: Vec<CaptureGap>,
}

/// One service of a website, as packets show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrafficService {
    /// `server`, `frontend`, or its own name.
    pub name: Name,
    /// Where it listens.
    pub port: u16,
    /// First and last of the ports that its own connections come from; absent where the kernel can't give it some of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ports: Option<(u16, u16)>,
}

/// A time in which a ring recorded nothing (CAP-4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaptureGap {
    /// When the last capture was seen alive: RFC 3339, UTC, microseconds.
    pub from: String,
    /// When the next one ran; absent while none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Why.
    pub reason: String,
    /// The first file after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_generation: Option<u64>,
}

/// Whether the agent of a card gives its captured traffic.
pub fn serves_traffic(card: &AgentCard) -> bool {
    card.capabilities.extensions.iter().any(|extension| extension.uri == TRAFFIC_EXTENSION)
}

/// The extension on the card of a gateway whose deploy captures.
pub fn traffic_extension() -> AgentExtension {
    AgentExtension {
        uri: TRAFFIC_EXTENSION.to_owned(),
        description: "The captured packets of the websites, as pcap files".to_owned(),
        required: false,
        params: serde_json::Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_54_an_id_has_one_spelling() {
        assert_eq!(CaptureId::parse("shop.12.pcap").unwrap().generation, 12);
        let long = format!("{}.1.pcap", "a".repeat(4096));
        for bad in [
            "",
            "shop",
            "shop.pcap",
            "shop..pcap",
            "shop.0.pcap",
            "shop.01.pcap",
            "shop.+1.pcap",
            "shop.1.pcap.part",
            "shop.1.PCAP",
            "../shop.1.pcap",
            "/shop.1.pcap",
            "shop.1.pcap\0",
            "shop%2f.1.pcap",
            "a/b.1.pcap",
            "shop.99999999999999999999.pcap",
            &long,
        ] {
            assert!(CaptureId::parse(bad).is_err(), "{bad}");
        }
    }
}
