//! What the terminal tells.

/// Columns of the terminal on stdout, if it is one and says so.
pub fn width() -> Option<usize> {
    #[cfg(unix)]
    {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCGWINSZ writes one winsize, which `size` is.
        let rc = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
        (rc == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
    }
    #[cfg(not(unix))]
    {
        None
    }
}
