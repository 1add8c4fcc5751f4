//! Making connections: from a server's name to a stream that HTTP can be spoken over.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aiperf_core::outcome::{Failure, Stage};
use aiperf_core::plan::{EndpointPlan, HttpVersion, IpVersion};
use aiperf_core::url::BaseUrl;
use aiperf_os::arrival::ArrivalClock;
use aiperf_os::mono_ns;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::proxy::Proxy;
use crate::resolve::{Resolver, ServerAddress};
use crate::seen::Seen;
use crate::tls::is_http_2;
use crate::wire::{Socket, Stamped, Stream, Wire};
use crate::{NetError, failure, tls_config};

/// Kernel keep-alive: first probe after, then every, then how many (AIPerf's 60/30/1).
const PROBE_AFTER: Duration = Duration::from_mins(1);
const PROBE_EVERY: Duration = Duration::from_secs(30);
const PROBES: u32 = 1;
/// Unacknowledged data for this long breaks the connection (AIPerf's TCP_USER_TIMEOUT).
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Which way leads to a server.
#[derive(Debug)]
enum Way {
    /// TCP to the server, or to a proxy: the proxy passes requests on, or opens a tunnel for the TLS within.
    Tcp(Box<(Resolver, Option<Proxy>)>),
    #[cfg(unix)]
    Unix(PathBuf),
}

/// Knows how one server is reached.
#[derive(Debug)]
pub(crate) struct Dialer {
    url: BaseUrl,
    /// `host:port`, for messages.
    authority: String,
    way: Way,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
    http: HttpVersion,
    /// Reads the kernel's receive stamps, if they are wanted.
    arrivals: Option<Rc<ArrivalClock>>,
    /// Some connection was made.
    made: Cell<bool>,
}

impl Dialer {
    /// A dialer for the server at `url`, reached through `proxy` if there is one, with `tls` settings shared between shards; they
    /// are made from the plan when an https URL comes without.
    pub(crate) fn new(
        plan: &EndpointPlan,
        url: &BaseUrl,
        tls: Option<Arc<rustls::ClientConfig>>,
        proxy: Option<Proxy>,
    ) -> Result<Self, NetError> {
        let address = ServerAddress::new(url)?;
        let tls = if address.tls {
            let config = tls.map_or_else(|| tls_config(plan), Ok)?;
            let name = ServerName::try_from(address.host.clone())
                .map_err(|_| NetError::HostName { host: address.host.clone() })?;
            Some((config, name))
        } else {
            None
        };
        let way = if let Some(path) = &plan.unix_socket {
            unix_way(path)?
        } else {
            if let Some(proxy) = proxy.as_ref().filter(|_| tls.is_none() && plan.http == HttpVersion::Two) {
                let problem = "passes requests to http servers on as HTTP/1.1 alone".to_owned();
                return Err(NetError::Proxy { variable: proxy.variable, problem });
            }
            let nearest = proxy.as_ref().map_or(address, |proxy| proxy.address.clone());
            Way::Tcp(Box::new((Resolver::new(nearest, plan.ip), proxy)))
        };
        Ok(Self {
            url: url.clone(),
            authority: url.authority(),
            way,
            tls,
            http: plan.http,
            arrivals: plan.receive_stamps.then(|| Rc::new(ArrivalClock::new())),
            made: Cell::new(false),
        })
    }

    /// The proxy that requests are sent to, to be passed on. One that only opens tunnels sees none.
    pub(crate) fn forwarder(&self) -> Option<&Proxy> {
        match &self.way {
            Way::Tcp(nearest) if self.tls.is_none() => nearest.1.as_ref(),
            _ => None,
        }
    }

    /// How often the wall clock was found to have been set, which receive stamps are told by.
    pub(crate) fn clock_steps(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, |clock| clock.steps())
    }

    /// A fresh connection. What it took is stamped in `seen`, and its stage says how far it came, whenever it is dropped. A
    /// proxy's tunnel is part of the TCP connection.
    pub(crate) async fn connect(&self, seen: &mut Seen) -> Result<Wire, Failure> {
        seen.stage = Stage::Resolve;
        let stamped = match &self.way {
            Way::Tcp(nearest) => {
                let (resolver, proxy) = &**nearest;
                let whom = proxy.as_ref().map(|proxy| format!("the proxy {}", proxy.authority));
                let (addresses, waited) = resolver.resolve().await;
                seen.exchange.stamps.dns_ns = waited;
                let addresses = addresses
                    .map_err(|e| failure::resolve(whom.as_deref().unwrap_or(&self.authority), &e))?;
                seen.stage = Stage::Connect;
                let began = mono_ns();
                let stream = self.through_tcp(&addresses, proxy.as_ref()).await;
                seen.exchange.stamps.tcp_ns = Some((began, mono_ns()));
                stream?
            }
            #[cfg(unix)]
            Way::Unix(path) => {
                seen.stage = Stage::Connect;
                let began = mono_ns();
                let stream = UnixStream::connect(path).await;
                seen.exchange.stamps.tcp_ns = Some((began, mono_ns()));
                let stream = stream.map_err(|e| failure::connect(&format!("'{}'", path.display()), &e))?;
                Stamped(Socket::new(Stream::Unix(stream), None))
            }
        };
        let Some((config, name)) = &self.tls else { return Ok(Wire::Plain(stamped)) };
        seen.stage = Stage::Tls;
        let began = mono_ns();
        let stream = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stamped).await;
        seen.exchange.stamps.tls_ns = Some((began, mono_ns()));
        let stream = stream.map_err(|e| failure::tls(&self.authority, &e))?;
        if self.http == HttpVersion::Two && !is_http_2(stream.get_ref().1.alpn_protocol()) {
            return Err(failure::not_http_2(&self.authority));
        }
        Ok(Wire::Tls(Box::new(stream)))
    }

    async fn through_tcp(&self, addresses: &[SocketAddr], proxy: Option<&Proxy>) -> Result<Stamped, Failure> {
        let connected = connect_any(addresses).await.map_err(|error| self.explained(error, addresses));
        let tcp = connected.map_err(|e| match proxy {
            None => failure::connect(&self.authority, &e),
            Some(proxy) => failure::proxy_connection(&proxy.authority, &e),
        })?;
        self.made.set(true);
        let mut stamped = Stamped(Socket::new(Stream::Tcp(tcp), self.arrivals.clone()));
        if let Some(proxy) = proxy.filter(|_| self.tls.is_some()) {
            proxy.open_tunnel(&mut stamped, &self.url).await?;
        }
        Ok(stamped)
    }

    /// Without any IPv6 a machine has no address to connect from, which is the same error as having no port left.
    fn explained(&self, error: io::Error, addresses: &[SocketAddr]) -> io::Error {
        let no_address = error.kind() == io::ErrorKind::AddrNotAvailable
            && addresses.first().is_some_and(SocketAddr::is_ipv6)
            && !self.made.get();
        if no_address {
            return io::Error::new(io::ErrorKind::NetworkUnreachable, "no IPv6 address to connect from");
        }
        error
    }
}

#[cfg(unix)]
fn unix_way(path: &Path) -> Result<Way, NetError> {
    match std::os::unix::net::SocketAddr::from_pathname(path) {
        Ok(_) => Ok(Way::Unix(path.to_owned())),
        Err(error) => Err(NetError::UnixSocket { path: path.to_owned(), problem: error.to_string() }),
    }
}

#[cfg(not(unix))]
fn unix_way(path: &Path) -> Result<Way, NetError> {
    Err(NetError::UnixSocket { path: path.to_owned(), problem: "this system has none".to_owned() })
}

/// A TCP connection to a server that is not the one under test: its name is resolved as a client's is, nothing is stamped.
pub async fn dial(server: &ServerAddress) -> io::Result<TcpStream> {
    let (addresses, _) = Resolver::new(server.clone(), IpVersion::Any).resolve().await;
    connect_any(&addresses?).await
}

/// Tries the addresses one after the other; the first one's error is told when none answers.
async fn connect_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut first_error = None;
    for address in addresses {
        match connect_one(*address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    Err(first_error.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound)))
}

/// Buffers are left to the kernel's automatic sizing: the 10 MiB AIPerf asks for are cut to the system's limit and switch
/// it off, which makes the window smaller, not larger.
async fn connect_one(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_nodelay(true)?;
    let options = SockRef::from(&socket);
    let keepalive =
        TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    options.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.connect(address).await
}
