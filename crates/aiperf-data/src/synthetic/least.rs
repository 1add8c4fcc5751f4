//! The least that can be asked for, and whether every length of a workload is above it: looked at before anything is sent.

use super::{Synthetic, System};
use crate::error::DataError;
use crate::layout::template_file;
use crate::markers::Marking;
use crate::slot::SHORTEST;
use crate::spread::is_given;
use crate::workload::Visit;

/// Most texts whose drawn lengths, and most conversations whose drawn numbers of turns, are looked at before anything is sent, in a part
/// of a second. One beyond them that cannot be is told when it is made.
const MOST_LOOKED_AT: u64 = 1 << 20;

/// The least that can be asked for, tokens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Least {
    pub(super) first: u64,
    pub(super) later: u64,
}

/// What the workload comes to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) turns: u64,
    pub(super) most_turns: usize,
    /// Turns that ask for less than can be.
    pub(super) short: u64,
}

impl Synthetic {
    pub(super) fn find_least(&self) -> Result<Least, DataError> {
        let bare = |text: &str| self.tokenizer.count(text);
        // The least of all shortest texts, each with a marker at its worst where one lands on it.
        let least_with = |marking: Option<&Marking>, count: &dyn Fn(&str) -> usize| -> isize {
            let one = |text: &&str| marking.map_or_else(|| count(text), |m| m.most_tokens(text, count));
            SHORTEST.iter().map(one).min().unwrap_or(1) as isize
        };
        let marking = self.marking.as_ref();
        if self.marks_system()
            && let System::Made { tokens, .. } = self.system
        {
            let least = least_with(marking, &bare) as u64;
            if tokens < least {
                return Err(DataError::SystemBelowLeast { asked: tokens, least });
            }
        }
        let on_user = marking.filter(|_| !self.marks_system());
        let Some(framing) = &self.framing else {
            // Behind a prefix nothing need follow.
            let text = match (on_user, self.prefixes) {
                (None, Some(_)) => 0,
                _ => least_with(on_user, &bare) as u64,
            };
            return Ok(Least { first: (text + self.specials).max(1), later: 1 + self.specials });
        };
        // With a marker on the system message and without, where both come.
        let marked = marking.and_then(|m| m.marker(Visit { session: 0, warmup: true }, ""));
        let unmarked = marking.is_none_or(|m| m.target().is_warmup_isolation()).then_some(None);
        let mut first = 1;
        for marker in unmarked.into_iter().chain(marked.as_ref().map(Some)) {
            let opening = self.opening(0, marker)?;
            let contents = opening.contents();
            let place = framing.first(&contents);
            let all = if place.is_rendered {
                least_with(on_user, &|text| framing.render_first(&contents, text))
            } else {
                place.outside + least_with(on_user, &|text| place.slot(0).count(&*self.tokenizer, text))
            };
            first = first.max(all - opening.tokens as isize);
        }
        let place = framing.later();
        let later = if place.is_rendered {
            least_with(None, &|text| framing.render_later(text))
        } else {
            place.outside + least_with(None, &|text| place.slot(0).count(&*self.tokenizer, text))
        };
        Ok(Least { first: first as u64, later: later.max(1) as u64 })
    }

    /// Looks at the lengths that will be asked for, so that none is found impossible in the middle of a run: at one conversation where
    /// all are alike, else at every one, or as many as [`MOST_LOOKED_AT`] allows. The totals are those of all conversations; where some
    /// were not looked at, they are taken to be like those that were.
    pub(super) fn check(&self) -> Result<Totals, DataError> {
        let mut totals = Totals::default();
        let mut longest = [0, 0];
        let entries = self.entries as u64;
        let to_look_at = if self.are_alike() { entries.min(1) } else { entries };
        let mut looked_at = 0;
        while looked_at < to_look_at && totals.turns.saturating_mul(self.batch) < MOST_LOOKED_AT {
            let entry = looked_at;
            let turns = self.counted_turns(entry)?;
            totals.turns += turns;
            totals.most_turns = totals.most_turns.max(turns as usize);
            for turn in 0..turns {
                for text in 0..self.batch {
                    let asked = self.asked(entry, turn, text)?;
                    let longest = &mut longest[usize::from(turn > 0)];
                    *longest = asked.max(*longest);
                    if asked >= self.least_of(turn, text) {
                        continue;
                    }
                    // A BOS alone that does not fit is no reason to refuse: the shortest prompt is sent, and a note says so.
                    if !self.floor && (self.framing.is_some() || self.marking.is_some()) {
                        return Err(self.below(entry, turn, text, asked));
                    }
                    totals.short += 1;
                }
            }
            looked_at += 1;
        }
        // Numbers of turns are drawn without the lengths.
        for entry in looked_at..to_look_at.min(MOST_LOOKED_AT) {
            self.counted_turns(entry)?;
        }
        let of_all =
            |count: u64| (u128::from(count) * u128::from(entries) / u128::from(looked_at.max(1))) as u64;
        totals.turns = of_all(totals.turns);
        totals.short = of_all(totals.short);
        self.check_reach(longest)?;
        Ok(totals)
    }

    /// Whether every conversation asks for the same: nothing of it is drawn.
    fn are_alike(&self) -> bool {
        is_given(&self.turns.count) && self.lengths.are_given() && self.texts.parity().is_none()
    }

    /// Whether a template that does more than put something around texts lets them be as long as the longest of first and of later
    /// turns. One that leaves them out would be given ever more words in vain.
    fn check_reach(&self, [first, later]: [u64; 2]) -> Result<(), DataError> {
        let Some(framing) = &self.framing else { return Ok(()) };
        let words = |asked: u64| "The river ".repeat(asked as usize);
        let mut reached = Vec::new();
        let opening = self.opening(0, None)?;
        let contents = opening.contents();
        if framing.first(&contents).is_rendered {
            let asked = (first as isize + opening.tokens as isize).max(0) as u64;
            reached.push((asked, framing.render_first(&contents, &words(asked)) as u64));
        }
        if later > 0 && framing.later().is_rendered {
            reached.push((later, framing.render_later(&words(later)) as u64));
        }
        match reached.into_iter().find(|(asked, reached)| reached < asked) {
            Some((asked, reached)) => {
                Err(DataError::TemplateLosesText { asked, reached, file: template_file(&*self.tokenizer) })
            }
            None => Ok(()),
        }
    }

    pub(super) fn least_of(&self, turn: u64, text: u64) -> u64 {
        match (turn, text) {
            (0, 0) => self.least.first,
            // The marker is on the first text alone.
            (0, _) if self.prefixes.is_some() => self.specials.max(1),
            (0, _) => 1 + self.specials,
            _ => self.least.later,
        }
    }

    fn below(&self, entry: u64, turn: u64, text: u64, asked: u64) -> DataError {
        let mut parts = Vec::new();
        if self.framing.is_some() {
            parts.push("the chat template");
        }
        if turn == 0 && self.marking.is_some() && !self.marks_system() {
            parts.push("the cache-bust marker");
        }
        if self.specials > 0 {
            parts.push("the BOS");
        }
        let same = self.asked(0, 0, 0).is_ok_and(|first| first == asked);
        DataError::BelowLeast {
            what: if turn == 0 { "--isl: an ISL" } else { "--isl: an ISL for a later turn" },
            asked,
            least: self.least_of(turn, text),
            parts: format!("{} and a text of one token", parts.join(", ")),
            place: (!same).then(|| format!("turn {} of conversation {entry}", turn + 1)),
        }
    }
}
