//! Reads that tell when the kernel got the bytes, not when somebody came to fetch them.
//!
//! A busy thread reads late. On Linux a TCP socket with [`stamp_arrivals`] carries the time of arrival along with the bytes
//! (`SO_TIMESTAMPNS`); elsewhere, and for bytes without a stamp, the moment of the read stands in.

use std::io;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

use crate::arrival::ArrivalClock;
use crate::clock::mono_ns;

/// When what a read brought had come. Monotonic nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The read returned.
    pub read_ns: u64,
    /// The kernel received the last segment of what was read; never later than `read_ns`. `None` where nobody stamped it.
    pub kernel_ns: Option<u64>,
}

impl Arrival {
    /// The best that is known: the kernel's stamp, else that of the read.
    pub fn at_ns(&self) -> u64 {
        self.kernel_ns.unwrap_or(self.read_ns)
    }
}

/// Asks the kernel to stamp what arrives on `socket` from now on; whether it will. Where it does not, [`poll_receive`] gives the
/// moment of the read alone.
pub fn stamp_arrivals(socket: &TcpStream) -> bool {
    #[cfg(target_os = "linux")]
    return imp::stamp_arrivals(socket);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        false
    }
}

/// Reads into `buf` (nothing is added at the end of the stream) and says when what was read had come: not before `floor_ns`, if
/// the kernel is to be believed.
pub fn poll_receive(
    socket: &mut TcpStream,
    clock: &ArrivalClock,
    floor_ns: u64,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<Arrival>> {
    #[cfg(target_os = "linux")]
    return imp::poll_receive(socket, clock, floor_ns, cx, buf);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (clock, floor_ns);
        poll_portably(socket, cx, buf)
    }
}

/// Reads into `buf` and stamps the read.
pub fn poll_portably(
    socket: &mut (impl tokio::io::AsyncRead + Unpin),
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<Arrival>> {
    let read = std::pin::Pin::new(socket).poll_read(cx, buf);
    read.map_ok(|()| Arrival { read_ns: mono_ns(), kernel_ns: None })
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem::{self, MaybeUninit};
    use std::os::fd::AsRawFd;
    use std::task::{Context, Poll};

    use tokio::io::{Interest, ReadBuf};
    use tokio::net::TcpStream;

    use super::Arrival;
    use crate::arrival::ArrivalClock;
    use crate::clock::mono_ns;

    /// Room for one control message with a timespec, aligned as its header asks.
    #[repr(C, align(8))]
    struct Control(MaybeUninit<[u8; 64]>);

    pub(super) fn stamp_arrivals(socket: &TcpStream) -> bool {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor lives as long as `socket`, and `on` is a readable int of the size that is told.
        let rc = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                mem::size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        rc == 0
    }

    pub(super) fn poll_receive(
        socket: &TcpStream,
        clock: &ArrivalClock,
        floor_ns: u64,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Arrival>> {
        loop {
            match socket.poll_read_ready(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
            let mut came = None;
            let room = buf.remaining();
            let done = socket.try_io(Interest::READABLE, || {
                // SAFETY: nothing is written there but by the kernel, which writes initialised bytes.
                let (n, wall_ns) = receive(socket, unsafe { buf.unfilled_mut() })?;
                // SAFETY: the kernel has filled the first `n` bytes.
                unsafe { buf.assume_init(n) };
                buf.advance(n);
                came = Some(wall_ns);
                // A read that left room has emptied the socket. The reactor is told so here, as by a read that finds nothing;
                // otherwise the next one would be made for that answer alone.
                if n > 0 && n < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match (came, done) {
                (Some(wall_ns), _) => {
                    let read_ns = mono_ns();
                    let kernel_ns = wall_ns.and_then(|wall_ns| clock.map(wall_ns, floor_ns, read_ns));
                    return Poll::Ready(Ok(Arrival { read_ns, kernel_ns }));
                }
                (None, Err(error)) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    _ => return Poll::Ready(Err(error)),
                },
                (None, Ok(())) => {}
            }
        }
    }

    /// How many bytes were put into `part`, and the wall time of their arrival if the kernel told it.
    fn receive(socket: &TcpStream, part: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Option<u64>)> {
        let mut control = Control(MaybeUninit::uninit());
        let mut part = libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        // SAFETY: a message header is integers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control.0) as _;
        // SAFETY: `message` points to one part, which is all of the caller's, and to `control`; all outlive the call.
        let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        Ok((n, wall_ns(&message)))
    }

    /// The stamp among the control messages.
    fn wall_ns(message: &libc::msghdr) -> Option<u64> {
        // SAFETY: the kernel filled `message` and as much of its control buffer, which is still there, as it says; the header
        // macros stay inside of that.
        let stamp = unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            loop {
                let current = header.as_ref()?;
                if current.cmsg_level == libc::SOL_SOCKET && current.cmsg_type == libc::SCM_TIMESTAMPNS {
                    break libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                }
                header = libc::CMSG_NXTHDR(message, header);
            }
        };
        let seconds = u64::try_from(stamp.tv_sec).ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(stamp.tv_nsec).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
        (near, listener.accept().await.expect("accepts").0)
    }

    async fn receive(socket: &mut TcpStream, clock: &ArrivalClock, buf: &mut [u8]) -> (usize, Arrival) {
        let mut buf = ReadBuf::new(buf);
        let arrival = poll_fn(|cx| poll_receive(socket, clock, 0, cx, &mut buf)).await.expect("reads");
        (buf.filled().len(), arrival)
    }

    #[tokio::test]
    async fn bytes_come_whole_and_end_with_nothing() {
        for room in [1, 2, 3, 8] {
            let (mut near, mut far) = pair().await;
            stamp_arrivals(&near);
            let clock = ArrivalClock::new();
            far.write_all(b"abc").await.expect("writes");
            let mut buf = vec![0; room];
            let mut all = Vec::new();
            while all.len() < 3 {
                let (n, arrival) = receive(&mut near, &clock, &mut buf).await;
                assert!(n > 0 && arrival.at_ns() <= arrival.read_ns && arrival.read_ns <= mono_ns());
                all.extend_from_slice(&buf[..n]);
            }
            // A reader that is told of readiness once more after a short read gets what came since.
            far.write_all(b"d").await.expect("writes");
            assert_eq!(receive(&mut near, &clock, &mut buf).await.0, 1);
            drop(far);
            assert_eq!((all.as_slice(), receive(&mut near, &clock, &mut buf).await.0), (&b"abc"[..], 0));
        }
    }

    /// Sends a byte, reads it not before `late_ns` later, and says around which moments.
    #[cfg(target_os = "linux")]
    async fn stamped(late_ns: u64) -> (u64, u64, Arrival) {
        let (mut near, mut far) = pair().await;
        assert!(stamp_arrivals(&near));
        let clock = ArrivalClock::new();
        // The kernel begins to stamp a moment after the first socket on the machine asked for it.
        for _ in 0..100_000 {
            let before = mono_ns();
            far.write_all(b"x").await.expect("writes");
            // The loopback delivers inside of the write, so the byte is there by now.
            let written = mono_ns();
            while mono_ns() < written + late_ns {
                std::hint::spin_loop();
            }
            let (n, arrival) = receive(&mut near, &clock, &mut [0; 8]).await;
            assert_eq!(n, 1);
            if arrival.kernel_ns.is_some() {
                return (before, written, arrival);
            }
            tokio::task::yield_now().await;
        }
        panic!("no byte carried a stamp");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_stamp_is_from_the_write_however_late_the_read() {
        let late_ns = 3_000_000;
        let (before, written, arrival) = stamped(late_ns).await;
        // Two clocks cannot be read at one moment.
        let slack_ns = 2_000;
        let at_ns = arrival.at_ns();
        assert!(at_ns + slack_ns >= before && at_ns <= written + slack_ns, "{before} {at_ns} {written}");
        assert!(arrival.read_ns - at_ns + slack_ns >= late_ns);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn no_stamp_is_from_before_the_floor() {
        let (mut near, mut far) = pair().await;
        stamp_arrivals(&near);
        far.write_all(b"x").await.expect("writes");
        let floor_ns = mono_ns() + 1_000_000;
        let mut byte = [0];
        let mut buf = ReadBuf::new(&mut byte);
        let clock = ArrivalClock::new();
        let arrival = poll_fn(|cx| poll_receive(&mut near, &clock, floor_ns, cx, &mut buf)).await;
        let arrival = arrival.expect("reads");
        assert_eq!((arrival.kernel_ns, arrival.at_ns()), (None, arrival.read_ns));
    }

    #[tokio::test]
    async fn the_portable_read_stamps_itself() {
        let (mut near, mut far) = pair().await;
        let before = mono_ns();
        far.write_all(b"xy").await.expect("writes");
        let mut bytes = [0; 8];
        let mut buf = ReadBuf::new(&mut bytes);
        let arrival = poll_fn(|cx| poll_portably(&mut near, cx, &mut buf)).await.expect("reads");
        assert_eq!((buf.filled(), arrival.kernel_ns), (&b"xy"[..], None));
        assert!(arrival.read_ns >= before && arrival.read_ns <= mono_ns());
    }
}
