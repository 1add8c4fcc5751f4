//! Streams whose events hold either the whole text so far or only what is new, and do not say which.

use super::answer::Reader;

/// So many events, each longer than the one before and beginning with it, are proof: pieces of a text would have to double it
/// each time.
const PROOF: u32 = 3;

/// What the events of a stream hold.
#[derive(Debug, Default)]
enum Form {
    /// As far as seen each event begins with the one before: the whole text, or pieces that happen to be alike.
    #[default]
    Open,
    Whole,
    Pieces,
}

/// How a stream has gone so far.
#[derive(Debug, Default)]
pub(super) struct Grown {
    form: Form,
    /// Of each event with text, as long as the form is open: length of its text and when it came.
    events: Vec<(usize, u64)>,
    longer: u32,
}

impl Reader<'_> {
    /// Takes up the text of an event. As long as both can be, it is taken for the whole text so far, as SGLang sends it unless told
    /// otherwise; the first event that does not begin with the one before shows that all of them were pieces.
    pub(super) fn grown(&mut self, text: &str, at_ns: u64) {
        let so_far = self.said_so_far();
        let (have, goes_on) = (so_far.text.len(), text.starts_with(&so_far.text));
        match self.grown.form {
            _ if text.is_empty() => {}
            Form::Pieces => self.add_text(text, at_ns),
            // A text that is cut at a stop word when it ends is shorter, and has nothing new.
            Form::Whole => {
                if let Some(news) = text.get(have..).filter(|news| !news.is_empty()) {
                    self.add_text(news, at_ns);
                }
            }
            Form::Open if goes_on => {
                self.grown.events.push((text.len(), at_ns));
                if text.len() > have {
                    self.grown.longer += u32::from(have > 0);
                    self.add_text(&text[have..], at_ns);
                }
                if self.grown.longer >= PROOF {
                    self.grown.form = Form::Whole;
                    self.grown.events = Vec::new();
                }
            }
            Form::Open => {
                self.grown.form = Form::Pieces;
                let before = self.take_text();
                for (len, at_ns) in std::mem::take(&mut self.grown.events) {
                    self.add_text(&before[..len], at_ns);
                }
                self.add_text(text, at_ns);
            }
        }
    }
}
