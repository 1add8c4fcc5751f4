//! The socket under HTTP: every read is stamped where it returns, bytes are counted, and one read at a time is let through.
//!
//! The gate is what makes chunk stamps exact. HTTP decoding sits between the socket and us and could read on before its
//! caller took what the earlier read brought. So after a read that brought bytes, the gate is shut: further reads are
//! "not ready" until the connection's driver has taken every frame and opens it again. Then the stamp of the last read is
//! the stamp of every byte taken, whatever the decoder does inside.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use aiperf_os::mono_ns;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What a socket says of itself when nobody reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pulse {
    /// Open, and nothing has come.
    Quiet,
    /// Bytes have come that nobody asked for.
    Talking,
    /// Closed or broken by the server.
    Dead,
}

/// A socket with its stamps and counts, shared by the layers that use it. Times are monotonic nanoseconds, 0 for never.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: RefCell<TcpStream>,
    /// The last read returned: bytes, or the end.
    pub(crate) last_read_ns: Cell<u64>,
    /// Number of reads that brought bytes of HTTP.
    pub(crate) reads: Cell<u64>,
    /// The first write of a request was about to start.
    pub(crate) first_write_ns: Cell<u64>,
    /// The last write returned.
    last_write_ns: Cell<u64>,
    /// Bytes of HTTP read and written since [`Socket::begin`] (under TLS: plain text).
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
    /// `bytes_out` and the last write when the socket last had taken everything.
    flushed: Cell<(u64, u64)>,
    gate_open: Cell<bool>,
    /// A read was refused by the gate.
    starved: Cell<bool>,
}

impl Socket {
    pub(crate) fn new(tcp: TcpStream) -> Rc<Self> {
        Rc::new(Self {
            tcp: RefCell::new(tcp),
            last_read_ns: Cell::new(0),
            reads: Cell::new(0),
            first_write_ns: Cell::new(0),
            last_write_ns: Cell::new(0),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            flushed: Cell::new((0, 0)),
            gate_open: Cell::new(true),
            starved: Cell::new(false),
        })
    }

    /// A new request begins: counts and stamps start again.
    pub(crate) fn begin(&self) {
        self.last_read_ns.set(0);
        self.first_write_ns.set(0);
        self.last_write_ns.set(0);
        self.bytes_in.set(0);
        self.bytes_out.set(0);
        self.flushed.set((0, 0));
    }

    /// Lets one more read through.
    pub(crate) fn open_gate(&self) {
        self.gate_open.set(true);
        self.starved.set(false);
    }

    /// Whether a read was refused since the gate was opened, so that the reader has to be asked again.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.get()
    }

    /// When the last of `bytes` bytes was handed to the kernel, if that many were.
    pub(crate) fn sent_ns(&self, bytes: u64) -> Option<u64> {
        let (flushed, at_ns) = self.flushed.get();
        (bytes > 0 && flushed >= bytes).then_some(at_ns)
    }

    /// Asks the kernel, not the runtime: a FIN that came since the reactor last looked is seen too.
    pub(crate) fn pulse(&self) -> Pulse {
        let tcp = self.tcp.borrow();
        let mut byte = [MaybeUninit::uninit()];
        match socket2::SockRef::from(&*tcp).peek(&mut byte) {
            Ok(0) => Pulse::Dead,
            Ok(_) => Pulse::Talking,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Pulse::Quiet,
            Err(_) => Pulse::Dead,
        }
    }
}

/// The socket as a stream: stamps reads and writes.
#[derive(Debug)]
pub(crate) struct Stamped(pub(crate) Rc<Socket>);

impl Stamped {
    fn write(
        &self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let before = mono_ns();
        let written = write(Pin::new(&mut self.0.tcp.borrow_mut()));
        if matches!(written, Poll::Ready(Ok(n)) if n > 0) {
            if self.0.first_write_ns.get() == 0 {
                self.0.first_write_ns.set(before);
            }
            self.0.last_write_ns.set(mono_ns());
        }
        written
    }
}

impl AsyncRead for Stamped {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut *self.0.tcp.borrow_mut()).poll_read(cx, buf);
        if read.is_ready() {
            self.0.last_read_ns.set(mono_ns());
        }
        read
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|tcp| tcp.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|tcp| tcp.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.tcp.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.tcp.borrow_mut()).poll_shutdown(cx)
    }
}

/// What HTTP is spoken over: counts its bytes and keeps the gate.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(Stamped),
    Tls(Box<TlsStream<Stamped>>),
}

impl Wire {
    pub(crate) fn socket(&self) -> &Rc<Socket> {
        match self {
            Self::Plain(stream) => &stream.0,
            Self::Tls(stream) => &stream.get_ref().0.0,
        }
    }

    fn count_out(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(n)) = &written {
            let out = &self.socket().bytes_out;
            out.set(out.get() + *n as u64);
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.socket().gate_open.get() {
            self.socket().starved.set(true);
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let n = buf.filled().len() - before;
        if n > 0 {
            let socket = self.socket();
            socket.gate_open.set(false);
            socket.reads.set(socket.reads.get() + 1);
            socket.bytes_in.set(socket.bytes_in.get() + n as u64);
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.count_out(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.count_out(written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        let socket = self.socket();
        if matches!(flushed, Poll::Ready(Ok(()))) && socket.bytes_out.get() > socket.flushed.get().0 {
            socket.flushed.set((socket.bytes_out.get(), socket.last_write_ns.get()));
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        (Wire::Plain(Stamped(Socket::new(client))), server)
    }

    /// Reads at most one byte; `None` when the wire says it is not ready.
    async fn read_byte(wire: &mut Wire) -> Option<u8> {
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut *wire).poll_read(cx, &mut buf).is_ready())).await;
        ready.then(|| buf.filled()[0])
    }

    #[tokio::test]
    async fn one_read_goes_through_the_gate_at_a_time() {
        let (mut wire, mut server) = pair().await;
        server.write_all(b"ab").await.expect("writes");
        let first = loop {
            match read_byte(&mut wire).await {
                Some(byte) => break byte,
                None => tokio::task::yield_now().await,
            }
        };
        let socket = Rc::clone(wire.socket());
        let stamp = socket.last_read_ns.get();
        assert_eq!((first, socket.is_starved(), socket.reads.get()), (b'a', false, 1));
        assert_eq!(read_byte(&mut wire).await, None, "more is there, and has to wait");
        assert!(socket.is_starved());
        assert_eq!((socket.last_read_ns.get(), socket.reads.get()), (stamp, 1));
        socket.open_gate();
        assert_eq!(read_byte(&mut wire).await, Some(b'b'));
        assert!(socket.last_read_ns.get() >= stamp && socket.bytes_in.get() == 2);
    }

    #[tokio::test]
    async fn the_pulse_tells_quiet_talking_and_dead() {
        let (wire, mut server) = pair().await;
        assert_eq!(wire.socket().pulse(), Pulse::Quiet);
        server.write_all(b"a").await.expect("writes");
        assert_eq!(wire.socket().pulse(), Pulse::Talking);
        let (wire, server) = pair().await;
        drop(server);
        assert_eq!(wire.socket().pulse(), Pulse::Dead);
    }

    #[tokio::test]
    async fn sent_is_said_only_of_what_was_flushed() {
        let (mut wire, _server) = pair().await;
        let socket = Rc::clone(wire.socket());
        wire.write_all(b"abc").await.expect("writes");
        assert_eq!((socket.bytes_out.get(), socket.sent_ns(3)), (3, None));
        wire.flush().await.expect("flushes");
        assert!(socket.sent_ns(3).is_some_and(|at| at >= socket.first_write_ns.get()));
        assert_eq!(socket.sent_ns(4), None);
        socket.begin();
        assert_eq!(socket.sent_ns(1), None);
    }
}
