//! What a run would send, told without sending it: `dry_run.json` and the page on the screen.

mod counts;
mod curve;
mod keys;
mod words;

pub use counts::{LengthCounts, Spread};
pub use curve::ArrivalCurve;
pub use keys::{dry_run_schema, json};
pub use words::text;

/// All that is foretold of a run.
#[derive(Debug, Clone)]
pub struct DryRun<'a> {
    /// Version of the program.
    pub version: &'a str,
    /// Seed of the run.
    pub seed: u64,
    /// The command line, secrets redacted.
    pub cli_command: &'a str,
    /// All of the plan was looked at; otherwise the user stopped it.
    pub is_complete: bool,
    /// Where conversations come from.
    pub dataset: &'a str,
    /// How many there are.
    pub conversations: u64,
    /// Turns of all of them.
    pub turns: u64,
    /// What tokens are counted with, if anything.
    pub tokenizer: Option<&'a str>,
    /// Phases in order.
    pub phases: &'a [PhaseForecast],
    /// What a user should know, one sentence each.
    pub notes: &'a [String],
}

/// How far the number of requests of a phase is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// So many are sent.
    Exact,
    /// About so many are sent: with which conversation the phase begins is decided by answers to those before it.
    About,
    /// More are not sent: answers decide how many.
    Most,
    /// Answers alone decide how many; looked at are as many sessions as there are conversations.
    OnePass,
}

impl Bound {
    /// The word files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::About => "about",
            Self::Most => "at_most",
            Self::OnePass => "one_pass",
        }
    }
}

/// What is foretold of a phase.
#[derive(Debug, Clone)]
pub struct PhaseForecast {
    /// Its name.
    pub name: String,
    /// It is a warm-up.
    pub is_warmup: bool,
    /// What starts its sessions, in the words of a configuration file.
    pub pacing: &'static str,
    /// What the numbers are.
    pub bound: Bound,
    /// Sessions that send something.
    pub sessions: u64,
    /// Requests.
    pub requests: u64,
    /// Of them, those behind the first turn of their session.
    pub later_turns: u64,
    /// Input lengths asked for, tokens.
    pub isl_asked: LengthCounts,
    /// Input lengths as counted, tokens.
    pub isl_sent: LengthCounts,
    /// Requests made to a length that have exactly that.
    pub exact: u64,
    /// Output lengths asked for, tokens.
    pub osl_asked: LengthCounts,
    /// Bytes of all bodies.
    pub body_bytes: u64,
    /// Planned arrivals, where there is a plan of them.
    pub arrivals: ArrivalCurve,
    /// How long sending lasts, nanoseconds, where that is known beforehand.
    pub sending_ns: Option<u64>,
    /// Identical requests.
    pub repeats: Repeats,
    /// What a prefix cache would find.
    pub cache: CacheForecast,
}

/// Requests whose whole body is known beforehand, and which of them are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeats {
    /// So many are known.
    pub requests: u64,
    /// Different ones.
    pub distinct: u64,
    /// How often the most frequent one is sent.
    pub most: u64,
    /// Of the different ones, those that a warm-up has sent before.
    pub in_warmup: u64,
}

/// What a prefix cache of blocks would find that never evicts, and has the blocks of a prompt as soon as it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheForecast {
    /// Tokens of a block.
    pub block_tokens: u64,
    /// Requests whose prompt is known.
    pub requests: u64,
    /// Requests whose prompt is not.
    pub unknown: u64,
    /// Tokens of the prompts as the server has them.
    pub prompt_tokens: u64,
    /// Of these, found.
    pub cached_tokens: u64,
    /// Of those found, what only warm-ups sent before.
    pub warmup_tokens: u64,
    /// Found by a server that also keeps the blocks that it decoded.
    pub with_replies_tokens: u64,
    /// Not all blocks found room in memory, so that more would be found.
    pub is_least: bool,
}

impl CacheForecast {
    /// Share of prompt tokens found, 0 to 1; absent without prompts.
    pub fn hit_rate(&self) -> Option<f64> {
        self.share(self.cached_tokens)
    }

    /// The same of a server that keeps what it decoded; absent without prompts.
    pub fn hit_rate_with_replies(&self) -> Option<f64> {
        self.share(self.with_replies_tokens)
    }

    fn share(&self, tokens: u64) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| tokens as f64 / self.prompt_tokens as f64)
    }
}

#[cfg(test)]
mod tests;
