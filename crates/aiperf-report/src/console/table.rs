//! A box table: heavy head, light body, as wide as its cells need and never wider than the screen.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::paint::{Paint, Tone};

/// A column that wraps never gets narrower than this.
const NARROWEST: usize = 8;

/// One cell: its lines.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) lines: Vec<String>,
    pub(super) tone: Tone,
}

impl Cell {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { lines: text.into().split('\n').map(str::to_owned).collect(), tone }
    }
}

/// One column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Text stands at the right edge.
    pub(super) right: bool,
    /// Its text may be broken into lines of at least this many columns.
    pub(super) wraps_to: Option<usize>,
    /// May be left out when there is no room; the highest goes first. 0 always stays.
    pub(super) expendable: u8,
}

/// A table to be drawn.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Draws it into at most `width` columns (more only when not even one wrapped column fits).
    pub(super) fn draw(mut self, out: &mut String, width: usize, paint: Paint) {
        let widths = self.fit(width);
        let total = widths.iter().sum::<usize>() + 3 * widths.len() + 1;
        for line in wrap(&self.title, total) {
            let room = total - line.width().min(total);
            let left = room / 2;
            out.push_str(&" ".repeat(left));
            paint.put(out, Tone::Title, &line);
            out.push_str(&" ".repeat(room - left));
            out.push('\n');
        }
        rule(out, &widths, ['┏', '━', '┳', '┓']);
        let heads: Vec<Cell> = self.columns.iter().map(|c| Cell::new(c.head, Tone::Head)).collect();
        self.row(out, &heads, &widths, '┃', paint);
        rule(out, &widths, ['┡', '━', '╇', '┩']);
        for row in &self.rows {
            self.row(out, row, &widths, '│', paint);
        }
        rule(out, &widths, ['└', '─', '┴', '┘']);
    }

    fn row(&self, out: &mut String, cells: &[Cell], widths: &[usize], bar: char, paint: Paint) {
        let height = cells.iter().map(|c| c.lines.len()).max().unwrap_or(0);
        for line in 0..height {
            for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
                let text = cell.lines.get(line).map_or("", String::as_str);
                let room = " ".repeat(width - text.width().min(*width));
                out.push(bar);
                out.push(' ');
                if column.right {
                    out.push_str(&room);
                }
                paint.put(out, cell.tone, text);
                if !column.right {
                    out.push_str(&room);
                }
                out.push(' ');
            }
            out.push(bar);
            out.push('\n');
        }
    }

    /// Breaks text, then leaves columns out, until the table fits; returns the widths of the columns that stay.
    fn fit(&mut self, width: usize) -> Vec<usize> {
        loop {
            let wanted = self.widths();
            let frame = 3 * wanted.len() + 1;
            let excess = (wanted.iter().sum::<usize>() + frame).saturating_sub(width);
            if excess == 0 {
                return wanted;
            }
            let shrink: usize = self
                .columns
                .iter()
                .zip(&wanted)
                .map(|(c, w)| c.wraps_to.map_or(0, |least| w.saturating_sub(least)))
                .sum();
            let drop = (0..self.columns.len())
                .filter(|i| self.columns[*i].expendable > 0)
                .max_by_key(|i| self.columns[*i].expendable);
            match drop {
                Some(at) if excess > shrink => {
                    self.columns.remove(at);
                    for row in &mut self.rows {
                        row.remove(at);
                    }
                }
                _ => return self.shrink(wanted, excess),
            }
        }
    }

    /// Takes `excess` columns from those that wrap, the widest first.
    fn shrink(&mut self, mut widths: Vec<usize>, mut excess: usize) -> Vec<usize> {
        // A very narrow screen takes more than a column likes to give.
        for last_resort in [false, true] {
            while excess > 0 {
                let least = |at: usize| {
                    self.columns[at]
                        .wraps_to
                        .map(|least| if last_resort { NARROWEST.min(least) } else { least })
                };
                let widest = (0..widths.len())
                    .filter(|i| least(*i).is_some_and(|least| widths[*i] > least))
                    .max_by_key(|i| widths[*i]);
                let Some(at) = widest else { break };
                widths[at] -= 1;
                excess -= 1;
            }
        }
        for (at, width) in widths.iter_mut().enumerate() {
            if self.columns[at].wraps_to.is_some() {
                let mut used = self.columns[at].head.width();
                for row in &mut self.rows {
                    let cell = &mut row[at];
                    cell.lines = cell.lines.iter().flat_map(|line| wrap(line, *width)).collect();
                    used = cell.lines.iter().map(|l| l.width()).fold(used, usize::max);
                }
                *width = used.min((*width).max(self.columns[at].head.width()));
            }
        }
        widths
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().flat_map(|row| row[at].lines.iter()).map(|l| l.width());
                cells.fold(self.columns[at].head.width(), usize::max)
            })
            .collect()
    }
}

fn rule(out: &mut String, widths: &[usize], [left, line, cross, right]: [char; 4]) {
    for (i, width) in widths.iter().enumerate() {
        out.push(if i == 0 { left } else { cross });
        out.extend(std::iter::repeat_n(line, width + 2));
    }
    out.push(right);
    out.push('\n');
}

/// Breaks `text` at spaces into lines of at most `width` columns; a word longer than a line is cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches(' ').width();
        if used > 0 && used + bare > width {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        for c in word.chars() {
            let w = c.width().unwrap_or(0);
            if used + w > width {
                if c == ' ' {
                    continue;
                }
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += w;
        }
    }
    if !line.trim_end().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_breaks_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
    }

    proptest! {
        #[test]
        fn wrapping_loses_nothing_but_spaces(text in "[a-z日 ]{0,80}", width in 2usize..30) {
            let lines = wrap(&text, width);
            for line in &lines {
                prop_assert!(line.width() <= width, "{line:?}");
            }
            let bare = |t: &str| t.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(bare(&lines.concat()), bare(&text));
        }
    }
}
