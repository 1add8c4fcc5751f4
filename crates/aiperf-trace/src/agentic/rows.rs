//! Conversations as rows of a trace.

use std::io::{self, Write};

use super::layout::Layout;
use super::session::Conversation;

/// What a row of a later turn holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// What the turn adds, as AIPerf writes it: a replay sends it behind the rows and answers before it. Its blocks are numbered
    /// on from the ids so far, as AIPerf does; first rows of later conversations may have them too.
    Added,
    /// The whole context with all its blocks: a replay sends it as it is, and it shares what the turns before it had.
    Whole,
}

/// Writes the rows, one a line; how many.
pub fn write_rows(
    sessions: &[Conversation],
    layout: Layout,
    rows: Rows,
    out: &mut impl Write,
) -> io::Result<u64> {
    let mut next_id = 0;
    let mut written = 0;
    for session in sessions {
        for (at, turn) in session.turns.iter().enumerate() {
            let is_whole = at == 0 || rows == Rows::Whole;
            let tokens = if is_whole { turn.input } else { turn.new };
            write!(
                out,
                "{{\"session_id\":\"{}\",\"input_length\":{tokens},\"output_length\":{},\"hash_ids\":[",
                session.id, turn.output
            )?;
            if is_whole {
                let ids = layout.ids(session.index, session.group, tokens);
                let most = put(out, ids)?;
                next_id = next_id.max(most.map_or(0, |most| most + 1));
            } else {
                let blocks = tokens.div_ceil(layout.block_size());
                put(out, next_id..next_id + blocks)?;
                next_id += blocks;
            }
            if at == 0 {
                write!(out, "],\"timestamp\":0.0,\"group_id\":{}", session.group)?;
                if session.is_restart {
                    out.write_all(b",\"is_restart\":true")?;
                }
            } else {
                // To a tenth of a millisecond, half to even of what the number is.
                write!(out, "],\"delay\":{:.1}", turn.delay_ms)?;
            }
            out.write_all(b"}\n")?;
            written += 1;
        }
    }
    out.flush()?;
    Ok(written)
}

/// The greatest.
fn put(out: &mut impl Write, ids: impl Iterator<Item = u64>) -> io::Result<Option<u64>> {
    let mut most = None;
    for id in ids {
        if most.is_some() {
            out.write_all(b",")?;
        }
        write!(out, "{id}")?;
        most = most.max(Some(id));
    }
    Ok(most)
}
