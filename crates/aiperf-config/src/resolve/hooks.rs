//! What is asked of the servers around the load.

use aiperf_core::plan::{HooksPlan, ProfilerPlan, ResetPlan, WaitMode, WaitPlan};
use aiperf_core::time::seconds_to_ns;

use super::Resolver;
use crate::options::Id;

impl Resolver<'_> {
    pub(super) fn hooks(&mut self) -> HooksPlan {
        HooksPlan { wait: self.wait_for_model(), reset: self.reset(), profiler: self.profiler() }
    }

    fn wait_for_model(&mut self) -> Option<WaitPlan> {
        let settings = self.settings;
        let timeout = settings.float_or_default(Id::WaitForModelTimeout);
        let mode = settings.text_or_default(Id::WaitForModelMode);
        let interval = settings.float_or_default(Id::WaitForModelInterval);
        if timeout > 0.0 {
            let mode = match mode.as_str() {
                "models" => WaitMode::Models,
                "both" => WaitMode::Both,
                _ => WaitMode::Inference,
            };
            return Some(WaitPlan {
                mode,
                timeout_ns: seconds_to_ns(timeout),
                interval_ns: seconds_to_ns(interval),
            });
        }
        // What says the default asks for nothing.
        for (id, changed) in [
            (Id::WaitForModelMode, mode != "inference"),
            (Id::WaitForModelInterval, seconds_to_ns(interval) != 5_000_000_000),
        ] {
            if changed {
                self.needs(id, "--wait-for-model-timeout", "without a time nothing is waited for");
            }
        }
        None
    }

    fn reset(&mut self) -> Option<ResetPlan> {
        let parts = [Id::ResetKvCachePath, Id::ResetKvCacheTimeout, Id::ResetKvCacheMaxRetry];
        let path = self.path_on_server(Id::ResetKvCachePath);
        self.is_asked(Id::ResetKvCache, &parts).then(|| ResetPlan {
            path,
            timeout_ns: seconds_to_ns(self.settings.float_or_default(Id::ResetKvCacheTimeout)),
            retry_ns: seconds_to_ns(self.settings.float_or_default(Id::ResetKvCacheMaxRetry)),
        })
    }

    fn profiler(&mut self) -> Option<ProfilerPlan> {
        let parts = [Id::ServerProfilerStartPath, Id::ServerProfilerStopPath, Id::ServerProfilerTimeout];
        let start_path = self.path_on_server(Id::ServerProfilerStartPath);
        let stop_path = self.path_on_server(Id::ServerProfilerStopPath);
        self.is_asked(Id::ServerProfiler, &parts).then(|| ProfilerPlan {
            start_path,
            stop_path,
            timeout_ns: seconds_to_ns(self.settings.float_or_default(Id::ServerProfilerTimeout)),
        })
    }

    /// As in AIPerf, what belongs to it asks for it, too; `--no-…` wins.
    fn is_asked(&self, id: Id, parts: &[Id]) -> bool {
        self.settings.switch(id).unwrap_or_else(|| parts.iter().any(|part| self.settings.has(*part)))
    }

    fn path_on_server(&mut self, id: Id) -> String {
        let path = self.settings.text_or_default(id);
        let is_good = path.starts_with('/')
            && !path.starts_with("//")
            && !path.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#');
        if !is_good {
            self.bad(
                id,
                format!("'{path}'"),
                "a path on the server that starts with / and has no white space",
            );
        }
        path
    }
}
