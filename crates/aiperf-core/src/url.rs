//! The address of a server and how an endpoint's path is joined to it.
//!
//! Joining follows AIPerf: a base path that already ends with the endpoint's path is used as it is, a base path ending in `/v1`
//! swallows the path's own leading `v1/`, otherwise the two are joined with one slash; the query stays.

use std::fmt;

use crate::secret::redact_query;

/// What carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// The simulated server, started in this process; the query holds its settings.
    Sim,
}

/// A parsed base URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl {
    /// What carries the bytes.
    pub scheme: Scheme,
    /// `user:password` of the URL, if any; sent as Basic authorization, never written anywhere.
    pub userinfo: Option<String>,
    /// Host name or address, without brackets. Empty for [`Scheme::Sim`].
    pub host: String,
    /// Port; the scheme's own when not given.
    pub port: u16,
    /// Path, empty or starting with a slash, no slash at the end.
    pub path: String,
    /// Query without `?`.
    pub query: Option<String>,
}

/// Why a text is not a base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlError {
    /// White space inside.
    Whitespace,
    /// No host.
    NoHost,
    /// A scheme that is not spoken; holds it.
    Scheme(String),
    /// A port outside 1..=65535; holds its text.
    Port(String),
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whitespace => write!(f, "has white space in it"),
            Self::NoHost => write!(f, "names no host"),
            Self::Scheme(s) => write!(f, "has the scheme '{s}'; http, https and sim are spoken"),
            Self::Port(p) => write!(f, "has the port '{p}'; ports are 1 to 65535"),
        }
    }
}

impl std::error::Error for UrlError {}

impl BaseUrl {
    /// Parses `text`; without a scheme it is HTTP.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.chars().any(char::is_whitespace) {
            return Err(UrlError::Whitespace);
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => ("http".to_owned(), text),
        };
        let scheme = match scheme.as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            "sim" => Scheme::Sim,
            _ => return Err(UrlError::Scheme(scheme)),
        };
        let rest = rest.split_once('#').map_or(rest, |(r, _)| r);
        let (rest, query) = match rest.split_once('?') {
            Some((r, q)) => (r, Some(q.to_owned()).filter(|q| !q.is_empty())),
            None => (rest, None),
        };
        let (authority, path) = match rest.find('/') {
            Some(i) => rest.split_at(i),
            None => (rest, ""),
        };
        let (userinfo, hostport) = match authority.rsplit_once('@') {
            Some((u, h)) => (Some(u.to_owned()), h),
            None => (None, authority),
        };
        let (host, port) = split_port(hostport)?;
        let path = path.trim_end_matches('/').to_owned();
        if scheme == Scheme::Sim {
            return Ok(Self { scheme, userinfo: None, host: String::new(), port: 0, path, query });
        }
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        let port = match port {
            Some(p) => {
                p.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| UrlError::Port(p.to_owned()))?
            }
            None if scheme == Scheme::Https => 443,
            None => 80,
        };
        Ok(Self { scheme, userinfo, host: host.to_owned(), port, path, query })
    }

    /// Path and query of a request for the endpoint path `sub` (`/v1/chat/completions`; empty appends nothing).
    pub fn join(&self, sub: &str) -> String {
        let sub = sub.trim_start_matches('/');
        let base = self.path.trim_end_matches('/');
        let mut out =
            if sub.is_empty() || base.trim_start_matches('/') == sub || base.ends_with(&format!("/{sub}")) {
                base.to_owned()
            } else if (base == "/v1" || base.ends_with("/v1")) && sub.starts_with("v1/") {
                format!("{base}/{}", &sub[3..])
            } else {
                format!("{base}/{sub}")
            };
        if out.is_empty() {
            out.push('/');
        }
        if let Some(q) = &self.query {
            out.push('?');
            out.push_str(q);
        }
        out
    }

    /// `host:port` as a `Host` header writes it: the scheme's own port is left out, IPv6 gets brackets.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.scheme, self.port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for BaseUrl {
    /// The URL without its user information and its query's credentials, fit for files and screens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Sim => "sim",
        };
        let secret = if self.userinfo.is_some() { "<redacted>@" } else { "" };
        let authority = if self.scheme == Scheme::Sim { String::new() } else { self.authority() };
        write!(f, "{scheme}://{secret}{authority}{}", self.path)?;
        self.query.as_ref().map_or(Ok(()), |q| f.write_str(&redact_query(&format!("?{q}"))))
    }
}

fn split_port(hostport: &str) -> Result<(&str, Option<&str>), UrlError> {
    if let Some(rest) = hostport.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(UrlError::NoHost)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(UrlError::Port(after.to_owned())),
        };
    }
    match hostport.rsplit_once(':') {
        Some((host, _)) if host.contains(':') => Ok((hostport, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((hostport, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(base: &str, sub: &str) -> String {
        BaseUrl::parse(base).expect("a good URL").join(sub)
    }

    #[test]
    fn joins_as_the_reference_does() {
        let sub = "/v1/chat/completions";
        assert_eq!(joined("http://h:1", sub), "/v1/chat/completions");
        assert_eq!(joined("http://h:1/", sub), "/v1/chat/completions");
        assert_eq!(joined("http://h:1/v1", sub), "/v1/chat/completions");
        assert_eq!(joined("http://h:1/v1/", sub), "/v1/chat/completions");
        assert_eq!(joined("http://h:1/api/v1", sub), "/api/v1/chat/completions");
        assert_eq!(joined("http://h:1/x/v1/chat/completions", sub), "/x/v1/chat/completions");
        assert_eq!(joined("http://h:1/x?key=1", sub), "/x/v1/chat/completions?key=1");
        assert_eq!(joined("http://h:1/x", ""), "/x");
        assert_eq!(joined("http://h:1", ""), "/");
    }

    #[test]
    fn parses_hosts_ports_and_schemes() {
        let url = BaseUrl::parse("localhost:8000").expect("scheme is optional");
        assert_eq!((url.scheme, url.host.as_str(), url.port), (Scheme::Http, "localhost", 8000));
        let url = BaseUrl::parse("https://[::1]").expect("IPv6");
        assert_eq!((url.host.as_str(), url.port, url.authority().as_str()), ("::1", 443, "[::1]"));
        let url = BaseUrl::parse("http://u:p@h").expect("user information");
        assert_eq!(url.to_string(), "http://<redacted>@h");
        let url = BaseUrl::parse("http://h/v1?api_key=s3cret&x=1").expect("a URL");
        assert_eq!(url.to_string(), "http://h/v1?api_key=<redacted>&x=1");
        assert!(url.join("/p").ends_with("?api_key=s3cret&x=1"), "the wire needs it");
        let url = BaseUrl::parse("sim://?ttft=20").expect("sim");
        assert_eq!((url.scheme, url.query.as_deref()), (Scheme::Sim, Some("ttft=20")));
    }

    #[test]
    fn refuses_what_no_server_has() {
        assert_eq!(BaseUrl::parse("http://a b"), Err(UrlError::Whitespace));
        assert_eq!(BaseUrl::parse("http://"), Err(UrlError::NoHost));
        assert_eq!(BaseUrl::parse("ftp://h"), Err(UrlError::Scheme("ftp".into())));
        assert_eq!(BaseUrl::parse("http://h:99999"), Err(UrlError::Port("99999".into())));
        assert_eq!(BaseUrl::parse("http://h:0"), Err(UrlError::Port("0".into())));
        assert_eq!(BaseUrl::parse("http://h:abc"), Err(UrlError::Port("abc".into())));
    }
}
