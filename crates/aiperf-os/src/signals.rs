//! What signals do to the process before anybody listens to them.

/// Whether hang-ups are ignored from birth on, as `nohup` arranges it; who listens nevertheless would undo that.
pub fn hangup_is_ignored() -> bool {
    #[cfg(unix)]
    {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: nothing is set; the present action is written to `action`, which is valid for that.
        let rc = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: a call that succeeded has written the whole structure.
        rc == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
    }
    #[cfg(not(unix))]
    {
        false
    }
}

/// Lets a write beyond the limit on file sizes (`ulimit -f`) fail like one to a full disk. By default a signal ends the process
/// there, and with it everything that was measured.
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    // SAFETY: ignoring a signal installs no handler, so nothing of ours runs in signal context.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_hangup_is_seen() {
        for action in [libc::SIG_IGN, libc::SIG_DFL] {
            // SAFETY: neither action is a handler; no other test of this process looks at this signal.
            unsafe { libc::signal(libc::SIGHUP, action) };
            assert_eq!(hangup_is_ignored(), action == libc::SIG_IGN);
        }
    }
}
