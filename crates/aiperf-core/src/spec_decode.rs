//! What a server tells of speculative decoding of one request.

use std::fmt;

/// Counts of one request: how many draft tokens were proposed and how many of them the model took. Made by [`SpecDecode::checked`] alone,
/// so they agree with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecDecode {
    /// Mean number of tokens that a step gave, as the server says: 1 + accepted ÷ steps.
    pub mean_acceptance_length: f64,
    /// Share of proposed tokens that were accepted, 0 to 1, as the server says.
    pub draft_acceptance_rate: f64,
    /// Place j holds the number of steps that accepted exactly j draft tokens.
    pub histogram: Vec<u64>,
    /// Draft tokens accepted.
    pub accepted: u64,
    /// Draft tokens proposed.
    pub drafted: u64,
    /// Verify steps.
    pub steps: u64,
    /// Most draft tokens of a step.
    pub width: Option<u64>,
    /// Accepted draft tokens of each step.
    pub per_step_accepted: Option<Vec<u64>>,
    /// Proposed draft tokens of each step.
    pub per_step_drafted: Option<Vec<u64>>,
}

/// Why counts are no counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SpecDecode {
    /// The counts, if they agree: the histogram has a place for each number of accepted tokens, its counts add up to the steps and, by
    /// place, to the accepted tokens, of which there are no more than proposed ones.
    ///
    /// # Errors
    /// In words, which of these does not hold.
    pub fn checked(self) -> Result<Self, Broken> {
        let broken = |words: String| Err(Broken(words));
        if let Some(width) = self.width
            && self.histogram.len() as u64 != width.saturating_add(1)
        {
            return broken(format!(
                "a histogram of {} places for {width} draft tokens",
                self.histogram.len()
            ));
        }
        let steps = self.histogram.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        if steps != self.steps {
            return broken(format!("a histogram of {steps} steps where there were {}", self.steps));
        }
        if steps == 0 {
            return broken("no step".to_owned());
        }
        let accepted = (0..)
            .zip(&self.histogram)
            .fold(0, |sum: u64, (j, n): (u64, _)| sum.saturating_add(j.saturating_mul(*n)));
        if accepted != self.accepted {
            return broken(format!(
                "a histogram of {accepted} accepted tokens where there were {}",
                self.accepted
            ));
        }
        if self.accepted > self.drafted {
            return broken(format!("{} accepted tokens of {} proposed", self.accepted, self.drafted));
        }
        if !(self.mean_acceptance_length.is_finite() && self.mean_acceptance_length >= 1.0) {
            return broken(format!("a mean acceptance length of {}", self.mean_acceptance_length));
        }
        if !(0.0..=1.0).contains(&self.draft_acceptance_rate) {
            return broken(format!("a draft acceptance rate of {}", self.draft_acceptance_rate));
        }
        for (list, sum) in [(&self.per_step_accepted, self.accepted), (&self.per_step_drafted, self.drafted)]
        {
            let Some(list) = list else { continue };
            if list.len() as u64 != steps || list.iter().fold(0, |all: u64, n| all.saturating_add(*n)) != sum
            {
                return broken(format!("a list of {} steps that does not add up to {sum}", list.len()));
            }
        }
        if let (Some(accepted), Some(drafted)) = (&self.per_step_accepted, &self.per_step_drafted)
            && accepted.iter().zip(drafted).any(|(a, d)| a > d)
        {
            return broken("a step that accepted more tokens than were proposed".to_owned());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> SpecDecode {
        SpecDecode {
            mean_acceptance_length: 2.5,
            draft_acceptance_rate: 0.5,
            histogram: vec![2, 3, 3, 2],
            accepted: 15,
            drafted: 30,
            steps: 10,
            width: Some(3),
            per_step_accepted: None,
            per_step_drafted: None,
        }
    }

    #[test]
    fn counts_that_agree_are_counts() {
        assert_eq!(example().checked(), Ok(example()));
        let detailed = SpecDecode {
            per_step_accepted: Some(vec![0, 0, 1, 1, 1, 2, 2, 2, 3, 3]),
            per_step_drafted: Some(vec![3; 10]),
            ..example()
        };
        assert!(detailed.checked().is_ok());
    }

    #[test]
    fn counts_that_do_not_agree_are_told() {
        for (broken, words) in [
            (SpecDecode { width: Some(4), ..example() }, "a histogram of 4 places for 4 draft tokens"),
            (SpecDecode { steps: 11, ..example() }, "a histogram of 10 steps where there were 11"),
            (SpecDecode { accepted: 14, ..example() }, "15 accepted tokens where there were 14"),
            (SpecDecode { drafted: 14, ..example() }, "15 accepted tokens of 14 proposed"),
            (SpecDecode { draft_acceptance_rate: 50.0, ..example() }, "rate of 50"),
            (SpecDecode { mean_acceptance_length: f64::NAN, ..example() }, "length of NaN"),
            (SpecDecode { per_step_accepted: Some(vec![15]), ..example() }, "a list of 1 steps"),
            (SpecDecode { histogram: vec![0; 4], steps: 0, accepted: 0, ..example() }, "no step"),
        ] {
            let Err(Broken(said)) = broken.checked() else { panic!("{words}") };
            assert!(said.contains(words), "{said}");
        }
    }
}
