//! HAR 1.2, as far as a capture fills it. Names that begin with `_` are ours, as the format allows.

use serde::Serialize;

use crate::record::Flag;

#[derive(Debug, Serialize)]
pub(crate) struct Creator<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<'a> {
    pub(crate) started_date_time: String,
    pub(crate) id: String,
    pub(crate) title: &'a str,
    pub(crate) page_timings: PageTimings,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PageTimings {
    pub(crate) on_content_load: i64,
    pub(crate) on_load: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pageref: Option<String>,
    pub(crate) started_date_time: String,
    pub(crate) time: f64,
    pub(crate) request: Request,
    pub(crate) response: Response,
    pub(crate) cache: Cache,
    pub(crate) timings: Timings,
    #[serde(rename = "serverIPAddress")]
    pub(crate) server_ip_address: String,
    pub(crate) connection: String,
    #[serde(rename = "_resourceType", skip_serializing_if = "Option::is_none")]
    pub(crate) resource_type: Option<&'static str>,
    #[serde(rename = "_website")]
    pub(crate) website: String,
    #[serde(rename = "_client")]
    pub(crate) client: String,
    #[serde(rename = "_service")]
    pub(crate) service: String,
    #[serde(rename = "_step", skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
    #[serde(rename = "_interim", skip_serializing_if = "Vec::is_empty")]
    pub(crate) interim: Vec<u16>,
    #[serde(rename = "_upgrade", skip_serializing_if = "Option::is_none")]
    pub(crate) upgrade: Option<Upgrade>,
    #[serde(rename = "_flags", skip_serializing_if = "Vec::is_empty")]
    pub(crate) flags: Vec<Flag>,
}

/// Nothing is known of caches.
#[derive(Debug, Serialize)]
pub(crate) struct Cache {}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Upgrade {
    pub(crate) protocol: String,
    pub(crate) to_server_bytes: u64,
    pub(crate) to_client_bytes: u64,
    pub(crate) duration_ms: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) http_version: String,
    pub(crate) cookies: Vec<Cookie>,
    pub(crate) headers: Vec<Pair>,
    pub(crate) query_string: Vec<Pair>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) post_data: Option<PostData>,
    pub(crate) headers_size: i64,
    pub(crate) body_size: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) status_text: String,
    pub(crate) http_version: String,
    pub(crate) cookies: Vec<Cookie>,
    pub(crate) headers: Vec<Pair>,
    pub(crate) content: Content,
    #[serde(rename = "redirectURL")]
    pub(crate) redirect_url: String,
    pub(crate) headers_size: i64,
    pub(crate) body_size: i64,
    #[serde(rename = "_error", skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'static str>,
}

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cookie {
    pub(crate) name: String,
    pub(crate) value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secure: Option<bool>,
    #[serde(rename = "sameSite", skip_serializing_if = "Option::is_none")]
    pub(crate) same_site: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostData {
    pub(crate) mime_type: String,
    pub(crate) params: Vec<Pair>,
    pub(crate) text: String,
    #[serde(rename = "_encoding", skip_serializing_if = "Option::is_none")]
    pub(crate) encoding: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Content {
    pub(crate) size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compression: Option<i64>,
    pub(crate) mime_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) encoding: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Timings {
    pub(crate) blocked: i64,
    pub(crate) dns: i64,
    pub(crate) connect: i64,
    pub(crate) ssl: i64,
    pub(crate) send: f64,
    pub(crate) wait: f64,
    pub(crate) receive: f64,
}
