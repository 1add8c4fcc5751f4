//! Units metrics are stored and shown in.

/// A unit. Its [`name`](Unit::name) is the text AIPerf's files hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// 1024 bytes; AIPerf's name for it is `KB`.
    Kilobytes,
    /// Tokens.
    Tokens,
    /// Requests.
    Requests,
    /// Percent, 0 to 100 and beyond.
    Percent,
    /// One number to another.
    Ratio,
    /// A number of something.
    Count,
    /// Images.
    Images,
    /// Images per second.
    ImagesPerSecond,
    /// Milliseconds for each image.
    MillisecondsPerImage,
    /// Requests per second.
    RequestsPerSecond,
    /// Tokens per second.
    TokensPerSecond,
    /// Tokens per second of one request.
    TokensPerSecondPerUser,
}

impl Unit {
    /// The text files and tables hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Milliseconds => "ms",
            Self::Seconds => "sec",
            Self::Bytes => "B",
            Self::Kilobytes => "KB",
            Self::Tokens => "tokens",
            Self::Requests => "requests",
            Self::Percent => "%",
            Self::Ratio => "ratio",
            Self::Count => "count",
            Self::Images => "images",
            Self::ImagesPerSecond => "images/sec",
            Self::MillisecondsPerImage => "ms/image",
            Self::RequestsPerSecond => "requests/sec",
            Self::TokensPerSecond => "tokens/sec",
            Self::TokensPerSecondPerUser => "tokens/sec/user",
        }
    }

    /// Factor from this unit to `to`: multiply, as AIPerf does, so that the last bits agree. `None` when the two are the same unit (values
    /// stay integers) or do not convert.
    pub fn factor_to(self, to: Self) -> Option<f64> {
        if (self, to) == (Self::Bytes, Self::Kilobytes) {
            return Some(1.0 / 1024.0);
        }
        let per_second = |unit| match unit {
            Self::Nanoseconds => Some(1e9),
            Self::Milliseconds => Some(1e3),
            Self::Seconds => Some(1.0),
            _ => None,
        };
        if self == to { None } else { Some(per_second(to)? / per_second(self)?) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_converts_by_multiplication() {
        assert_eq!(Unit::Nanoseconds.factor_to(Unit::Milliseconds), Some(1e-6));
        assert_eq!(Unit::Nanoseconds.factor_to(Unit::Seconds), Some(1e-9));
        assert_eq!(Unit::Nanoseconds.factor_to(Unit::Nanoseconds), None);
        assert_eq!(Unit::Tokens.factor_to(Unit::Seconds), None);
        assert_eq!(Unit::Bytes.factor_to(Unit::Kilobytes), Some(1.0 / 1024.0));
        assert_eq!(Unit::Count.factor_to(Unit::Ratio), None);
        // The product, not the quotient: 114970 / 1e6 would print 0.11497.
        let factor = Unit::Nanoseconds.factor_to(Unit::Milliseconds).expect("times convert");
        assert_eq!((114_970.0 * factor).to_string(), "0.11496999999999999");
    }
}
