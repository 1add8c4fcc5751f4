//! Which servers there are, how sessions are spread over them, and what carries the bytes.

use std::path::{Path, PathBuf};

use aiperf_core::plan::{ClientCertificate, HttpVersion, Target, UrlStrategy};
use aiperf_core::secret::redact_url;
use aiperf_core::url::{BaseUrl, Scheme};

use super::Resolver;
use crate::environment::{TRUST_ENV, trust_env};
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;
use crate::row::{Default, row_of};

/// The servers of a run.
#[derive(Debug)]
pub(super) struct Servers {
    pub first: BaseUrl,
    pub targets: Vec<Target>,
    pub strategy: UrlStrategy,
}

/// What carries the bytes.
#[derive(Debug)]
pub(super) struct Connection {
    pub http: HttpVersion,
    pub unix_socket: Option<PathBuf>,
    pub proxy_from_env: bool,
    pub ca: Option<PathBuf>,
    pub client_certificate: Option<ClientCertificate>,
}

/// Whether a server is the simulated one in this process.
pub(super) fn is_simulated(target: &Target) -> bool {
    target.url.scheme == Scheme::Sim
}

impl Resolver<'_> {
    pub(super) fn servers(&mut self) -> Option<Servers> {
        let texts = match (self.settings.list(Id::Url), row_of(Id::Url).default) {
            (Some(texts), _) => texts.to_vec(),
            (None, Default::Is(url)) => vec![url.to_owned()],
            (None, Default::Absent | Default::Said(_)) => Vec::new(),
        };
        let mut urls = Vec::with_capacity(texts.len());
        for text in &texts {
            match BaseUrl::parse(text) {
                Ok(url) => urls.push(url),
                Err(error) => self.bad(
                    Id::Url,
                    format!("'{}', which {error}", redact_url(text)),
                    "a URL such as http://localhost:8000, https://host/v1 or sim://",
                ),
            }
        }
        let weights = self.weights(texts.len());
        let strategy = self.strategy();
        if urls.len() > 1 && urls.iter().any(|url| url.scheme == Scheme::Sim) {
            self.bad(
                Id::Url,
                "sim:// beside other servers".to_owned(),
                "sim:// alone: it is one server in this process; `aiperf sim` starts others",
            );
        }
        let first = urls.first().filter(|_| urls.len() == texts.len())?.clone();
        let weights = weights.into_iter().chain(std::iter::repeat(1.0));
        let targets = urls.into_iter().zip(weights).map(|(url, weight)| Target { url, weight }).collect();
        Some(Servers { first, targets, strategy })
    }

    /// The weights given, one for each of `servers`.
    fn weights(&mut self, servers: usize) -> Vec<f64> {
        let Some(weights) = self.settings.weights(Id::UrlWeights).map(<[f64]>::to_vec) else {
            return Vec::new();
        };
        if weights.len() != servers {
            let found = format!("{} weights", weights.len());
            self.bad(Id::UrlWeights, found, &format!("one for each of the {servers} servers"));
        }
        weights
    }

    fn strategy(&mut self) -> UrlStrategy {
        let rank = |id: Id| self.settings.place(id).map(Place::rank);
        let (weighed, chosen) = (rank(Id::UrlWeights), rank(Id::UrlStrategy));
        let strategy = match self.settings.text(Id::UrlStrategy) {
            Some("random") => UrlStrategy::Random,
            Some("weighted") => UrlStrategy::Weighted,
            Some("least_in_flight") => UrlStrategy::LeastInFlight,
            _ => UrlStrategy::RoundRobin,
        };
        // Weights mean the strategy weighted, unless a higher layer says another one.
        if weighed > chosen {
            return UrlStrategy::Weighted;
        }
        if strategy == UrlStrategy::Weighted && weighed.is_none() {
            self.needs(
                Id::UrlStrategy,
                "--url-weights",
                "they say which share of the sessions each server gets",
            );
        } else if strategy != UrlStrategy::Weighted && weighed == chosen {
            self.exclude(
                Id::UrlWeights,
                Id::UrlStrategy,
                "weights are for the strategy weighted; choose it or drop the weights",
            );
        }
        strategy
    }

    /// What carries the bytes to servers, of which one is the `simulated` one or not.
    pub(super) fn connection(&mut self, simulated: bool) -> Connection {
        let http = match self.settings.text_or_default(Id::HttpVersion).as_str() {
            "2" => HttpVersion::Two,
            _ => HttpVersion::One,
        };
        let trusted = trust_env(self.env, &mut self.errors);
        let asked = self.settings.switch(Id::ProxyFromEnv);
        let unix_socket = self.settings.text(Id::UnixSocket).map(PathBuf::from);
        if asked == Some(true) {
            self.exclude(
                Id::UnixSocket,
                Id::ProxyFromEnv,
                "a Unix socket leads to the server itself; drop one of the two",
            );
        }
        if simulated {
            let mut ids = vec![Id::UnixSocket, Id::CaFile, Id::ClientCert];
            ids.extend((asked == Some(true)).then_some(Id::ProxyFromEnv));
            ids.extend((http == HttpVersion::Two).then_some(Id::HttpVersion));
            for id in ids {
                self.exclude(
                    id,
                    Id::Url,
                    "sim:// is reached inside this process, over plain HTTP/1.1; drop one of the two",
                );
            }
        }
        // Where a socket leads, no proxy does.
        let proxy_from_env = asked.unwrap_or(trusted) && unix_socket.is_none() && !simulated;
        if proxy_from_env && asked.is_none() {
            self.notes
                .push(format!("{TRUST_ENV}=true in the environment takes proxies from the environment"));
        }
        Connection {
            http,
            proxy_from_env,
            unix_socket,
            ca: self.pem(Id::CaFile),
            client_certificate: self.client_certificate(),
        }
    }

    fn client_certificate(&mut self) -> Option<ClientCertificate> {
        let certificate = self.pem(Id::ClientCert);
        let key = self.pem(Id::ClientKey);
        if !self.settings.has(Id::ClientCert) {
            self.needs(Id::ClientKey, "--client-cert", "it is the key of that certificate");
            return None;
        }
        let certificate = certificate?;
        Some(ClientCertificate { key: key.unwrap_or_else(|| certificate.clone()), certificate })
    }

    /// A file that must be there; what is in it is looked at when it is used.
    fn pem(&mut self, id: Id) -> Option<PathBuf> {
        let path = PathBuf::from(self.settings.text(id)?);
        let problem = match std::fs::metadata(Path::new(&path)) {
            Ok(found) if found.is_dir() => "is a folder; a PEM file is expected".to_owned(),
            Ok(_) => return Some(path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        };
        let place = self.place(id)?;
        self.errors.push(ConfigError::File { place, path, problem });
        None
    }
}
