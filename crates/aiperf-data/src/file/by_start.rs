//! Sessions of a trace whose rows stand in no order: the rows of each by their times, and all by their first ones.

use super::index::Groups;
use super::starts::Starts;

/// Rows in the order of their times.
pub(super) struct ByStart {
    pub(super) groups: Groups,
    pub(super) begins: Starts,
    /// Of each row its number in its session, where each is a session of its own.
    pub(super) ordinals: Vec<u32>,
    /// Rows that were not wanted.
    pub(super) outside: u64,
}

impl ByStart {
    /// The first `most` conversations of `groups` with those rows whose time is wanted. What is recorded at one time keeps its order.
    /// With `is_alone` each row is a conversation.
    pub(super) fn of(
        groups: &Groups,
        time: impl Fn(usize) -> u64,
        is_wanted: impl Fn(u64) -> bool,
        is_alone: bool,
        most: Option<usize>,
    ) -> Self {
        let mut given: Vec<usize> = Vec::with_capacity(groups.rows());
        // The first time, the end of the rows, and how many without a name are before it in the file.
        let mut sessions: Vec<(u64, usize, usize)> = Vec::new();
        for index in 0..groups.len() {
            let (_, of, unnamed) = groups.conversation(index);
            let start = given.len();
            given.extend(of.into_iter().filter(|row| is_wanted(time(*row))));
            if given.len() > start {
                given[start..].sort_by_key(|row| time(*row));
                sessions.push((time(given[start]), start, unnamed));
            }
        }
        let outside = (groups.rows() - given.len()) as u64;
        let mut order: Vec<usize> = (0..sessions.len()).collect();
        order.sort_by_key(|at| sessions[*at].0);
        let most = most.unwrap_or(usize::MAX);
        let (mut rows, mut starts, mut unnamed) = (Vec::with_capacity(given.len()), vec![0], Vec::new());
        let mut ordinals = if is_alone { vec![0; groups.rows()] } else { Vec::new() };
        let mut begins = Starts::default();
        'all: for at in order {
            let (_, start, nameless) = sessions[at];
            let end = sessions.get(at + 1).map_or(given.len(), |(_, start, _)| *start);
            let size = if is_alone { 1 } else { end - start };
            for (ordinal, turns) in (0..).zip(given[start..end].chunks(size)) {
                if unnamed.len() >= most {
                    break 'all;
                }
                if let Some(of_row) = ordinals.get_mut(turns[0]) {
                    *of_row = ordinal;
                }
                begins.push(Some(time(turns[0])));
                rows.extend_from_slice(turns);
                starts.push(rows.len());
                unnamed.push(nameless);
            }
        }
        Self { groups: Groups::Sessions { rows, starts, unnamed }, begins, ordinals, outside }
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::Grouper;
    use super::*;
    use proptest::prelude::*;

    fn groups(sessions: &[Option<&str>]) -> Groups {
        let mut grouper = Grouper::default();
        for session in sessions {
            grouper.push(session.map(str::to_owned));
        }
        grouper.finish(None)
    }

    fn told(of: &ByStart) -> Vec<(Vec<usize>, usize, u64)> {
        (0..of.groups.len())
            .map(|at| {
                (
                    of.groups.conversation(at).1,
                    of.groups.conversation(at).2,
                    of.begins.get(at).expect("a time"),
                )
            })
            .collect()
    }

    #[test]
    fn sessions_go_by_their_first_rows() {
        let groups = groups(&[Some("a"), None, Some("b"), Some("a"), None]);
        let times = [50, 40, 10, 20, 30];
        let time = |row: usize| times[row];
        let all = ByStart::of(&groups, time, |_| true, false, None);
        assert_eq!(told(&all), [(vec![2], 1, 10), (vec![3, 0], 0, 20), (vec![4], 1, 30), (vec![1], 0, 40)]);
        assert_eq!((all.outside, all.ordinals.len()), (0, 0));
        let some = ByStart::of(&groups, time, |at| (20..=40).contains(&at), false, Some(2));
        assert_eq!((told(&some), some.outside), (vec![(vec![3], 0, 20), (vec![4], 1, 30)], 2));
        let alone = ByStart::of(&groups, time, |_| true, true, None);
        assert_eq!(told(&alone).iter().map(|(rows, ..)| rows[0]).collect::<Vec<_>>(), [2, 3, 0, 4, 1]);
        assert_eq!(alone.ordinals, [1, 0, 0, 0, 0]);
        assert_eq!(alone.begins.get(2), Some(50));
    }

    proptest! {
        /// Against the obvious way: lists of rows, sorted.
        #[test]
        fn no_row_is_lost(rows in prop::collection::vec((prop::option::of("[a-c]"), 0u64..20), 1..40), from in 0u64..10) {
            let names: Vec<Option<&str>> = rows.iter().map(|(name, _)| name.as_deref()).collect();
            let groups = groups(&names);
            let of = ByStart::of(&groups, |row| rows[row].1, |at| at >= from, false, None);
            let mut wanted: Vec<Vec<usize>> = (0..groups.len()).map(|at| groups.conversation(at).1).collect();
            for rows_of in &mut wanted {
                rows_of.retain(|row| rows[*row].1 >= from);
                rows_of.sort_by_key(|row| rows[*row].1);
            }
            wanted.retain(|rows_of| !rows_of.is_empty());
            wanted.sort_by_key(|rows_of| rows[rows_of[0]].1);
            prop_assert_eq!(told(&of).into_iter().map(|(rows, ..)| rows).collect::<Vec<_>>(), wanted);
            prop_assert_eq!(of.outside as usize + of.groups.rows(), rows.len());
        }
    }
}
