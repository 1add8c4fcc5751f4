//! The moment a chat template sees.
//!
//! Some templates print a date (gpt-oss, Llama 3.2). One moment is chosen for a whole run, so that the text which is counted,
//! the text which is sent and the text which a simulated server counts are the same text, also over midnight.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// A local date and time, fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateClock(DateTime);

impl TemplateClock {
    /// The moment `wall_ns` nanoseconds after the Unix epoch, in the time zone of this machine, as Python's
    /// `datetime.now()` would have told it.
    pub fn from_wall_ns(wall_ns: u64) -> Self {
        Self::in_zone(wall_ns, &TimeZone::system())
    }

    /// As [`Self::from_wall_ns`], in UTC.
    pub fn from_wall_ns_utc(wall_ns: u64) -> Self {
        Self::in_zone(wall_ns, &TimeZone::UTC)
    }

    /// Exactly this reading of calendar and clock; `None` when there is no such day or time.
    pub fn civil(year: i16, month: i8, day: i8, hour: i8, minute: i8, second: i8) -> Option<Self> {
        DateTime::new(year, month, day, hour, minute, second, 0).ok().map(Self)
    }

    fn in_zone(wall_ns: u64, zone: &TimeZone) -> Self {
        // Every u64 of nanoseconds is a time before the year 2555, inside jiff's range.
        let stamp = Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or(Timestamp::MAX);
        Self(zone.to_datetime(stamp))
    }

    /// `strftime` of C's locale, the directives of Python's `datetime.strftime` for a time without zone. A directive that is
    /// not known is kept as it stands, as glibc does.
    pub fn strftime(&self, format: &str) -> String {
        let t = self.0;
        let mut out = String::with_capacity(format.len() + 8);
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let Some(mut directive) = chars.next() else {
                out.push('%');
                break;
            };
            // glibc's flag for "no padding".
            let bare = directive == '-';
            if bare {
                let Some(d) = chars.next() else {
                    out.push_str("%-");
                    break;
                };
                directive = d;
            }
            let number =
                |value: i32, width: usize| if bare { value.to_string() } else { format!("{value:0width$}") };
            let hour12 = (i32::from(t.hour()) + 11) % 12 + 1;
            let weekday = usize::try_from(t.weekday().to_sunday_zero_offset()).unwrap_or(0);
            let month = usize::try_from(t.month() - 1).unwrap_or(0);
            match directive {
                'Y' => out.push_str(&t.year().to_string()),
                'y' => out.push_str(&number(i32::from(t.year()).rem_euclid(100), 2)),
                'C' => out.push_str(&number(i32::from(t.year()).div_euclid(100), 2)),
                'm' => out.push_str(&number(i32::from(t.month()), 2)),
                'd' => out.push_str(&number(i32::from(t.day()), 2)),
                'e' => {
                    if !bare && t.day() < 10 {
                        out.push(' ');
                    }
                    out.push_str(&t.day().to_string());
                }
                'H' => out.push_str(&number(i32::from(t.hour()), 2)),
                'I' => out.push_str(&number(hour12, 2)),
                'M' => out.push_str(&number(i32::from(t.minute()), 2)),
                'S' => out.push_str(&number(i32::from(t.second()), 2)),
                'f' => out.push_str(&number(t.subsec_nanosecond() / 1_000, 6)),
                'j' => out.push_str(&number(i32::from(t.day_of_year()), 3)),
                'p' => out.push_str(if t.hour() < 12 { "AM" } else { "PM" }),
                'P' => out.push_str(if t.hour() < 12 { "am" } else { "pm" }),
                'a' => out.push_str(&WEEKDAYS[weekday][..3]),
                'A' => out.push_str(WEEKDAYS[weekday]),
                'b' | 'h' => out.push_str(&MONTHS[month][..3]),
                'B' => out.push_str(MONTHS[month]),
                'u' => out.push_str(&t.weekday().to_monday_one_offset().to_string()),
                'w' => out.push_str(&weekday.to_string()),
                'F' => out.push_str(&self.strftime("%Y-%m-%d")),
                'T' | 'X' => out.push_str(&self.strftime("%H:%M:%S")),
                'R' => out.push_str(&self.strftime("%H:%M")),
                'D' | 'x' => out.push_str(&self.strftime("%m/%d/%y")),
                'c' => out.push_str(&self.strftime("%a %b %e %H:%M:%S %Y")),
                // A time without zone has neither offset nor name.
                'z' | 'Z' => {}
                'n' => out.push('\n'),
                't' => out.push('\t'),
                '%' => out.push('%'),
                other => {
                    out.push('%');
                    if bare {
                        out.push('-');
                    }
                    out.push(other);
                }
            }
        }
        out
    }
}

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_agree_with_python() {
        // Values printed by CPython 3.11: datetime(2025, 1, 2, 15, 4, 5).strftime(...).
        let clock = TemplateClock::civil(2025, 1, 2, 15, 4, 5).expect("a real moment");
        for (format, expected) in [
            ("%Y-%m-%d", "2025-01-02"),
            ("%d %b %Y", "02 Jan 2025"),
            ("%-d %B %y", "2 January 25"),
            ("%A, %a %I:%M:%S %p", "Thursday, Thu 03:04:05 PM"),
            ("%e|%j|%u|%w", " 2|002|4|4"),
            ("%F %T %R %D", "2025-01-02 15:04:05 15:04 01/02/25"),
            ("%c", "Thu Jan  2 15:04:05 2025"),
            ("100%% %f%z%Z", "100% 000000"),
            ("%-H:%-M", "15:4"),
        ] {
            assert_eq!(clock.strftime(format), expected, "{format}");
        }
    }

    #[test]
    fn unknown_and_cut_directives_stay() {
        let clock = TemplateClock::civil(2025, 1, 2, 0, 0, 0).expect("a real moment");
        assert_eq!(clock.strftime("%Q %-Q % "), "%Q %-Q % ");
        assert_eq!(clock.strftime("50%"), "50%");
        assert_eq!(clock.strftime("%I %p"), "12 AM");
    }

    #[test]
    fn wall_time_is_the_moment_it_names() {
        // 1735787045 is 2025-01-02 03:04:05 UTC.
        let clock = TemplateClock::from_wall_ns_utc(1_735_787_045_000_000_000);
        assert_eq!(Some(clock), TemplateClock::civil(2025, 1, 2, 3, 4, 5));
        let _ = TemplateClock::from_wall_ns_utc(u64::MAX).strftime("%c");
        assert_eq!(TemplateClock::civil(2025, 2, 30, 0, 0, 0), None);
    }
}
