//! Making connections: from a server's name to a stream that HTTP can be spoken over.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aiperf_core::outcome::{Failure, Stage};
use aiperf_core::plan::EndpointPlan;
use aiperf_core::url::BaseUrl;
use aiperf_os::arrival::ArrivalClock;
use aiperf_os::mono_ns;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::resolve::{Resolver, ServerAddress};
use crate::seen::Seen;
use crate::wire::{Socket, Stamped, Stream, Wire};
use crate::{NetError, failure, tls_config};

/// Kernel keep-alive: first probe after, then every, then how many (AIPerf's 60/30/1).
const PROBE_AFTER: Duration = Duration::from_mins(1);
const PROBE_EVERY: Duration = Duration::from_secs(30);
const PROBES: u32 = 1;
/// Unacknowledged data for this long breaks the connection (AIPerf's TCP_USER_TIMEOUT).
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Knows how one server is reached.
#[derive(Debug)]
pub(crate) struct Dialer {
    resolver: Resolver,
    /// `host:port`, for messages.
    authority: String,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
    /// Reads the kernel's receive stamps, if they are wanted.
    arrivals: Option<Rc<ArrivalClock>>,
}

impl Dialer {
    /// A dialer for the server at `url`, with `tls` settings shared between shards; they are made from the plan when an https
    /// URL comes without.
    pub(crate) fn new(
        plan: &EndpointPlan,
        url: &BaseUrl,
        tls: Option<Arc<rustls::ClientConfig>>,
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
        Ok(Self {
            resolver: Resolver::new(address),
            authority: url.authority(),
            tls,
            arrivals: plan.receive_stamps.then(|| Rc::new(ArrivalClock::new())),
        })
    }

    /// `host:port`, for messages.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// How often the wall clock was found to have been set, which receive stamps are told by.
    pub(crate) fn clock_steps(&self) -> u64 {
        self.arrivals.as_ref().map_or(0, |clock| clock.steps())
    }

    /// A fresh connection. What it took is stamped in `seen`, and its stage says how far it came, whenever it is dropped.
    pub(crate) async fn connect(&self, seen: &mut Seen) -> Result<Wire, Failure> {
        seen.stage = Stage::Resolve;
        let (addresses, waited) = self.resolver.resolve().await;
        seen.exchange.stamps.dns_ns = waited;
        let addresses = addresses.map_err(|e| failure::resolve(&self.authority, &e))?;
        seen.stage = Stage::Connect;
        let began = mono_ns();
        let tcp = connect_any(&addresses).await;
        seen.exchange.stamps.tcp_ns = Some((began, mono_ns()));
        let tcp = tcp.map_err(|e| failure::connect(&self.authority, &e))?;
        let stamped = Stamped(Socket::new(Stream::Tcp(tcp), self.arrivals.clone()));
        let Some((config, name)) = &self.tls else { return Ok(Wire::Plain(stamped)) };
        seen.stage = Stage::Tls;
        let began = mono_ns();
        let stream = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stamped).await;
        seen.exchange.stamps.tls_ns = Some((began, mono_ns()));
        Ok(Wire::Tls(Box::new(stream.map_err(|e| failure::tls(&self.authority, &e))?)))
    }
}

/// A TCP connection to a server that is not the one under test: its name is resolved as a client's is, nothing is stamped.
pub async fn dial(server: &ServerAddress) -> io::Result<TcpStream> {
    let (addresses, _) = Resolver::new(server.clone()).resolve().await;
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
    Err(first_error.unwrap_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable)))
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
