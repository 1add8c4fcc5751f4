//! The head of every request, made ready once: only the two ids and the length differ from request to request.
//!
//! Order and names are AIPerf's: Host, User-Agent, X-Request-ID, the session header, the user's own, Authorization, Accept,
//! Content-Type, X-Session-Affinity, Content-Length, and Connection where none is kept. Anthropic's API has Content-Type before the user's own, and behind them
//! x-api-key in place of Authorization, and anthropic-version. A later header of the same name (letter case ignored) replaces the
//! earlier in its place, except that the affinity header always comes last and is always ours.

use std::fmt;
use std::io::Write as _;

use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan};
use aiperf_core::ticket::{SessionId, UUID_LEN, Uuid};
use aiperf_core::url::BaseUrl;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};

use crate::NetError;
use crate::endpoint::messages;
use crate::proxy::Proxy;

/// AIPerf names itself and its version; so do we, with ours.
const USER_AGENT: &str = concat!("aiperf/", env!("CARGO_PKG_VERSION"));
const REQUEST_ID: &str = "X-Request-ID";
const AFFINITY: &str = "X-Session-Affinity";
const CONTENT_LENGTH: &str = "Content-Length";
const PROXY_AUTHORIZATION: &str = "Proxy-Authorization";

/// Headers that are about a connection of HTTP/1.1, and must not stand in a request of HTTP/2 (RFC 9113, 8.2.2). The host is in
/// the request's own authority.
const NOT_IN_HTTP2: [&str; 6] =
    ["host", "connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"];

/// What fills a header.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fill {
    Fixed(HeaderValue),
    RequestId,
    CorrelationId,
    Length,
}

/// Bytes of a head, and what is filled in behind them.
struct Piece {
    text: Vec<u8>,
    fill: Fill,
}

impl fmt::Debug for Piece {
    /// Without the bytes, for a key may be among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece").field("text", &self.text.len()).field("fill", &self.fill).finish()
    }
}

/// Makes requests.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    uri: Uri,
    headers: HeaderMap,
    /// Names that get an id or the length, and which.
    fills: Vec<(HeaderName, Fill)>,
    /// The head as bytes, cut where something is filled in, and what: all of it behind the method.
    pieces: Vec<Piece>,
    /// Names as written, with what fills them, in order.
    list: Vec<(String, Fill)>,
    /// Size of the head without the digits of the length.
    head_len: u64,
    /// What stands in the request line.
    target: String,
    /// It is for HTTP/2.
    is_two: bool,
}

impl RequestTemplate {
    /// The template for requests to `target` (path and query) at `url`, sent to the server or to a `proxy` that passes them on.
    pub(crate) fn new(
        plan: &EndpointPlan,
        url: &BaseUrl,
        target: &str,
        proxy: Option<&Proxy>,
    ) -> Result<Self, NetError> {
        let mut target = in_request_line(target);
        if proxy.is_some() {
            target = format!("http://{}{target}", url.authority());
        }
        let uri = Uri::try_from(target.as_str()).map_err(|_| NetError::Target { target: target.clone() })?;
        let mut list = list(plan, url)?;
        let given = list.iter().any(|(name, _)| name.eq_ignore_ascii_case(PROXY_AUTHORIZATION));
        if let Some(value) = proxy.and_then(|p| p.authorization.clone()).filter(|_| !given) {
            list.insert(1, (PROXY_AUTHORIZATION.to_owned(), Fill::Fixed(value)));
        }
        Self::made(uri, target, list)
    }

    fn made(uri: Uri, target: String, list: Vec<(String, Fill)>) -> Result<Self, NetError> {
        let mut headers = HeaderMap::with_capacity(list.len());
        let mut fills = Vec::new();
        let mut head_len = ("POST  HTTP/1.1\r\n".len() + target.len() + "\r\n".len()) as u64;
        for (name, fill) in &list {
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| NetError::HeaderName { name: name.clone() })?;
            let value_len = match fill {
                Fill::Fixed(value) => value.len(),
                Fill::RequestId => UUID_LEN,
                Fill::CorrelationId | Fill::Length => 0,
            };
            head_len += (name.len() + ": \r\n".len() + value_len) as u64;
            if let Fill::Fixed(value) = fill {
                headers.insert(header, value.clone());
            } else {
                // Holds the place in the order.
                headers.insert(header.clone(), HeaderValue::from_static("0"));
                fills.push((header, fill.clone()));
            }
        }
        let pieces = pieces(&target, &list);
        Ok(Self { uri, headers, fills, pieces, list, head_len, target, is_two: false })
    }

    /// The template of a request with `headers` of its own, behind the user's: one of a name that is there already takes its place.
    /// `None` where one cannot be sent, and without any.
    pub(crate) fn with(&self, headers: &[(String, String)]) -> Option<Self> {
        if headers.is_empty() {
            return None;
        }
        let mut list = self.list.clone();
        for (name, value) in headers {
            let fill = fixed(name, value).ok()?;
            let is_same = |(other, _): &(String, Fill)| other.eq_ignore_ascii_case(name);
            if let Some(at) = list.iter().position(is_same) {
                // Ids and lengths stay what they are.
                if matches!(list[at].1, Fill::Fixed(_)) {
                    list[at].1 = fill;
                }
            } else {
                let accept = list.iter().position(|(name, _)| name.eq_ignore_ascii_case("accept"));
                let accept = accept.unwrap_or(list.len());
                list.insert(accept, (name.clone(), fill));
            }
        }
        let made = Self::made(self.uri.clone(), self.target.clone(), list).ok()?;
        Some(if self.is_two { made.for_http2(self.uri.clone()) } else { made })
    }

    /// The head of a request with a body of `body_len` bytes, as it goes over HTTP/1.1.
    pub(crate) fn head(
        &self,
        method: &Method,
        body_len: usize,
        request_id: Uuid,
        correlation_id: &SessionId,
    ) -> Vec<u8> {
        // With room for a small body behind it.
        let mut head = Vec::with_capacity(2 * self.head_len as usize + 128 + body_len.min(1 << 14));
        head.extend_from_slice(method.as_str().as_bytes());
        for Piece { text, fill } in &self.pieces {
            head.extend_from_slice(text);
            let filled = match fill {
                Fill::RequestId => write!(head, "{request_id}"),
                Fill::CorrelationId => write!(head, "{correlation_id}"),
                Fill::Length => write!(head, "{body_len}"),
                Fill::Fixed(_) => Ok(()),
            };
            filled.expect("a vector takes all");
        }
        head.extend_from_slice(b"\r\n\r\n");
        head
    }

    /// The head of a request with `body`, as it goes over HTTP/2.
    pub(crate) fn request(&self, body: &Bytes, request_id: Uuid, correlation_id: &SessionId) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let mut headers = self.headers.clone();
        let id = |id: String| HeaderValue::try_from(id).ok();
        let (request_id, correlation_id) = (id(request_id.to_string()), id(correlation_id.to_string()));
        for (name, fill) in &self.fills {
            let value = match fill {
                Fill::RequestId => request_id.clone(),
                Fill::CorrelationId => correlation_id.clone(),
                Fill::Length => Some(HeaderValue::from(body.len())),
                Fill::Fixed(value) => Some(value.clone()),
            };
            if let (Some(slot), Some(value)) = (headers.get_mut(name), value) {
                *slot = value;
            }
        }
        *request.headers_mut() = headers;
        request
    }

    /// The same requests for HTTP/2: to `uri`, which names scheme and host too, and without what is said of a connection of
    /// HTTP/1.1.
    pub(crate) fn for_http2(mut self, uri: Uri) -> Self {
        let kept = std::mem::take(&mut self.headers).into_iter();
        let kept = kept.filter_map(|(name, value)| Some((name?, value)));
        self.headers = kept.filter(|(name, _)| !NOT_IN_HTTP2.contains(&name.as_str())).collect();
        self.uri = uri;
        self.is_two = true;
        self
    }

    /// Bytes of head and body of a request of `session` with a body of `body_len`.
    pub(crate) fn size(&self, body_len: usize, session: &SessionId) -> u64 {
        let session_headers =
            self.fills.iter().filter(|(_, fill)| matches!(fill, Fill::CorrelationId)).count();
        self.head_len
            + (session_headers * session.text_len()) as u64
            + u64::from(body_len.checked_ilog10().unwrap_or(0))
            + 1
            + body_len as u64
    }

    /// Names and values of a request with a body of `body_len` bytes, as HTTP/1.1 sends them, in order.
    pub(crate) fn sent(
        &self,
        request_id: Uuid,
        correlation_id: &SessionId,
        body_len: u64,
    ) -> Vec<(String, String)> {
        let text = |fill: &Fill| match fill {
            Fill::Fixed(value) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
            Fill::RequestId => request_id.to_string(),
            Fill::CorrelationId => correlation_id.to_string(),
            Fill::Length => body_len.to_string(),
        };
        self.list.iter().map(|(name, fill)| (name.clone(), text(fill))).collect()
    }

    /// Names and values as they are sent, without those that the connection adds (Host, Content-Length and what is behind it).
    pub(crate) fn listed(&self, request_id: Uuid, correlation_id: &SessionId) -> Vec<(String, String)> {
        let text = |fill: &Fill| match fill {
            Fill::Fixed(value) => Some(String::from_utf8_lossy(value.as_bytes()).into_owned()),
            Fill::RequestId => Some(request_id.to_string()),
            Fill::CorrelationId => Some(correlation_id.to_string()),
            Fill::Length => None,
        };
        let before = self.list.iter().take_while(|(_, fill)| *fill != Fill::Length);
        let own = before.filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
        own.filter_map(|(name, fill)| Some((name.clone(), text(fill)?))).collect()
    }
}

/// The head behind its method, cut behind the name of each header that is filled in. A last one that is not has a piece without.
fn pieces(target: &str, list: &[(String, Fill)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut text = format!(" {target} HTTP/1.1").into_bytes();
    for (name, fill) in list {
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        match fill {
            Fill::Fixed(value) => text.extend_from_slice(value.as_bytes()),
            Fill::RequestId | Fill::CorrelationId | Fill::Length => {
                pieces.push(Piece { text: std::mem::take(&mut text), fill: fill.clone() });
            }
        }
    }
    if !text.is_empty() {
        pieces.push(Piece { text, fill: Fill::Fixed(HeaderValue::from_static("")) });
    }
    pieces
}

fn list(plan: &EndpointPlan, url: &BaseUrl) -> Result<Vec<(String, Fill)>, NetError> {
    let mut list: Vec<(String, Fill)> = Vec::new();
    let mut set = |name: &str, fill: Fill| match list.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
        Some(slot) => slot.1 = fill,
        None => list.push((name.to_owned(), fill)),
    };
    set("Host", fixed("Host", &url.authority())?);
    set("User-Agent", fixed("User-Agent", USER_AGENT)?);
    set(REQUEST_ID, Fill::RequestId);
    set(&plan.session_header, Fill::CorrelationId);
    let is_anthropic = plan.kind == EndpointKind::Messages;
    if is_anthropic {
        set("Content-Type", fixed("Content-Type", "application/json")?);
    }
    for (name, value) in &plan.headers {
        if aiperf_core::headers::is_framing(name) {
            return Err(NetError::HeaderReserved { name: name.clone() });
        }
        set(name, fixed(name, value.expose())?);
    }
    let given = |name: &str| plan.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let authorized = given("authorization");
    if let Some(key) = &plan.api_key {
        let (name, value) = if is_anthropic {
            (messages::KEY_HEADER, key.expose().to_owned())
        } else {
            ("Authorization", format!("Bearer {}", key.expose()))
        };
        set(name, secret(name, &value)?);
    } else if let Some(userinfo) = url.userinfo.as_ref().filter(|_| !authorized) {
        let name = "Authorization";
        set(name, secret(name, &basic_authorization(userinfo))?);
    }
    let (version_header, version) = messages::VERSION;
    if is_anthropic && !given(version_header) {
        set(version_header, fixed(version_header, version)?);
    }
    let accept = if plan.streaming { "text/event-stream" } else { "application/json" };
    set("Accept", fixed("Accept", accept)?);
    set("Content-Type", fixed("Content-Type", "application/json")?);
    list.retain(|(name, _)| !name.eq_ignore_ascii_case(AFFINITY));
    list.push((AFFINITY.to_owned(), Fill::CorrelationId));
    list.push((CONTENT_LENGTH.to_owned(), Fill::Length));
    // The server is told, so that it keeps nothing for a connection that nothing comes on any more.
    if plan.reuse == ConnectionReuse::Never && !given("connection") {
        list.push(("Connection".to_owned(), Fill::Fixed(HeaderValue::from_static("close"))));
    }
    Ok(list)
}

/// The value of an authorization header for `user:password` as it stands in a URL.
pub(crate) fn basic_authorization(userinfo: &str) -> String {
    format!("Basic {}", base64(&percent_decoded(userinfo)))
}

fn fixed(name: &str, value: &str) -> Result<Fill, NetError> {
    HeaderValue::from_str(value)
        .or_else(|_| HeaderValue::from_bytes(value.as_bytes()))
        .map(Fill::Fixed)
        .map_err(|_| NetError::HeaderValue { name: name.to_owned() })
}

fn secret(name: &str, value: &str) -> Result<Fill, NetError> {
    let fill = fixed(name, value)?;
    if let Fill::Fixed(mut value) = fill {
        // Keeps it out of any Debug output on the way.
        value.set_sensitive(true);
        return Ok(Fill::Fixed(value));
    }
    Ok(fill)
}

/// Percent-encodes what may not stand in a request line; what is encoded already stays.
fn in_request_line(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0..=0x20 | 0x7f.. => {
                out.push('%');
                out.extend([byte >> 4, byte & 15].map(|d| char::from(b"0123456789ABCDEF"[usize::from(d)])));
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

/// Undoes percent-encoding, as user information in a URL needs; a stray `%` stands for itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if let (b'%', Some(high), Some(low)) = (byte, digit(at + 1), digit(at + 2)) {
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    out
}

/// Standard base64 with padding (RFC 4648): one header at start is all that needs it.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let sextet = (group >> (18 - 6 * i)) & 63;
            out.push(if i <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use aiperf_core::plan::Secret;

    use super::*;
    use crate::endpoint::test_plan;

    fn template(change: impl FnOnce(&mut EndpointPlan), url: &str) -> Result<RequestTemplate, NetError> {
        let mut plan = test_plan(EndpointKind::Chat);
        change(&mut plan);
        RequestTemplate::new(&plan, &BaseUrl::parse(url).expect("a URL"), "/v1/x", None)
    }

    fn names(template: &RequestTemplate) -> Vec<&str> {
        template.list.iter().map(|(n, _)| n.as_str()).collect()
    }

    fn value(template: &RequestTemplate, name: &str) -> String {
        let request =
            template.request(&Bytes::from_static(b"{}"), Uuid::from_random(1), &Uuid::from_random(2).into());
        String::from_utf8_lossy(request.headers()[name].as_bytes()).into_owned()
    }

    #[test]
    fn order_is_the_reference_s() {
        let t = template(
            |p| {
                p.streaming = true;
                p.session_header = "X-Session".into();
                p.headers = vec![
                    ("X-Own".into(), Secret::new("1")),
                    ("x-session-affinity".into(), Secret::new("no")),
                ];
                p.api_key = Some(Secret::new("k"));
            },
            "http://h:8000",
        )
        .expect("a template");
        assert_eq!(
            names(&t),
            [
                "Host",
                "User-Agent",
                "X-Request-ID",
                "X-Session",
                "X-Own",
                "Authorization",
                "Accept",
                "Content-Type",
                "X-Session-Affinity",
                "Content-Length"
            ]
        );
        assert_eq!(value(&t, "authorization"), "Bearer k");
        assert_eq!(value(&t, "accept"), "text/event-stream");
        assert_eq!(value(&t, "host"), "h:8000");
        assert_eq!(value(&t, "content-length"), "2");
        assert_eq!(value(&t, "x-session"), value(&t, "x-session-affinity"));
        let request = t.request(&Bytes::new(), Uuid::from_random(1), &Uuid::from_random(2).into());
        let sent: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        let listed: Vec<String> = names(&t).iter().map(|n| n.to_ascii_lowercase()).collect();
        assert_eq!(sent, listed, "the map keeps the order");
    }

    #[test]
    fn a_request_s_own_headers_stand_behind_the_user_s() {
        let t = template(|p| p.headers = vec![("X-Own".into(), Secret::new("1"))], "http://h")
            .expect("a template");
        let own = |headers: &[(&str, &str)]| {
            let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            t.with(&headers)
        };
        assert!(own(&[]).is_none() && own(&[("a b", "1")]).is_none() && own(&[("a", "1\n2")]).is_none());
        let with =
            own(&[("X-Turn", "a"), ("x-own", "2"), ("X-Correlation-ID", "mine"), ("accept", "text/plain")])
                .expect("they can be sent");
        let added: Vec<_> = names(&with).into_iter().filter(|name| !names(&t).contains(name)).collect();
        assert_eq!(added, ["X-Turn"]);
        let place = |name: &str| names(&with).iter().position(|n| *n == name);
        assert_eq!(place("X-Own").map(|at| at + 1), place("X-Turn"));
        assert_eq!((value(&with, "x-own"), value(&with, "accept")), ("2".into(), "text/plain".into()));
        assert_eq!(value(&with, "x-correlation-id"), value(&t, "x-correlation-id"));
        let session = SessionId::from(Uuid::from_random(2));
        let head = with.head(&Method::POST, 2, Uuid::from_random(1), &session);
        assert!(
            String::from_utf8_lossy(&head).contains("\r\nX-Own: 2\r\nX-Turn: a\r\nAccept: text/plain\r\n")
        );
        assert_eq!(head.len() as u64 + 2, with.size(2, &session));
        let two = t.for_http2(Uri::from_static("http://h/v1/x"));
        let two = two.with(&[("X-Turn".to_owned(), "a".to_owned())]).expect("it can be sent");
        let request = two.request(&Bytes::new(), Uuid::from_random(1), &session);
        assert_eq!(request.headers()["x-turn"], "a");
        assert!(!request.headers().contains_key("host") && request.uri().host() == Some("h"));
    }

    #[test]
    fn a_server_is_told_when_its_connection_is_not_kept() {
        let never = |p: &mut EndpointPlan| p.reuse = ConnectionReuse::Never;
        let t = template(never, "http://h").expect("a template");
        let (id, session) = (Uuid::from_random(1), Uuid::from_random(2).into());
        let head = String::from_utf8(t.head(&Method::POST, 3, id, &session)).expect("text");
        assert!(head.ends_with("\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"), "{head}");
        assert_eq!(t.size(3, &session), head.len() as u64 + 3);
        assert_eq!(t.sent(id, &session, 3).last(), Some(&("Connection".to_owned(), "close".to_owned())));
        assert!(t.listed(id, &session).iter().all(|(name, _)| name != "Connection"));
        let own = |p: &mut EndpointPlan| {
            p.reuse = ConnectionReuse::Never;
            p.headers = vec![("connection".into(), Secret::new("x"))];
        };
        let t = template(own, "http://h").expect("a template");
        assert_eq!(value(&t, "connection"), "x");
        assert!(t.listed(id, &session).iter().any(|(name, _)| name == "connection"));
    }

    #[test]
    fn the_key_beats_the_user_s_header_and_both_beat_the_url() {
        let own = ("authorization".to_owned(), Secret::new("Own o"));
        let t = template(|p| p.headers = vec![own.clone()], "http://u:p@h").expect("a template");
        assert_eq!(value(&t, "authorization"), "Own o");
        let t = template(
            |p| {
                p.headers = vec![own];
                p.api_key = Some(Secret::new("k"));
            },
            "http://u:p@h",
        )
        .expect("a template");
        assert_eq!(value(&t, "authorization"), "Bearer k");
        assert_eq!(names(&t).iter().filter(|n| n.eq_ignore_ascii_case("authorization")).count(), 1);
        let t = template(|_| {}, "http://us%40er:p%zz@h").expect("a template");
        assert_eq!(value(&t, "authorization"), format!("Basic {}", base64(b"us@er:p%zz")));
    }

    #[test]
    fn a_head_holds_the_key_and_debug_output_does_not() {
        let t = template(|p| p.api_key = Some(Secret::new("geheim")), "http://h").expect("a template");
        let head = t.head(&Method::GET, 3, Uuid::from_random(1), &Uuid::from_random(2).into());
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("GET /v1/x HTTP/1.1\r\nHost: h\r\n"), "{head}");
        assert!(head.contains("\r\nAuthorization: Bearer geheim\r\n"), "{head}");
        assert!(head.ends_with("\r\nContent-Length: 3\r\n\r\n"), "{head}");
        let shown = format!("{t:?}");
        let as_numbers = format!("{:?}", b"geheim");
        assert!(!shown.contains("geheim") && !shown.contains(as_numbers.trim_matches(['[', ']'])), "{shown}");
    }

    #[test]
    fn anthropic_has_its_own_key_and_version_in_the_reference_s_order() {
        let anthropic = |headers: &[(&str, &str)]| {
            let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), Secret::new(*v))).collect();
            template(
                |p| {
                    p.kind = EndpointKind::Messages;
                    p.api_key = Some(Secret::new("k"));
                    p.headers = headers;
                },
                "http://h",
            )
            .expect("a template")
        };
        let t = anthropic(&[("Authorization", "mine"), ("anthropic-beta", "b")]);
        let expected = [
            "Host",
            "User-Agent",
            "X-Request-ID",
            "X-Correlation-ID",
            "Content-Type",
            "Authorization",
            "anthropic-beta",
            "x-api-key",
            "anthropic-version",
            "Accept",
            "X-Session-Affinity",
            "Content-Length",
        ];
        assert_eq!(names(&t), expected);
        assert_eq!(value(&t, "authorization"), "mine");
        assert_eq!(value(&t, "x-api-key"), "k");
        assert_eq!(value(&t, "anthropic-version"), "2023-06-01");
        assert!(
            !format!("{:?}", t.headers["x-api-key"]).contains('k'),
            "a key does not show in Debug output"
        );

        let t = anthropic(&[("X-API-Key", "mine"), ("Anthropic-Version", "2099-01-01")]);
        assert_eq!(value(&t, "x-api-key"), "k", "the key beats the header");
        assert_eq!(value(&t, "anthropic-version"), "2099-01-01", "the user knows the version");
        assert_eq!(names(&t).len(), expected.len() - 2);
    }

    #[test]
    fn ours_replace_the_user_s_accept_and_content_type() {
        let t = template(|p| p.headers = vec![("accept".into(), Secret::new("x"))], "http://h")
            .expect("a template");
        assert_eq!(value(&t, "accept"), "application/json");
    }

    #[test]
    fn bad_headers_are_named() {
        let with = |n: &str, v: &str| {
            let header = (n.to_owned(), Secret::new(v));
            template(|p| p.headers = vec![header], "http://h").map(|_| ())
        };
        assert!(matches!(with("bad name", "v"), Err(NetError::HeaderName { name }) if name == "bad name"));
        assert!(matches!(with("X-A", "a\r\nb"), Err(NetError::HeaderValue { name }) if name == "X-A"));
        assert!(matches!(with("content-length", "3"), Err(NetError::HeaderReserved { .. })));
        assert!(with("X-A", "grün").is_ok());
    }

    #[test]
    fn base64_is_the_standard_s() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn odd_paths_are_encoded_once() {
        assert_eq!(in_request_line("/a b/ü%20?q={x}&y=1"), "/a%20b/%C3%BC%20?q=%7Bx%7D&y=1");
    }
}
