//! Colours, or none.

/// What a piece of text is; decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// Title of a table.
    Title,
    /// Head of a column.
    Head,
    /// Name of a metric.
    Name,
    /// A number.
    Number,
    /// Something absent.
    Absent,
    /// A failure.
    Error,
    /// A hint.
    Note,
    /// Label of a footer line.
    Label,
    /// A path or a command.
    Path,
    /// Everything else.
    Plain,
}

/// Wraps text in the escape sequences of its tone when colour is on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) colour: bool,
}

impl Paint {
    pub(super) fn put(self, out: &mut String, tone: Tone, text: &str) {
        let code = match tone {
            Tone::Title => "3",
            Tone::Head => "1",
            Tone::Name | Tone::Path => "36",
            Tone::Number => "32",
            Tone::Absent => "2",
            Tone::Error | Tone::Note => "33",
            Tone::Label => "1;32",
            Tone::Plain => "",
        };
        if self.colour && !code.is_empty() && !text.trim().is_empty() {
            out.push_str("\x1b[");
            out.push_str(code);
            out.push('m');
            out.push_str(text);
            out.push_str("\x1b[0m");
        } else {
            out.push_str(text);
        }
    }
}
