//! Who is signed in: the cookie that the SDK signs, its generation, sign-in links (PR-3).

use std::{
    convert::Infallible,
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use agentenv_protocol::{Cookie, HostPattern, SameSite, SessionState, SiteKey, Verify, operation};
use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, IntoResponseParts, Response, ResponseParts},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};

use crate::{
    Error, Result, SignIn,
    sign::{Claim, Purpose, Signer},
};

/// How long a sign-in link can be used: long enough for a browser that is being started, too short to be kept.
const LINK_LIFETIME: Duration = Duration::from_secs(60);
/// The longest cookie that is looked at: a user's name, in hexadecimal, and a signature fit many times over.
const MAX_TOKEN_LEN: usize = 4096;
/// The SDK's own folder in the data directory.
pub(crate) const OWN_FOLDER: &str = ".agentenv";

/// The sign-in state of one site: made once, shared by all its pages.
#[derive(Clone)]
pub(crate) struct Sessions(Arc<Inner>);

struct Inner {
    cookie: String,
    domains: Vec<HostPattern>,
    signer: Signer,
    /// Raised by `data/reset`; what was signed in an older one is refused.
    generation: AtomicU64,
    file: PathBuf,
}

impl Sessions {
    pub(crate) fn open(name: &str, domains: Vec<HostPattern>, key: Option<&SiteKey>, data_dir: &Path) -> Result<Self> {
        let file = data_dir.join(OWN_FOLDER).join("generation");
        let generation = match fs::read_to_string(&file) {
            Ok(text) => text.trim().parse().map_err(|_| {
                Error::internal(format!("{} does not hold a generation", file.display()))
                    .hint("leave the folder `.agentenv` in the data directory alone")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
        let inner = Inner {
            cookie: format!("{name}_session"),
            domains,
            signer: Signer::new(key, name),
            generation: AtomicU64::new(generation),
            file,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Ends every session there is.
    pub(crate) fn raise_generation(&self) -> Result<()> {
        let raised = self.generation() + 1;
        self.write_generation(raised)?;
        self.0.generation.store(raised, Ordering::Release);
        Ok(())
    }

    /// Writes the generation again, for a site whose reset emptied the data directory.
    pub(crate) fn keep_generation(&self) -> Result<()> {
        if self.0.file.exists() { Ok(()) } else { self.write_generation(self.generation()) }
    }

    fn write_generation(&self, generation: u64) -> Result<()> {
        let folder = self.0.file.parent().ok_or_else(|| Error::internal("the generation's file has no folder"))?;
        fs::create_dir_all(folder)?;
        let part = self.0.file.with_extension("part");
        fs::write(&part, generation.to_string())?;
        fs::rename(&part, &self.0.file)?;
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    fn sign(&self, purpose: Purpose, user: &str, path: &str, expires: Option<u64>) -> String {
        let claim = Claim { user: user.to_owned(), path: path.to_owned(), generation: self.generation(), expires };
        self.0.signer.sign(purpose, &claim)
    }

    fn verify(&self, purpose: Purpose, text: &str, now: SystemTime) -> Option<Claim> {
        if text.len() > MAX_TOKEN_LEN {
            return None;
        }
        let claim = self.0.signer.verify(purpose, text)?;
        let current = claim.generation == self.generation();
        (current && claim.expires.is_none_or(|end| seconds(now) < end)).then_some(claim)
    }

    /// The user of a request's cookies.
    fn user(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.0.cookie)
            .find_map(|(_, value)| self.verify(Purpose::Cookie, value, SystemTime::now()))
            .map(|claim| claim.user)
    }

    /// The domains that the cookie is set for: each exact name for itself; wildcards only where there is nothing else, for
    /// a name below one may be another site's.
    fn cookie_domains(&self) -> Vec<String> {
        let exact: Vec<String> = self
            .0
            .domains
            .iter()
            .filter_map(|pattern| match pattern {
                HostPattern::Exact(name) => Some(name.to_string()),
                HostPattern::Below(_) => None,
            })
            .collect();
        if !exact.is_empty() {
            return exact;
        }
        self.0.domains.iter().map(|pattern| pattern.to_string().replacen('*', "", 1)).collect()
    }

    /// The answer of `session`.
    pub(crate) fn state(&self, sign_in: &SignIn) -> SessionState {
        let value = self.sign(Purpose::Cookie, &sign_in.user, "", None);
        let cookies = self.cookie_domains().into_iter().map(|domain| Cookie {
            name: self.0.cookie.clone(),
            value: value.clone(),
            domain,
            path: "/".to_owned(),
            expires: -1.0,
            http_only: true,
            // One sign-in holds for https and for http: the site answers on both (NET-1), and the wire is the deploy's own.
            secure: false,
            same_site: SameSite::Lax,
        });
        let verify = sign_in
            .verify
            .as_ref()
            .map(|(path, text)| Verify { url: format!("{}{path}", self.origin()), contains: text.clone() });
        SessionState { cookies: cookies.collect(), origins: Vec::new(), verify }
    }

    /// The site's first name as an origin.
    pub(crate) fn origin(&self) -> String {
        let first = self.0.domains.iter().find(|pattern| matches!(pattern, HostPattern::Exact(_)));
        let name = first.or(self.0.domains.first()).map(|pattern| pattern.to_string().replacen('*', "www", 1));
        format!("https://{}", name.unwrap_or_default())
    }

    /// Follows a sign-in link: the user's cookie and where the link leads.
    pub(crate) fn follow(&self, link: &str) -> Option<(SetCookie, String)> {
        let claim = self.verify(Purpose::Link, link, SystemTime::now())?;
        Some((self.sign_in_cookie(&claim.user), claim.path))
    }

    fn sign_in_cookie(&self, user: &str) -> SetCookie {
        self.set_cookie(&self.sign(Purpose::Cookie, user, "", None), "")
    }

    fn set_cookie(&self, value: &str, more: &str) -> SetCookie {
        // A site with wildcards alone has one sign-in for all of its names.
        let domain = match self.0.domains.first() {
            Some(HostPattern::Below(suffix)) if self.cookie_domains().iter().all(|domain| domain.starts_with('.')) => {
                format!("; Domain={suffix}")
            }
            _ => String::new(),
        };
        SetCookie(format!("{}={value}; Path=/{domain}; HttpOnly; SameSite=Lax{more}", self.0.cookie))
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A `Set-Cookie` header; part of a page's answer: `(session.sign_in("ada"), Redirect::to("/"))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCookie(String);

impl SetCookie {
    /// The header's value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl IntoResponseParts for SetCookie {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        // Made of hexadecimal, a site's name and a host name: always a header's value.
        if let Ok(value) = HeaderValue::try_from(self.0) {
            parts.headers_mut().append(header::SET_COOKIE, value);
        }
        Ok(parts)
    }
}

impl IntoResponse for SetCookie {
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}

/// The session of a page's request, signed in or not; an extractor.
#[derive(Clone)]
pub struct Session {
    sessions: Sessions,
    user: Option<String>,
}

impl Session {
    /// Who is signed in.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Signs this user in, from this answer on.
    pub fn sign_in(&self, user: &str) -> SetCookie {
        self.sessions.sign_in_cookie(user)
    }

    /// Signs out, from this answer on.
    pub fn sign_out(&self) -> SetCookie {
        self.sessions.set_cookie("", "; Max-Age=0")
    }

    /// Makes a link that signs a browser in as this user within a minute and leads to `path` of this site.
    ///
    /// # Errors
    /// `path` is not a path of this site: it doesn't start with one `/`.
    pub fn sign_in_link(&self, user: &str, path: &str) -> Result<String> {
        if !is_own_path(path) {
            return Err(Error::internal(format!("a sign-in link leads to a path of the site, not to `{path}`")));
        }
        let expires = seconds(SystemTime::now() + LINK_LIFETIME);
        Ok(format!("{}?link={}", operation::SESSION, self.sessions.sign(Purpose::Link, user, path, Some(expires))))
    }
}

/// Whether browsers take it as a path of the same site: `//x` and `/\x` are other hosts to them.
fn is_own_path(path: &str) -> bool {
    path.starts_with('/')
        && !path[1..].starts_with(['/', '\\'])
        && path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}

impl<S: Send + Sync> FromRequestParts<S> for Session {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self> {
        let sessions = parts.extensions.get::<Sessions>().cloned().ok_or_else(|| {
            Error::internal("this router is not served by `agentenv_sdk::serve`, so it has no sessions")
        })?;
        Ok(Self { user: sessions.user(&parts.headers), sessions })
    }
}

/// The user who is signed in; an extractor. As `Option<SignedIn>` it takes every request, alone it answers 401 to who is
/// signed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIn(pub String);

impl<S: Send + Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let session = Session::from_request_parts(parts, state).await.map_err(IntoResponse::into_response)?;
        session.user.map(Self).ok_or_else(|| (StatusCode::UNAUTHORIZED, "Sign in first.\n").into_response())
    }
}

impl<S: Send + Sync> OptionalFromRequestParts<S> for SignedIn {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Option<Self>> {
        Ok(Session::from_request_parts(parts, state).await?.user.map(Self))
    }
}

#[cfg(test)]
mod tests;
