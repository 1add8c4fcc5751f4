//! Reads that tell when the kernel got the bytes, not when somebody came to fetch them.
//!
//! A busy thread reads late. On Linux a socket with [`stamp_arrivals`] carries the time of arrival along with the bytes
//! (`SO_TIMESTAMPNS`); elsewhere, and for bytes without a stamp, the moment of the read stands in.

use std::io;
use std::task::{Context, Poll};

use tokio::net::TcpStream;

use crate::clock::mono_ns;

/// A stamp older than this is not believed: the wall clock, which the kernel stamps with, was set meanwhile.
#[cfg(target_os = "linux")]
const OLDEST_NS: u64 = 60_000_000_000;

/// Asks the kernel to stamp what arrives on `socket` from now on. Where it cannot, [`poll_receive`] gives the moment of the read.
pub fn stamp_arrivals(socket: &TcpStream) {
    #[cfg(target_os = "linux")]
    imp::stamp_arrivals(socket);
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

/// Reads into `buf`: how many bytes (0 at the end of the stream), and the monotonic time at which the last segment they came in
/// was received.
pub fn poll_receive(
    socket: &TcpStream,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<(usize, u64)>> {
    #[cfg(target_os = "linux")]
    let read = |buf: &mut [u8]| imp::receive(socket, buf);
    #[cfg(not(target_os = "linux"))]
    let read = |buf: &mut [u8]| receive_portably(socket, buf);
    poll_with(socket, cx, buf, read)
}

fn poll_with(
    socket: &TcpStream,
    cx: &mut Context<'_>,
    buf: &mut [u8],
    read: impl Fn(&mut [u8]) -> io::Result<(usize, u64)>,
) -> Poll<io::Result<(usize, u64)>> {
    loop {
        match socket.poll_read_ready(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        match read(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return Poll::Ready(result),
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
fn receive_portably(socket: &TcpStream, buf: &mut [u8]) -> io::Result<(usize, u64)> {
    socket.try_read(buf).map(|n| (n, mono_ns()))
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io;
    use std::mem;
    use std::os::fd::AsRawFd;

    use tokio::io::Interest;
    use tokio::net::TcpStream;

    use super::{OLDEST_NS, mono_ns};
    use crate::clock::anchor;

    /// Room for one control message with a timespec, aligned as its header asks.
    #[repr(C, align(8))]
    struct Control([u8; 64]);

    pub(super) fn stamp_arrivals(socket: &TcpStream) {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor lives as long as `socket`, and `on` is a readable int of the size that is told. Failing leaves
        // bytes without stamps, which reads allow for.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                mem::size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
    }

    pub(super) fn receive(socket: &TcpStream, buf: &mut [u8]) -> io::Result<(usize, u64)> {
        socket.try_io(Interest::READABLE, || {
            let mut control = Control([0; 64]);
            let mut part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
            // SAFETY: a message header is integers and pointers, for which zero is a value.
            let mut message: libc::msghdr = unsafe { mem::zeroed() };
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = control.0.len() as _;
            // SAFETY: `message` points to one part, which is all of `buf`, and to `control`; all outlive the call.
            let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
            let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
            Ok((n, arrival(&message).unwrap_or_else(mono_ns)))
        })
    }

    /// The stamp among the control messages, as monotonic time.
    fn arrival(message: &libc::msghdr) -> Option<u64> {
        // SAFETY: the kernel filled `message`, whose control buffer is still there; the header macros stay inside of it.
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
        let wall_ns =
            u64::try_from(stamp.tv_sec).ok()? * 1_000_000_000 + u64::try_from(stamp.tv_nsec).ok()?;
        let now = anchor();
        let age_ns = now.wall_ns.checked_sub(wall_ns).filter(|age| *age < OLDEST_NS)?;
        now.mono_ns.checked_sub(age_ns)
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

    async fn receive(socket: &TcpStream, buf: &mut [u8]) -> (usize, u64) {
        poll_fn(|cx| poll_receive(socket, cx, buf)).await.expect("reads")
    }

    #[tokio::test]
    async fn bytes_come_whole_and_end_with_nothing() {
        let (near, mut far) = pair().await;
        stamp_arrivals(&near);
        far.write_all(b"abc").await.expect("writes");
        drop(far);
        let mut buf = [0; 2];
        let mut all = Vec::new();
        loop {
            let (n, at_ns) = receive(&near, &mut buf).await;
            assert!(at_ns <= mono_ns());
            if n == 0 {
                break;
            }
            all.extend_from_slice(&buf[..n]);
        }
        assert_eq!(all, b"abc");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_stamp_is_from_before_the_read() {
        let (near, mut far) = pair().await;
        stamp_arrivals(&near);
        // The kernel begins to stamp a moment after the first socket on the machine asked for it.
        for _ in 0..10_000 {
            let before = mono_ns();
            far.write_all(b"x").await.expect("writes");
            // The loopback delivers inside of the write, so the byte is there by now; a new connection takes longer than the slack.
            let written = mono_ns();
            let _late = pair().await;
            let (n, at_ns) = receive(&near, &mut [0; 8]).await;
            assert_eq!(n, 1);
            // The two clocks cannot be read at one moment.
            let slack_ns = 2_000;
            assert!(at_ns + slack_ns >= before, "{before} {at_ns}");
            if at_ns <= written + slack_ns {
                return;
            }
        }
        panic!("no byte carried a stamp");
    }

    #[tokio::test]
    async fn the_portable_read_stamps_itself() {
        let (near, mut far) = pair().await;
        let before = mono_ns();
        far.write_all(b"xy").await.expect("writes");
        let mut buf = [0; 8];
        let read = |buf: &mut [u8]| receive_portably(&near, buf);
        let (n, at_ns) = poll_fn(|cx| poll_with(&near, cx, &mut buf, read)).await.expect("reads");
        assert_eq!(n, 2);
        assert!(at_ns >= before && at_ns <= mono_ns());
    }
}
