//! What to know of a workload that was made.

use super::Synthetic;
use crate::workload::plural;

impl Synthetic {
    /// What the lengths and the tools that draw prompts leave to say, one sentence each.
    pub(super) fn more_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.totals.short > 0 {
            notes.push(self.too_short());
        }
        if let Some(parity) = self.texts.parity() {
            notes.extend(parity.note());
            let texts = self.totals.turns * self.batch;
            let drawn = parity.drawn_offsets();
            if texts > drawn {
                notes.push(format!(
                    "{} of {texts} texts begin where no tool drew: vLLM and SGLang send one text a request and one request a \
                     conversation, and from text {} on the beginnings are this program's own",
                    texts - drawn,
                    drawn + 1
                ));
            }
        }
        notes
    }

    /// How many texts were asked shorter than one can be.
    fn too_short(&self) -> String {
        let (short, texts) = (self.totals.short, self.totals.turns * self.batch);
        let has = if texts == 1 { "has" } else { "have" };
        let prompts = plural(texts, "prompt");
        let least = self.least.first;
        if self.framing.is_none() && self.marking.is_none() {
            return format!(
                "{short} of {texts} {prompts} {has} an ISL below {least}, the shortest input that is not empty: tokenizer '{}' adds {} of \
                 its own (BOS); {least} tokens are sent instead",
                self.tokenizer.name(),
                self.specials,
            );
        }
        let later = if self.totals.most_turns > 1 {
            format!(", {} in later turns", self.least.later)
        } else {
            String::new()
        };
        format!(
            "{short} of {texts} {prompts} {has} an ISL below the least that can be ({least}{later}); the shortest text is sent instead, as \
             --isl-below-minimum floor says"
        )
    }
}
