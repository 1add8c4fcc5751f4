//! What is asked of the servers around the load.

/// Questions and orders before the first request and around the measured ones. Default: none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HooksPlan {
    /// Wait until every server serves every model.
    pub wait: Option<WaitPlan>,
    /// Have every server forget its prefix cache.
    pub reset: Option<ResetPlan>,
    /// Have every server profile itself while it is measured.
    pub profiler: Option<ProfilerPlan>,
}

/// How it is found out whether a server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// A request of one token is answered, with any status below 500.
    Inference,
    /// The model is in the server's list; a server without a list answers at all.
    Models,
    /// First the list, then the request.
    Both,
}

/// Waiting for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPlan {
    /// How.
    pub mode: WaitMode,
    /// Longest wait for one model on one server.
    pub timeout_ns: u64,
    /// Pause between two tries.
    pub interval_ns: u64,
}

/// Resetting prefix caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetPlan {
    /// Path on the server, from its root.
    pub path: String,
    /// Longest that one try may take.
    pub timeout_ns: u64,
    /// How long a server that is busy is asked again.
    pub retry_ns: u64,
}

/// Profiling of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfilerPlan {
    /// Path that starts it, from the server's root.
    pub start_path: String,
    /// Path that stops it.
    pub stop_path: String,
    /// Longest that either may take.
    pub timeout_ns: u64,
}
