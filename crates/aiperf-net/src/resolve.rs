//! From a base URL to socket addresses: resolved when first needed, then kept.
//!
//! `localhost` never meets the resolver: it is the loopback by definition (RFC 6761, 6.3), also where there is neither a hosts
//! file nor a name service, as in an empty container with a static binary.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use aiperf_core::plan::IpVersion;
use aiperf_core::time::NS_PER_S;
use aiperf_core::url::{BaseUrl, Scheme};
use aiperf_os::mono_ns;
use tokio::sync::Mutex;

use crate::NetError;

/// How long an address is kept, nanoseconds (AIPerf's DNS cache: 300 s).
const KEPT_NS: u64 = 300 * NS_PER_S;

/// Where a server listens. Simulated servers have been started and replaced by their own address before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// TLS is spoken.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl ServerAddress {
    /// The address in `url`.
    pub fn new(url: &BaseUrl) -> Result<Self, NetError> {
        let tls = match url.scheme {
            Scheme::Http => false,
            Scheme::Https => true,
            Scheme::Sim => return Err(NetError::SimAddress),
        };
        Ok(Self { tls, host: url.host.clone(), port: url.port })
    }
}

/// Addresses and when they go stale.
#[derive(Debug)]
struct Kept {
    addresses: Vec<SocketAddr>,
    until_ns: u64,
}

/// Resolves one server's name. Requests that need it at the same time wait for one lookup.
#[derive(Debug)]
pub(crate) struct Resolver {
    server: ServerAddress,
    /// Which addresses of a name count.
    ip: IpVersion,
    /// What a literal address or a name of the loopback means; empty when a resolver has to be asked.
    known: Vec<SocketAddr>,
    kept: Mutex<Option<Kept>>,
    /// Connections start at another address of the preferred family each time, so that a name with several spreads the load.
    turn: Cell<usize>,
}

/// What a resolution gave: addresses in the order to try them, and its duration if anybody waited for the resolver.
pub(crate) type Resolved = (io::Result<Vec<SocketAddr>>, Option<(u64, u64)>);

impl Resolver {
    pub(crate) fn new(server: ServerAddress, ip: IpVersion) -> Self {
        let mut known = known(&server.host);
        if known.len() > 1 {
            known.retain(|address| is_wanted(ip, *address));
        }
        let known = known.into_iter().map(|address| SocketAddr::new(address, server.port)).collect();
        Self { server, ip, known, kept: Mutex::new(None), turn: Cell::new(0) }
    }

    /// The addresses of the server that are of the versions wanted, IPv4 first.
    pub(crate) async fn resolve(&self) -> Resolved {
        if !self.known.is_empty() {
            return (Ok(self.known.clone()), None);
        }
        if let Ok(kept) = self.kept.try_lock()
            && let Some(fresh) = kept.as_ref().filter(|k| mono_ns() < k.until_ns)
        {
            return (Ok(self.in_turn(&fresh.addresses)), None);
        }
        let began = mono_ns();
        let mut kept = self.kept.lock().await;
        if let Some(fresh) = kept.as_ref().filter(|k| mono_ns() < k.until_ns) {
            // Somebody else looked it up meanwhile; this request waited for it all the same.
            return (Ok(self.in_turn(&fresh.addresses)), Some((began, mono_ns())));
        }
        let found = tokio::net::lookup_host((self.server.host.as_str(), self.server.port)).await;
        let ended = mono_ns();
        let result = found.map(Iterator::collect::<Vec<_>>).and_then(|mut addresses| {
            let any = !addresses.is_empty();
            addresses.retain(|address| is_wanted(self.ip, address.ip()));
            addresses.sort_by_key(SocketAddr::is_ipv6);
            addresses.dedup();
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, missing(self.ip, any)));
            }
            let ordered = self.in_turn(&addresses);
            *kept = Some(Kept { addresses, until_ns: ended.saturating_add(KEPT_NS) });
            Ok(ordered)
        });
        (result, Some((began, ended)))
    }

    /// `addresses` with the first family's turned by one more place than last time.
    fn in_turn(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut ordered = addresses.to_vec();
        let first_family = ordered.first().is_some_and(SocketAddr::is_ipv6);
        let preferred = ordered.iter().take_while(|a| a.is_ipv6() == first_family).count();
        if preferred > 1 {
            ordered[..preferred].rotate_left(self.turn.get() % preferred);
            self.turn.set(self.turn.get().wrapping_add(1));
        }
        ordered
    }
}

fn is_wanted(ip: IpVersion, address: IpAddr) -> bool {
    match ip {
        IpVersion::Four => address.is_ipv4(),
        IpVersion::Six => address.is_ipv6(),
        IpVersion::Any => true,
    }
}

/// Why a name has no address that is wanted; it has `any` other or none.
fn missing(ip: IpVersion, any: bool) -> &'static str {
    match ip {
        IpVersion::Four if any => "the name has no IPv4 address, only IPv6",
        IpVersion::Six if any => "the name has no IPv6 address, only IPv4",
        _ => "the name has no address",
    }
}

/// The addresses of a host that need no resolver, in the order to try them.
fn known(host: &str) -> Vec<IpAddr> {
    let name = host.strip_suffix('.').unwrap_or(host);
    let top = name.rsplit('.').next().unwrap_or(name);
    match host.parse() {
        Ok(literal) => vec![literal],
        Err(_) if top.eq_ignore_ascii_case("localhost") => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolver(url: &str) -> Resolver {
        resolver_of(url, IpVersion::Any)
    }

    fn resolver_of(url: &str, ip: IpVersion) -> Resolver {
        let url = BaseUrl::parse(url).expect("a URL");
        Resolver::new(ServerAddress::new(&url).expect("an address"), ip)
    }

    #[tokio::test]
    async fn only_addresses_of_the_wanted_version_are_used() {
        for (ip, name, wanted) in [
            (IpVersion::Four, "localhost", "127.0.0.1:7"),
            (IpVersion::Six, "localhost", "[::1]:7"),
            (IpVersion::Four, "127.1", "127.0.0.1:7"),
            // A literal is meant as it is.
            (IpVersion::Four, "[::1]", "[::1]:7"),
            (IpVersion::Six, "127.0.0.1", "127.0.0.1:7"),
        ] {
            let (addresses, _) = resolver_of(&format!("http://{name}:7"), ip).resolve().await;
            assert_eq!(addresses.expect(name), [wanted.parse().expect("an address")], "{name}");
        }
        let (addresses, _) = resolver_of("http://127.1:7", IpVersion::Six).resolve().await;
        let error = addresses.expect_err("IPv4 alone").to_string();
        assert_eq!(error, "the name has no IPv6 address, only IPv4");
    }

    #[tokio::test]
    async fn literals_need_no_resolver() {
        let (addresses, waited) = resolver("http://[::1]:7").resolve().await;
        assert_eq!(addresses.expect("an address"), ["[::1]:7".parse().expect("an address")]);
        assert_eq!(waited, None);
    }

    #[tokio::test]
    async fn localhost_is_the_loopback_without_a_resolver() {
        let loopback: Vec<SocketAddr> =
            ["127.0.0.1:7", "[::1]:7"].iter().map(|a| a.parse().expect("an address")).collect();
        for name in ["localhost", "LocalHost", "localhost.", "engine.localhost"] {
            let (addresses, waited) = resolver(&format!("http://{name}:7")).resolve().await;
            assert_eq!((addresses.expect(name), waited), (loopback.clone(), None), "{name}");
        }
        assert!(known("localhost.example").is_empty() && known("mylocalhost").is_empty());
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once() {
        // No literal for Rust, yet every C library answers it without asking anybody.
        let resolver = resolver("http://127.1:7");
        let (first, waited) = resolver.resolve().await;
        let first = first.expect("an address");
        assert_eq!(first, ["127.0.0.1:7".parse().expect("an address")]);
        assert!(waited.is_some_and(|(a, b)| a <= b));
        let (again, waited) = resolver.resolve().await;
        assert_eq!((again.expect("kept").len(), waited), (first.len(), None));
    }

    #[test]
    fn several_addresses_take_turns_within_their_family() {
        let resolver = resolver("http://name:7");
        let addresses: Vec<SocketAddr> =
            ["1.1.1.1:7", "2.2.2.2:7", "[::1]:7"].iter().map(|a| a.parse().expect("an address")).collect();
        let firsts: Vec<SocketAddr> = (0..3).map(|_| resolver.in_turn(&addresses)[0]).collect();
        assert_eq!(firsts, [addresses[0], addresses[1], addresses[0]]);
        assert_eq!(resolver.in_turn(&addresses)[2], addresses[2]);
    }

    #[test]
    fn a_simulated_server_has_no_socket() {
        let url = BaseUrl::parse("sim://").expect("a URL");
        assert!(matches!(ServerAddress::new(&url), Err(NetError::SimAddress)));
    }
}
