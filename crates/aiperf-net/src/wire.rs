//! The socket under HTTP: every read is stamped (by the kernel where what was read came in, and where it returns), and bytes are
//! counted.
//!
//! Who reads takes what a read brought before it reads on, so the stamp of the last read is the stamp of every byte taken.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use aiperf_core::exchange::ReadMark;
use aiperf_os::arrival::ArrivalClock;
use aiperf_os::mono_ns;
use aiperf_os::receive::{Arrival, poll_portably, poll_receive, stamp_arrivals};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
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

/// What carries bytes to a server.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Stream {
    fn poll_receive(
        &mut self,
        clock: Option<&ArrivalClock>,
        floor_ns: u64,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Arrival>> {
        match (self, clock) {
            (Self::Tcp(stream), Some(clock)) => poll_receive(stream, clock, floor_ns, cx, buf),
            (Self::Tcp(stream), None) => poll_portably(stream, cx, buf),
            #[cfg(unix)]
            (Self::Unix(stream), _) => poll_portably(stream, cx, buf),
        }
    }

    fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Unpin)> {
        let writer: &mut (dyn AsyncWrite + Unpin) = match self {
            Self::Tcp(stream) => stream,
            #[cfg(unix)]
            Self::Unix(stream) => stream,
        };
        Pin::new(writer)
    }
}

/// A socket with its stamps and counts, shared by the layers that use it. Times are monotonic nanoseconds, 0 for never.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: RefCell<Stream>,
    /// Reads the kernel's receive stamps; `None` where there are none.
    clock: Option<Rc<ArrivalClock>>,
    /// The last read returned: bytes, or the end.
    pub(crate) last_read_ns: Cell<u64>,
    /// What it brought had arrived: the kernel's word if `by_kernel`, else the same as `last_read_ns`.
    pub(crate) arrived_ns: Cell<u64>,
    by_kernel: Cell<bool>,
    /// Nothing that is read from now on arrived earlier: the arrival before, or the start of the request.
    floor_ns: Cell<u64>,
    /// Number of reads that brought bytes of HTTP.
    pub(crate) reads: Cell<u64>,
    /// The first write of a request was about to start.
    pub(crate) first_write_ns: Cell<u64>,
    /// It had returned.
    pub(crate) head_sent_ns: Cell<u64>,
    /// Writes that took something since [`Socket::begin`].
    pub(crate) writes: Cell<u32>,
    /// The last write began and returned.
    write_began_ns: Cell<u64>,
    last_write_ns: Cell<u64>,
    /// Bytes of HTTP read and written since [`Socket::begin`] (under TLS: plain text).
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
    /// `bytes_out` and the last write when the socket last had taken everything.
    flushed: Cell<(u64, u64)>,
}

impl Socket {
    /// `stream` with nothing stamped yet; what arrives on it is stamped by the kernel if there is a `clock` to read that, and
    /// the kernel does it.
    pub(crate) fn new(stream: Stream, clock: Option<Rc<ArrivalClock>>) -> Rc<Self> {
        let stamps = match &stream {
            Stream::Tcp(tcp) => clock.is_some() && stamp_arrivals(tcp),
            #[cfg(unix)]
            Stream::Unix(_) => false,
        };
        Rc::new(Self {
            stream: RefCell::new(stream),
            clock: clock.filter(|_| stamps),
            last_read_ns: Cell::new(0),
            arrived_ns: Cell::new(0),
            by_kernel: Cell::new(false),
            floor_ns: Cell::new(mono_ns()),
            reads: Cell::new(0),
            first_write_ns: Cell::new(0),
            head_sent_ns: Cell::new(0),
            writes: Cell::new(0),
            write_began_ns: Cell::new(0),
            last_write_ns: Cell::new(0),
            bytes_in: Cell::new(0),
            bytes_out: Cell::new(0),
            flushed: Cell::new((0, 0)),
        })
    }

    /// A new request begins: counts and stamps start again.
    pub(crate) fn begin(&self) {
        self.last_read_ns.set(0);
        self.arrived_ns.set(0);
        self.floor_ns.set(mono_ns());
        self.first_write_ns.set(0);
        self.head_sent_ns.set(0);
        self.writes.set(0);
        self.last_write_ns.set(0);
        self.bytes_in.set(0);
        self.bytes_out.set(0);
        self.flushed.set((0, 0));
    }

    /// When the last write returned.
    pub(crate) fn last_write_ns(&self) -> u64 {
        self.last_write_ns.get()
    }

    /// When the last of `bytes` bytes was handed to the kernel, if that many were.
    pub(crate) fn sent_ns(&self, bytes: u64) -> Option<u64> {
        let (flushed, at_ns) = self.flushed.get();
        (bytes > 0 && flushed >= bytes).then_some(at_ns)
    }

    /// The last read, as the mark of a body that is `body_len` bytes long with what it brought.
    pub(crate) fn mark(&self, body_len: usize) -> ReadMark {
        let read_ns = self.last_read_ns.get();
        if self.by_kernel.get() {
            ReadMark::received(self.arrived_ns.get(), read_ns, body_len)
        } else {
            ReadMark::read(read_ns, body_len)
        }
    }

    /// Our end and the other one; `None` where there are none, as with a Unix socket.
    pub(crate) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &*self.stream.borrow() {
            Stream::Tcp(stream) => stream.local_addr().ok().zip(stream.peer_addr().ok()),
            #[cfg(unix)]
            Stream::Unix(_) => None,
        }
    }

    fn read_returned(&self, arrival: Arrival) {
        let at_ns = arrival.at_ns();
        self.last_read_ns.set(arrival.read_ns);
        self.arrived_ns.set(at_ns);
        self.by_kernel.set(arrival.kernel_ns.is_some());
        self.floor_ns.set(at_ns);
        // The server may answer before the write that it answers has returned here: that one had ended by then.
        if at_ns < self.last_write_ns.get() && at_ns >= self.write_began_ns.get() {
            self.last_write_ns.set(at_ns);
            self.head_sent_ns.set(self.head_sent_ns.get().min(at_ns));
            let (bytes, _) = self.flushed.get();
            if bytes == self.bytes_out.get() {
                self.flushed.set((bytes, at_ns));
            }
        }
    }

    /// Asks the kernel, not the runtime: a FIN that came since the reactor last looked is seen too.
    pub(crate) fn pulse(&self) -> Pulse {
        let stream = self.stream.borrow();
        let socket = match &*stream {
            Stream::Tcp(stream) => socket2::SockRef::from(stream),
            #[cfg(unix)]
            Stream::Unix(stream) => socket2::SockRef::from(stream),
        };
        let mut byte = [MaybeUninit::uninit()];
        match socket.peek(&mut byte) {
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
        write: impl FnOnce(Pin<&mut (dyn AsyncWrite + Unpin)>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let before = mono_ns();
        let written = write(self.0.stream.borrow_mut().writer());
        if matches!(written, Poll::Ready(Ok(n)) if n > 0) {
            let after = mono_ns();
            if self.0.first_write_ns.get() == 0 {
                self.0.first_write_ns.set(before);
                self.0.head_sent_ns.set(after);
            }
            self.0.writes.set(self.0.writes.get() + 1);
            self.0.write_began_ns.set(before);
            self.0.last_write_ns.set(after);
        }
        written
    }
}

impl AsyncRead for Stamped {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = &*self.0;
        let mut stream = socket.stream.borrow_mut();
        let read = stream.poll_receive(socket.clock.as_deref(), socket.floor_ns.get(), cx, buf);
        match read {
            Poll::Ready(Ok(arrival)) => {
                socket.read_returned(arrival);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                socket.read_returned(Arrival { read_ns: mono_ns(), kernel_ns: None });
                Poll::Ready(Err(error))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|stream| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.stream.borrow_mut().writer().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.stream.borrow_mut().writer().poll_shutdown(cx)
    }
}

/// What HTTP is spoken over: counts its bytes.
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
        let before = buf.filled().len();
        let read = match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let n = buf.filled().len() - before;
        if n > 0 {
            let socket = self.socket();
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
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        (Wire::Plain(Stamped(Socket::new(Stream::Tcp(client), None))), server)
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
