//! Proxies that the environment names: which one a server is reached through, and how it is asked.
//!
//! A request to an http server is sent to the proxy itself, with the whole URL in its first line. For an https server the proxy
//! is asked for a tunnel (`CONNECT`), and TLS is spoken through it with the server. The variables and their rules are those of
//! curl and of Python's urllib: names in small letters go before capitals, an empty value is none.

use std::net::IpAddr;

use aiperf_core::outcome::Failure;
use aiperf_core::url::{BaseUrl, Scheme, UrlError};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::headers::basic_authorization;
use crate::resolve::ServerAddress;
use crate::{NetError, failure};

/// Longest head of an answer to `CONNECT` that is read.
const MAX_HEAD: usize = 16 << 10;

/// A proxy that is spoken to in plain HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    pub(crate) address: ServerAddress,
    /// `host:port`, for messages: without the password.
    pub(crate) authority: String,
    /// `Proxy-Authorization`, when the URL came with user and password.
    pub(crate) authorization: Option<HeaderValue>,
    /// The variable that names it.
    pub(crate) variable: &'static str,
}

impl Proxy {
    /// The proxy for the server at `url`, if the environment names one.
    pub(crate) fn from_env(url: &BaseUrl) -> Result<Option<Self>, NetError> {
        Self::choose(url, |name| std::env::var(name).ok())
    }

    fn choose(url: &BaseUrl, env: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, NetError> {
        let own = match url.scheme {
            Scheme::Http => ["http_proxy", "HTTP_PROXY"],
            Scheme::Https => ["https_proxy", "HTTPS_PROXY"],
            Scheme::Sim => return Ok(None),
        };
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| Some((*name, env(name).filter(|text| !text.trim().is_empty())?)))
        };
        let Some((variable, text)) = first(&own).or_else(|| first(&["all_proxy", "ALL_PROXY"])) else {
            return Ok(None);
        };
        if first(&["no_proxy", "NO_PROXY"]).is_some_and(|(_, exceptions)| is_excepted(&exceptions, url)) {
            return Ok(None);
        }
        Self::parse(text.trim(), variable).map(Some)
    }

    pub(crate) fn parse(text: &str, variable: &'static str) -> Result<Self, NetError> {
        let refused = |problem: &str| NetError::Proxy { variable, problem: problem.to_owned() };
        let url = BaseUrl::parse(text).map_err(|error| match error {
            UrlError::Scheme(scheme) if scheme.starts_with("socks") => {
                refused("is a SOCKS proxy, which is not spoken; proxies of http:// are")
            }
            UrlError::Scheme(_) => refused("has a scheme that is not spoken; proxies of http:// are"),
            // The text of a wrong port may be the end of a password with an @ or a colon in it.
            UrlError::Port(_) => refused("has a port that is none; ports are 1 to 65535"),
            UrlError::NoHost | UrlError::Whitespace => refused(&error.to_string()),
        })?;
        match url.scheme {
            Scheme::Http => {}
            Scheme::Https => {
                return Err(refused("is spoken to over TLS, which is not done; use one of http://"));
            }
            Scheme::Sim => return Err(refused("has a scheme that is not spoken; proxies of http:// are")),
        }
        let authorization = match &url.userinfo {
            Some(userinfo) => {
                let mut value = HeaderValue::try_from(basic_authorization(userinfo))
                    .map_err(|_| refused("has user information that cannot be sent"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self { address: ServerAddress::new(&url)?, authority: with_port(&url), authorization, variable })
    }

    /// Asks the proxy at the other end of `stream` for a tunnel to `server`. What follows on `stream` is between the two ends.
    pub(crate) async fn open_tunnel(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        server: &BaseUrl,
    ) -> Result<(), Failure> {
        let to = with_port(server);
        let mut request = Vec::new();
        request.extend_from_slice(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n").as_bytes());
        if let Some(value) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        let broken = |error| failure::proxy_connection(&self.authority, &error);
        stream.write_all(&request).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let mut head = Vec::new();
        let mut part = [0; 512];
        let end = loop {
            let n = stream.read(&mut part).await.map_err(broken)?;
            // The three bytes before may hold the beginning of the end.
            let from = head.len().saturating_sub(3);
            head.extend_from_slice(&part[..n]);
            if let Some(at) = memchr::memmem::find(&head[from..], b"\r\n\r\n") {
                break from + at + 4;
            }
            if n == 0 || head.len() > MAX_HEAD {
                return Err(failure::tunnel(&self.authority, &to, None, "gave no answer of HTTP"));
            }
        };
        match status(&head) {
            Some((200..=299, _)) if head.len() == end => Ok(()),
            Some((200..=299, _)) => {
                Err(failure::tunnel(&self.authority, &to, None, "sent more than it was asked for"))
            }
            Some((code, reason)) => {
                let words = format!("answered {code} {reason}");
                Err(failure::tunnel(&self.authority, &to, Some(code), words.trim_end()))
            }
            None => Err(failure::tunnel(&self.authority, &to, None, "gave no answer of HTTP")),
        }
    }
}

/// Status and reason phrase of a head.
fn status(head: &[u8]) -> Option<(u16, String)> {
    let line = head.split(|b| *b == b'\r').next()?;
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let mut words = rest.splitn(3, |b| *b == b' ').skip(1);
    let code = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let reason = words.next().map_or_else(String::new, |r| String::from_utf8_lossy(r).into_owned());
    (100..=999).contains(&code).then_some((code, reason))
}

/// `host:port`, also where the port is the scheme's own.
fn with_port(url: &BaseUrl) -> String {
    let host = &url.host;
    if host.contains(':') { format!("[{host}]:{}", url.port) } else { format!("{host}:{}", url.port) }
}

/// Whether `NO_PROXY` names the server: `*`, names with all below them, addresses, ranges of addresses, each with a port or not.
fn is_excepted(exceptions: &str, url: &BaseUrl) -> bool {
    let host = url.host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    exceptions.split([',', ' ', '\t']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        let (name, port) = split_port(entry);
        if port.is_some_and(|port| port != url.port) {
            return false;
        }
        if let Some(address) = address {
            return is_in(name, address);
        }
        let name = name.trim_start_matches('*').trim_matches('.').to_ascii_lowercase();
        let above = host.strip_suffix(&name).filter(|_| !name.is_empty());
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    })
}

/// An entry without its port. An IPv6 address has colons of its own, and needs brackets to have a port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some((inside, after)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (inside, after.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.split_once(':').map(|(name, port)| (name, port.parse())) {
        Some((name, Ok(port))) if !name.contains('/') => (name, Some(port)),
        _ => (entry, None),
    }
}

/// Whether `entry` is `address` or a range that it is in.
fn is_in(entry: &str, address: IpAddr) -> bool {
    let (network, length) = match entry.split_once('/') {
        Some((network, length)) => (network, length.parse::<u32>().ok()),
        None => (entry, Some(u32::MAX)),
    };
    let Some(length) = length else { return false };
    match (network.parse(), address) {
        (Ok(IpAddr::V4(network)), IpAddr::V4(address)) => {
            let differing = u32::from(network) ^ u32::from(address);
            differing.leading_zeros() >= length.min(32)
        }
        (Ok(IpAddr::V6(network)), IpAddr::V6(address)) => {
            let differing = u128::from(network) ^ u128::from(address);
            differing.leading_zeros() >= length.min(128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        BaseUrl::parse(text).expect("a URL")
    }

    /// The proxy for `server` in an environment of `vars`.
    fn choose(server: &str, vars: &[(&str, &str)]) -> Result<Option<Proxy>, NetError> {
        Proxy::choose(&url(server), |name| {
            vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn authority(server: &str, vars: &[(&str, &str)]) -> Option<String> {
        choose(server, vars).expect("a sound environment").map(|p| p.authority)
    }

    #[test]
    fn the_variable_of_the_scheme_goes_first_and_small_letters_before_capitals() {
        let all = [
            ("http_proxy", "a:1"),
            ("HTTP_PROXY", "b:2"),
            ("https_proxy", ""),
            ("HTTPS_PROXY", "http://c"),
            ("ALL_PROXY", "http://d:4"),
            ("all_proxy", "http://[::1]:5"),
        ];
        assert_eq!(authority("http://s", &all).as_deref(), Some("a:1"));
        assert_eq!(authority("https://s", &all).as_deref(), Some("c:80"), "an empty value is none");
        assert_eq!(authority("https://s", &all[4..]).as_deref(), Some("[::1]:5"));
        assert_eq!(authority("http://s", &all[4..5]).as_deref(), Some("d:4"));
        assert_eq!(authority("http://s", &all[2..4]), None, "for https alone");
        assert_eq!(authority("sim://", &all), None);
    }

    #[test]
    fn the_password_is_sent_and_never_told() {
        let proxy = choose("http://s", &[("http_proxy", "http://u%40x:se%3Acret@p:3128")]).expect("sound");
        let proxy = proxy.expect("a proxy");
        // u@x:se:cret
        assert_eq!(proxy.authorization.as_ref().expect("a header").as_bytes(), b"Basic dUB4OnNlOmNyZXQ=");
        assert_eq!(proxy.authority, "p:3128");
        assert!(!format!("{proxy:?}").contains("cret"));
    }

    #[test]
    fn proxies_that_are_not_spoken_to_are_refused_without_their_password() {
        for (value, words) in [
            ("socks5://u:geheim@p:1", "SOCKS"),
            ("socks5h://u:geheim@p:1", "SOCKS"),
            ("https://u:geheim@p:1", "over TLS"),
            ("ftp://u:geheim@p:1", "scheme"),
            ("sim://", "scheme"),
            ("http://u:geheim", "port"),
            ("http://", "host"),
        ] {
            let error = choose("http://s", &[("ALL_PROXY", value)]).expect_err(value).to_string();
            assert!(error.contains(words) && error.contains("ALL_PROXY"), "{error}");
            assert!(!error.contains("geheim"), "{error}");
        }
    }

    #[test]
    fn no_proxy_names_whom_none_is_for() {
        for (entries, server, excepted) in [
            ("*", "http://any.thing", true),
            ("example.com", "http://example.com", true),
            ("example.com", "http://EXAMPLE.com.:8080", true),
            ("Example.com", "http://a.b.example.com", true),
            (".example.com", "http://example.com", true),
            ("*.example.com", "http://a.example.com", true),
            ("example.com", "http://badexample.com", false),
            ("example.com", "http://example.com.evil", false),
            ("ample.com", "http://example.com", false),
            ("a, b  c", "http://c", true),
            (",, .", "http://c", false),
            ("h:8000", "http://h:8000", true),
            ("h:8000", "http://h:8001", false),
            ("h:443", "https://h", true),
            ("10.1.2.3", "http://10.1.2.3:9", true),
            ("10.1.2.3:8", "http://10.1.2.3:9", false),
            ("10.0.0.0/8", "http://10.200.1.1", true),
            ("10.0.0.0/9", "http://10.200.1.1", false),
            ("0.0.0.0/0", "http://10.200.1.1", true),
            ("0.0.0.0/0", "http://[::1]", false),
            ("10.0.0.0/x", "http://10.0.0.0", false),
            ("2.3", "http://10.1.2.3", false),
            ("fd00::/8", "http://[fd12::7]", true),
            ("fd00::/8", "http://[fe12::7]", false),
            ("::1", "http://[::1]:8", true),
            ("[::1]:8", "http://[::1]:8", true),
            ("[::1]:8", "http://[::1]:9", false),
        ] {
            assert_eq!(is_excepted(entries, &url(server)), excepted, "{entries} {server}");
            let vars = [("http_proxy", "p"), ("https_proxy", "p"), ("NO_PROXY", entries)];
            assert_eq!(authority(server, &vars).is_none(), excepted);
        }
        let vars = [("http_proxy", "p"), ("NO_PROXY", "h"), ("no_proxy", "other")];
        assert!(authority("http://h", &vars).is_some(), "small letters go first");
    }

    #[test]
    fn the_status_is_read_from_the_first_line() {
        let read = |head: &[u8]| status(head);
        assert_eq!(
            read(b"HTTP/1.1 200 Connection established\r\n\r\n"),
            Some((200, "Connection established".into()))
        );
        assert_eq!(read(b"HTTP/1.0 407\r\n\r\n"), Some((407, String::new())));
        for junk in [
            &b"SSH-2.0 x\r\n\r\n"[..],
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 9 x\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"",
        ] {
            assert_eq!(read(junk), None);
        }
    }
}
