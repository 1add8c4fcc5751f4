//! Limits of the process.

/// The soft and hard limit on open descriptors, after the soft one was raised as far as the hard one allows
/// (`None` where the platform has no such limit to read).
pub fn raise_descriptor_limit() -> Option<(u64, u64)> {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is valid and writable.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
            return None;
        }
        if limit.rlim_cur < limit.rlim_max {
            let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
            // SAFETY: `wanted` is valid for reading.
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) } == 0 {
                limit = wanted;
            }
        }
        Some((limit.rlim_cur, limit.rlim_max))
    }
    #[cfg(not(unix))]
    {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        if let Some((soft, hard)) = raise_descriptor_limit() {
            assert!(soft > 0 && soft <= hard);
        }
    }
}
