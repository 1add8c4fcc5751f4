//! Byte pair merging of one piece: of all neighbours whose joined bytes are a token, the pair of the lowest rank joins
//! first, the leftmost of equal ones, until none is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranks::{NONE, Ranks};

/// Pieces up to this many bytes are scanned for the lowest pair each time, which beats a heap for the short ones that text
/// consists of; longer ones (a line of dashes, a base64 blob, a hostile answer) need the heap's n log n.
const SCAN_LIMIT: usize = 96;

/// Room for merging, kept between pieces.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Where each part begins, and the rank of this part joined with the next.
    parts: Vec<(u32, u32)>,
    /// For the long way: the parts' neighbours.
    links: Vec<Link>,
    heap: BinaryHeap<Reverse<(u32, u32)>>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    /// Where the part that begins here ends.
    end: u32,
    /// Rank of this part joined with the next; [`NONE`] also for places where no part begins any more.
    rank: u32,
}

/// Cuts `piece` into tokens and gives `each` their byte ranges in order. Every single byte is a token of every encoding.
pub(super) fn merge(ranks: &Ranks<'_>, piece: &[u8], scratch: &mut Scratch, each: impl FnMut(&[u8])) {
    if piece.len() <= SCAN_LIMIT {
        scan(ranks, piece, &mut scratch.parts, each);
    } else {
        heap(ranks, piece, scratch, each);
    }
}

fn scan(ranks: &Ranks<'_>, piece: &[u8], parts: &mut Vec<(u32, u32)>, mut each: impl FnMut(&[u8])) {
    parts.clear();
    for (at, pair) in piece.windows(2).enumerate() {
        parts.push((at as u32, ranks.pair(pair[0], pair[1])));
    }
    parts.push((piece.len() as u32 - 1, NONE));
    parts.push((piece.len() as u32, NONE));
    // The rank of the parts at `at` and `at + 1` joined.
    let joined = |parts: &[(u32, u32)], at: usize| match parts.get(at + 2) {
        Some(&(end, _)) => ranks.rank(&piece[parts[at].0 as usize..end as usize]),
        None => NONE,
    };
    loop {
        let mut lowest = (NONE, 0);
        for (at, &(_, rank)) in parts.iter().enumerate() {
            if rank < lowest.0 {
                lowest = (rank, at);
            }
        }
        let (rank, at) = lowest;
        if rank == NONE {
            break;
        }
        parts.remove(at + 1);
        parts[at].1 = joined(parts, at);
        if at > 0 {
            parts[at - 1].1 = joined(parts, at - 1);
        }
    }
    for ends in parts.windows(2) {
        each(&piece[ends[0].0 as usize..ends[1].0 as usize]);
    }
}

fn heap(ranks: &Ranks<'_>, piece: &[u8], scratch: &mut Scratch, mut each: impl FnMut(&[u8])) {
    let Scratch { links, heap, .. } = scratch;
    links.clear();
    heap.clear();
    for at in 0..piece.len() {
        let rank = piece.get(at + 1).map_or(NONE, |&next| ranks.pair(piece[at], next));
        links.push(Link { before: (at as u32).wrapping_sub(1), end: at as u32 + 1, rank });
        if rank != NONE {
            heap.push(Reverse((rank, at as u32)));
        }
    }
    // Sets the rank of the part that begins at `at` joined with the next one.
    let refresh = |links: &mut [Link], heap: &mut BinaryHeap<Reverse<(u32, u32)>>, at: u32| {
        let next = links[at as usize].end as usize;
        let rank = match links.get(next) {
            Some(&Link { end, .. }) => ranks.rank(&piece[at as usize..end as usize]),
            None => NONE,
        };
        links[at as usize].rank = rank;
        if rank != NONE {
            heap.push(Reverse((rank, at)));
        }
    };
    while let Some(Reverse((rank, at))) = heap.pop() {
        // An entry that a later merge has overtaken. A part's joined rank changes whenever its bytes do, for the rank names
        // the bytes, so an equal rank is this very pair.
        if links[at as usize].rank != rank {
            continue;
        }
        let next = links[at as usize].end;
        let end = links[next as usize].end;
        links[next as usize].rank = NONE;
        links[at as usize].end = end;
        if let Some(after) = links.get_mut(end as usize) {
            after.before = at;
        }
        refresh(links, heap, at);
        let before = links[at as usize].before;
        if at > 0 {
            refresh(links, heap, before);
        }
    }
    let mut at = 0;
    while at < piece.len() {
        let end = links[at].end as usize;
        each(&piece[at..end]);
        at = end;
    }
}
