//! One answer for one address: connect, ask, follow redirects, read.
//!
//! The hub answers a file's address with the file, or with a redirect to where it lies; the headers that say what it is (its
//! ETag, its size) are the hub's own and come with the answer that leads away. The token goes to the hub's own scheme, host
//! and port alone, whatever a redirect says.

use std::io;
use std::time::Duration;

use aiperf_core::url::{BaseUrl, Scheme};
use aiperf_net::{NetError, ServerAddress, dial, verifying_tls_config};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HOST, LOCATION, RANGE, USER_AGENT,
};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::draft::Draft;
use crate::error::HubError;
use crate::settings::Settings;

const AGENT: &str = concat!("aiperf/", env!("CARGO_PKG_VERSION"));
/// Longest wait for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(15);
/// Longest wait for an answer's head, and for its next bytes.
const SILENCE: Duration = Duration::from_secs(30);
/// The ETag of what lies in the large-file store.
const LINKED_ETAG: &str = "x-linked-etag";
/// Redirects that are followed.
const HOPS: usize = 8;
/// Bytes of an error's page that are read for its words.
const ERROR_PAGE: usize = 64 << 10;

/// What can go wrong with one attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the answer of {authority} broke off after {received} bytes{}", of(*total))]
    Broken { authority: String, received: u64, total: Option<u64> },
    #[error("cannot connect to {authority}: {source}")]
    Connect { authority: String, source: io::Error },
    #[error("what came is not what was announced: {0}")]
    Damaged(String),
    /// Not the server's fault.
    #[error(transparent)]
    Disk(Box<HubError>),
    #[error("no answer from {authority}: {source}")]
    Http { authority: String, source: hyper::Error },
    #[error("{authority} was silent for {} s", after.as_secs())]
    Late { authority: String, after: Duration },
    #[error(transparent)]
    Net(#[from] NetError),
    /// A part of it is here; the rest is to be asked for.
    #[error("a part of it is here")]
    Partly,
    #[error("it redirects to '{location}', which is not followed")]
    Redirect { location: String },
    #[error("no TLS session with {authority}: {source}")]
    Tls { authority: String, source: io::Error },
    #[error("the answer is larger than {cap} bytes")]
    TooLarge { cap: usize },
    #[error("it redirects more than {HOPS} times")]
    TooManyRedirects,
    #[error("its address cannot stand in a request: {0}")]
    Unaskable(#[from] http::Error),
}

impl Trouble {
    /// The next attempt may go better.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Broken { .. } | Self::Connect { .. } | Self::Damaged(_) | Self::Late { .. } => true,
            Self::Http { source, .. } => !source.is_parse(),
            // A certificate stays what it is; a peer that hung up may not.
            Self::Tls { source, .. } => source.get_ref().is_none_or(|e| !e.is::<rustls::Error>()),
            Self::Disk(_)
            | Self::Net(_)
            | Self::Partly
            | Self::Redirect { .. }
            | Self::TooLarge { .. }
            | Self::TooManyRedirects
            | Self::Unaskable(_) => false,
        }
    }
}

impl From<HubError> for Trouble {
    fn from(error: HubError) -> Self {
        Self::Disk(Box::new(error))
    }
}

/// What the hub says of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The ETag, unquoted.
    pub(crate) etag: Option<String>,
    /// The file lies in a large-file store, where a name of 64 hexadecimal digits is the SHA-256 of what it names.
    is_linked: bool,
    size: Option<u64>,
}

impl Facts {
    fn of(headers: &HeaderMap) -> Self {
        let linked = text(headers, LINKED_ETAG);
        let is_linked = linked.is_some();
        let etag = linked.or_else(|| text(headers, ETAG.as_str()));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_owned());
        Self { etag, is_linked, size: text(headers, "x-linked-size").and_then(|size| size.parse().ok()) }
    }

    /// Of a file whose name is the hash of what it holds, that hash.
    pub(crate) fn sha256(&self) -> Option<&str> {
        let is_hash =
            |etag: &&str| self.is_linked && etag.len() == 64 && etag.bytes().all(|b| b.is_ascii_hexdigit());
        self.etag.as_deref().filter(is_hash)
    }

    /// Whether `body` is what was announced.
    fn check(&self, body: &[u8]) -> Result<(), Trouble> {
        if let Some(size) = self.size.filter(|size| *size != body.len() as u64) {
            return Err(Trouble::Damaged(format!("{} bytes in place of {size}", body.len())));
        }
        let Some(announced) = self.sha256() else { return Ok(()) };
        let found = format!("{:x}", Sha256::digest(body));
        if found.eq_ignore_ascii_case(announced) {
            Ok(())
        } else {
            Err(Trouble::Damaged(format!("its SHA-256 is {found} in place of {announced}")))
        }
    }

    /// Of a file of the large-file store.
    #[cfg(test)]
    pub(crate) fn linked(sha256: &str, size: u64) -> Self {
        Self { etag: Some(sha256.to_owned()), is_linked: true, size: Some(size) }
    }
}

/// An answer, after redirects.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) facts: Facts,
    /// `None` when it was not wanted.
    pub(crate) body: Option<Vec<u8>>,
}

impl Answer {
    /// What the hub says went wrong.
    pub(crate) fn said(&self) -> Option<String> {
        let page = self.body.as_deref().unwrap_or_default();
        let in_page =
            || Some(serde_json::from_slice::<serde_json::Value>(page).ok()?["error"].as_str()?.to_owned());
        let said = text(&self.headers, "x-error-message").or_else(in_page)?;
        Some(aiperf_core::text::for_terminal(&said, 300))
    }

    /// The hub's own word for what went wrong.
    pub(crate) fn code(&self) -> Option<String> {
        text(&self.headers, "x-error-code")
    }
}

/// How an answer is read.
pub(crate) struct Reading<'a> {
    /// Most bytes of a good one.
    pub(crate) cap: usize,
    /// Whether the file is wanted, once its facts are known.
    pub(crate) wants: &'a dyn Fn(&Facts) -> bool,
    /// Told of bytes so far, and of how many there will be.
    pub(crate) progress: &'a mut dyn FnMut(u64, Option<u64>),
    /// Where a good one goes in place of memory.
    pub(crate) sink: Option<Sink<'a>>,
}

/// A file that an answer is written into while it comes.
pub(crate) struct Sink<'a> {
    /// Opens the draft of what is told of; `None` when the file is there.
    pub(crate) open: &'a mut dyn FnMut(&Facts) -> Result<Option<Draft>, HubError>,
    /// What has come so far; gone when the file is whole.
    pub(crate) draft: &'a mut Option<Draft>,
}

/// Asks.
pub(crate) struct Http {
    settings: Settings,
    tls: Option<TlsConnector>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Http {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, tls: None }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Gets `url`. An answer of any status is `Ok`; a good one is whole and what its headers announce.
    pub(crate) async fn get(&mut self, url: &BaseUrl, reading: &mut Reading<'_>) -> Result<Answer, Trouble> {
        let mut url = url.clone();
        let mut facts = Facts::default();
        let draft = reading.sink.as_ref().and_then(|sink| sink.draft.as_ref());
        let from = draft.filter(|draft| draft.goes_on()).map_or(0, Draft::len);
        for _ in 0..=HOPS {
            let response = self.ask(&url, from).await?;
            let location = text(response.headers(), LOCATION.as_str());
            let next = match location.filter(|_| response.status().is_redirection()) {
                Some(location) => Some(follow(&url, &location).ok_or(Trouble::Redirect { location })?),
                None => None,
            };
            // Within one host a redirect is about names, unless it says what large file it leads to; what leads away, or is the
            // end, knows the file.
            let is_known = response.headers().contains_key(LINKED_ETAG)
                || next.as_ref().is_none_or(|next| !is_same_origin(next, &url));
            if facts.etag.is_none() && is_known {
                facts = Facts::of(response.headers());
            }
            match next {
                Some(next) => url = next,
                None => return read(&url.authority(), response, facts, from, reading).await,
            }
        }
        Err(Trouble::TooManyRedirects)
    }

    /// Asks for what is at `url`, without the `from` bytes that have come already.
    async fn ask(&mut self, url: &BaseUrl, from: u64) -> Result<Response<Incoming>, Trouble> {
        let authority = url.authority();
        let stream = timeout(CONNECT, self.connect(url))
            .await
            .unwrap_or_else(|_| Err(Trouble::Late { authority: authority.clone(), after: CONNECT }))?;
        let path = if url.path.is_empty() { "/" } else { &url.path };
        let target = url.query.as_ref().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
        // Compressed bytes would not be the ones that the size and the hash are of.
        let mut request = Request::get(target)
            .header(HOST, &authority)
            .header(USER_AGENT, AGENT)
            .header(ACCEPT_ENCODING, "identity");
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(token) = &self.settings.authorization
            && is_same_origin(url, &self.settings.endpoint)
        {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let failed = |source| Trouble::Http { authority: authority.clone(), source };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // It ends with the answer; what goes wrong on it is the answer's error.
        tokio::spawn(connection);
        match timeout(SILENCE, sender.send_request(request)).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(Trouble::Late { authority, after: SILENCE }),
        }
    }

    async fn connect(&mut self, url: &BaseUrl) -> Result<Box<dyn Stream>, Trouble> {
        let server = ServerAddress::new(url)?;
        let authority = url.authority();
        let tcp = dial(&server)
            .await
            .map_err(|source| Trouble::Connect { authority: authority.clone(), source })?;
        if !server.tls {
            return Ok(Box::new(tcp));
        }
        let tls = match &self.tls {
            Some(tls) => tls,
            None => self.tls.insert(TlsConnector::from(verifying_tls_config()?)),
        };
        let name = ServerName::try_from(server.host.clone())
            .map_err(|_| NetError::HostName { host: server.host.clone() })?;
        let stream = tls.connect(name, tcp).await.map_err(|source| Trouble::Tls { authority, source })?;
        Ok(Box::new(stream))
    }
}

async fn read(
    authority: &str,
    response: Response<Incoming>,
    facts: Facts,
    from: u64,
    reading: &mut Reading<'_>,
) -> Result<Answer, Trouble> {
    if response.status().is_success()
        && let Some(sink) = &mut reading.sink
    {
        return pour(authority, response, facts, from, sink, reading.progress).await;
    }
    let (head, mut incoming) = response.into_parts();
    let is_good = head.status.is_success();
    if is_good && !(reading.wants)(&facts) {
        return Ok(Answer { status: head.status, headers: head.headers, facts, body: None });
    }
    let total = text(&head.headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    let mut body: Vec<u8> = Vec::new();
    loop {
        let frame = match timeout(SILENCE, incoming.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            // An error's status says more than how its page ended.
            _ if !is_good => break,
            Ok(Some(Err(_))) => {
                let received = body.len() as u64;
                return Err(Trouble::Broken { authority: authority.to_owned(), received, total });
            }
            Err(_) => return Err(Trouble::Late { authority: authority.to_owned(), after: SILENCE }),
        };
        let Ok(data) = frame.into_data() else { continue };
        let cap = if is_good { reading.cap } else { ERROR_PAGE };
        if body.len() + data.len() > cap {
            if is_good {
                return Err(Trouble::TooLarge { cap });
            }
            break;
        }
        body.extend_from_slice(&data);
        (reading.progress)(body.len() as u64, total);
    }
    if is_good {
        facts.check(&body)?;
    }
    Ok(Answer { status: head.status, headers: head.headers, facts, body: Some(body) })
}

/// Writes a good answer into its file, as what comes behind its first `from` bytes where those were not asked for.
async fn pour(
    authority: &str,
    response: Response<Incoming>,
    facts: Facts,
    from: u64,
    sink: &mut Sink<'_>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Answer, Trouble> {
    let (head, mut incoming) = response.into_parts();
    let answer = |facts| Answer { status: head.status, headers: head.headers.clone(), facts, body: None };
    let mut draft = match sink.draft.take().filter(|draft| draft.is_of(&facts)) {
        Some(draft) => draft,
        None => match (sink.open)(&facts)? {
            Some(draft) => draft,
            None => return Ok(answer(facts)),
        },
    };
    let length: Option<u64> =
        text(&head.headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    let range = text(&head.headers, CONTENT_RANGE.as_str());
    let is_part = head.status == StatusCode::PARTIAL_CONTENT;
    let whole = || range.as_deref()?.rsplit('/').next()?.trim().parse().ok();
    let total = facts.size.or_else(|| if is_part { whole() } else { length });
    if is_part {
        let begins = range
            .as_deref()
            .and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.trim().parse::<u64>().ok());
        if begins != Some(draft.len()) {
            let range = aiperf_core::text::for_terminal(&range.unwrap_or_default(), 60);
            let problem = format!("'{range}' in place of what is behind byte {}", draft.len());
            draft.begin_anew()?;
            return Err(Trouble::Damaged(problem));
        }
    } else if draft.len() > 0 {
        let is_whole = total == Some(draft.len());
        if is_whole && from == 0 {
            draft.finish(&facts, total)?;
            return Ok(answer(facts));
        }
        if from == 0 && total.is_none_or(|total| total > draft.len()) {
            *sink.draft = Some(draft);
            return Err(Trouble::Partly);
        }
        // It gives no parts.
        draft.begin_anew()?;
    }
    let draft = sink.draft.insert(draft);
    loop {
        let frame = match timeout(SILENCE, incoming.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => {
                let received = draft.len();
                return Err(Trouble::Broken { authority: authority.to_owned(), received, total });
            }
            Err(_) => return Err(Trouble::Late { authority: authority.to_owned(), after: SILENCE }),
        };
        let Ok(data) = frame.into_data() else { continue };
        draft.add(&data)?;
        progress(draft.len(), total);
    }
    match sink.draft.take() {
        Some(draft) => draft.finish(&facts, total).map(|()| answer(facts)),
        None => Ok(answer(facts)),
    }
}

/// The text of a header.
fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

fn of(total: Option<u64>) -> String {
    total.map(|total| format!(" of {total}")).unwrap_or_default()
}

fn is_same_origin(a: &BaseUrl, b: &BaseUrl) -> bool {
    a.scheme == b.scheme && a.port == b.port && a.host.eq_ignore_ascii_case(&b.host)
}

/// Where `location` leads from `from`; `None` for what is no address of HTTP, and for the way from a host that proved who it
/// is to one that does not.
fn follow(from: &BaseUrl, location: &str) -> Option<BaseUrl> {
    let scheme = if from.scheme == Scheme::Https { "https" } else { "http" };
    let whole = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{}{location}", from.authority())
    } else if location.contains("://") {
        location.to_owned()
    } else {
        return None;
    };
    BaseUrl::parse(&whole).ok().filter(|to| match to.scheme {
        Scheme::Https => true,
        Scheme::Http => from.scheme == Scheme::Http,
        Scheme::Sim => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse(text).expect("a URL")
    }

    #[test]
    fn redirects_lead_where_http_says_and_never_from_tls_to_none() {
        for (from, location, to) in [
            ("https://hub/a/b", "/c?d=1", Some("https://hub/c?d=1")),
            ("http://hub:81/a", "/c", Some("http://hub:81/c")),
            ("https://hub/a", "//cdn/x", Some("https://cdn/x")),
            ("http://hub/a", "https://cdn:8443/x?sig=%2F", Some("https://cdn:8443/x?sig=%2F")),
            ("http://hub/a", "http://cdn/x", Some("http://cdn/x")),
            ("https://hub/a", "http://hub/a", None),
            ("https://hub/a", "sim://", None),
            ("https://hub/a", "ftp://hub/a", None),
            ("https://hub/a", "b", None),
        ] {
            assert_eq!(follow(&url(from), location), to.map(url), "{from} {location}");
        }
    }

    #[test]
    fn the_same_place_is_the_same_scheme_host_and_port() {
        assert!(is_same_origin(&url("https://Hub/a"), &url("https://hub:443/b")));
        for other in ["http://hub:443", "https://hub:444", "https://hub.evil", "https://cdn.hub"] {
            assert!(!is_same_origin(&url("https://hub"), &url(other)), "{other}");
        }
    }

    fn facts(headers: &[(&'static str, &'static str)]) -> Facts {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, http::HeaderValue::from_static(value));
        }
        Facts::of(&map)
    }

    #[test]
    fn an_etag_is_a_name_without_its_quotes() {
        assert_eq!(facts(&[("etag", "\"abc\"")]).etag.as_deref(), Some("abc"));
        assert_eq!(facts(&[("etag", "W/\"abc\"")]).etag.as_deref(), Some("abc"));
        assert_eq!(facts(&[("etag", "\"a\""), ("x-linked-etag", "\"b\"")]).etag.as_deref(), Some("b"));
        assert_eq!(facts(&[]), Facts::default());
    }

    #[test]
    fn what_came_is_checked_against_what_was_announced() {
        const EMPTY: &str = "\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"";
        assert!(facts(&[("x-linked-etag", EMPTY), ("x-linked-size", "0")]).check(b"").is_ok());
        let said = |facts: Facts, body| facts.check(body).expect_err("it differs").to_string();
        assert!(said(facts(&[("x-linked-etag", EMPTY)]), b"x").contains("its SHA-256 is 2d71"));
        assert!(said(facts(&[("x-linked-size", "2")]), b"x").contains("1 bytes in place of 2"));
        // What a plain file's ETag is made of is the server's own affair.
        assert!(facts(&[("etag", EMPTY)]).check(b"x").is_ok());
        assert!(facts(&[("x-linked-etag", "\"abc\"")]).check(b"x").is_ok());
    }
}
