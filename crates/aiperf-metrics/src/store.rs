//! Values of a column in order of arrival: in memory, and beyond a size in a scratch file.
//!
//! All columns of a run share one file; each has its own blocks in it. What cannot be written stays in memory. What was written and
//! cannot be read back is told by [`Disk::problem`], and no statistic is made from the rest.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values of a block in the file.
const BLOCK: usize = 1 << 16;
/// Values a column keeps in memory before it uses the file.
const IN_MEMORY: usize = 1 << 20;

/// A number of fixed size that a column is made of.
pub(crate) trait Plain: Copy + Default {
    /// Bytes of it.
    const SIZE: usize;
    /// Bits of its key.
    const BITS: u32 = Self::SIZE as u32 * 8;

    fn put(self, out: &mut [u8]);
    fn get(bytes: &[u8]) -> Self;
    /// Keys are in the order of the values.
    fn key(self) -> u64;
    fn of_key(key: u64) -> Self;
}

macro_rules! bytes {
    ($type:ident) => {
        const SIZE: usize = size_of::<$type>();

        fn put(self, out: &mut [u8]) {
            out.copy_from_slice(&self.to_le_bytes());
        }

        fn get(bytes: &[u8]) -> Self {
            bytes.try_into().map_or(Self::default(), $type::from_le_bytes)
        }
    };
}

impl Plain for u32 {
    bytes!(u32);

    fn key(self) -> u64 {
        self.into()
    }

    fn of_key(key: u64) -> Self {
        key as Self
    }
}

impl Plain for u64 {
    bytes!(u64);

    fn key(self) -> u64 {
        self
    }

    fn of_key(key: u64) -> Self {
        key
    }
}

const SIGN: u64 = 1 << 63;

/// In the order of `f64::total_cmp`.
impl Plain for f64 {
    bytes!(f64);

    fn key(self) -> u64 {
        let bits = self.to_bits();
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    }

    fn of_key(key: u64) -> Self {
        Self::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
    }
}

/// The file that columns use when they grow too long for memory.
#[derive(Debug, Clone)]
pub struct Disk {
    shared: Arc<Shared>,
    block: usize,
    in_memory: usize,
}

struct Shared {
    open: Box<dyn Fn() -> io::Result<File> + Send + Sync>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.state.fmt(f)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Made when the first column needs it.
    file: Option<File>,
    end: u64,
    written: Option<String>,
    read: Option<String>,
}

/// What went wrong with a [`Disk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskProblem {
    /// Values could not be written and stayed in memory; nothing is wrong with them.
    Write(String),
    /// Values could not be read back; statistics of their columns are absent.
    Read(String),
}

impl Disk {
    /// A file that `open` makes when it is needed: empty, to be written and read, gone when it is dropped.
    pub fn new(open: impl Fn() -> io::Result<File> + Send + Sync + 'static) -> Self {
        let shared = Shared { open: Box::new(open), state: Mutex::default() };
        Self { shared: Arc::new(shared), block: BLOCK, in_memory: IN_MEMORY }
    }

    /// The same with other sizes, for tests.
    #[cfg(test)]
    pub(crate) fn sized(mut self, block: usize, in_memory: usize) -> Self {
        (self.block, self.in_memory) = (block, in_memory);
        self
    }

    /// What went wrong so far; the worst of it.
    pub fn problem(&self) -> Option<DiskProblem> {
        let state = self.state();
        let read = state.read.clone().map(DiskProblem::Read);
        read.or_else(|| state.written.clone().map(DiskProblem::Write))
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.state().end
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes and tells where they are; `None` when that cannot be done.
    fn append(&self, bytes: &[u8]) -> Option<u64> {
        let mut state = self.state();
        if state.written.is_some() {
            return None;
        }
        let at = state.end;
        let result = (|| {
            let file = match state.file.take() {
                Some(file) => file,
                None => (self.shared.open)()?,
            };
            let file = state.file.insert(file);
            file.seek(SeekFrom::Start(at))?;
            file.write_all(bytes)
        })();
        match result {
            Ok(()) => {
                state.end = at + bytes.len() as u64;
                Some(at)
            }
            Err(error) => {
                state.written = Some(error.to_string());
                None
            }
        }
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> bool {
        let mut state = self.state();
        let result = match &mut state.file {
            Some(file) => file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(bytes)),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        if let Err(error) = result {
            state.read.get_or_insert_with(|| error.to_string());
            return false;
        }
        true
    }
}

/// A piece of a column in the file.
#[derive(Debug, Clone, Copy)]
struct Block {
    at: u64,
    values: usize,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store<T> {
    disk: Option<Disk>,
    blocks: Vec<Block>,
    /// Values in blocks.
    filed: usize,
    tail: Vec<T>,
    /// The disk took nothing more.
    is_full: bool,
}

impl<T: Plain> Store<T> {
    /// One that uses `disk` beyond a size; without one, all stays in memory.
    pub(crate) fn on(disk: Option<Disk>) -> Self {
        Self { disk, blocks: Vec::new(), filed: 0, tail: Vec::new(), is_full: false }
    }

    pub(crate) fn push(&mut self, value: T) {
        self.tail.push(value);
        if let Some(disk) = self.disk.as_ref().filter(|_| !self.is_full) {
            let room = if self.blocks.is_empty() { disk.in_memory } else { disk.block };
            if self.tail.len() > room {
                self.file();
            }
        }
    }

    /// Moves whole blocks to the file, as many as there are.
    #[cold]
    fn file(&mut self) {
        let Some(disk) = &self.disk else { return };
        let mut bytes = vec![0; disk.block * T::SIZE];
        let mut moved = 0;
        for values in self.tail.chunks_exact(disk.block) {
            for (value, out) in values.iter().zip(bytes.chunks_exact_mut(T::SIZE)) {
                value.put(out);
            }
            let Some(at) = disk.append(&bytes) else { break };
            self.blocks.push(Block { at, values: values.len() });
            moved += values.len();
        }
        self.filed += moved;
        self.tail.drain(..moved);
        self.tail.shrink_to(disk.block * 2);
        self.is_full = moved == 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.filed + self.tail.len()
    }

    /// Values kept in memory.
    pub(crate) fn in_memory(&self) -> &[T] {
        &self.tail
    }

    /// Values in order of arrival. It ends early where the file cannot be read: see [`is_readable`](Self::is_readable).
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        Iter {
            store: self,
            block: 0,
            buffer: Vec::new(),
            values: Vec::new().into_iter(),
            tail: self.tail.iter(),
            is_in_tail: self.blocks.is_empty(),
        }
    }

    /// Hands all values over, in order, in slices.
    pub(crate) fn scan(&self, mut take: impl FnMut(&[T])) {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        for at in 0..self.blocks.len() {
            if !self.read(at, &mut bytes, &mut values) {
                return;
            }
            take(&values);
        }
        take(&self.tail);
    }

    /// Whether all that was written could be read so far.
    pub(crate) fn is_readable(&self) -> bool {
        self.blocks.is_empty()
            || self.disk.as_ref().is_some_and(|disk| !matches!(disk.problem(), Some(DiskProblem::Read(_))))
    }

    /// Appends another column, which uses the same file, or none.
    pub(crate) fn append(&mut self, other: Self) {
        if self.disk.is_none() {
            self.disk.clone_from(&other.disk);
        }
        if other.blocks.is_empty() {
            other.tail.into_iter().for_each(|value| self.push(value));
            return;
        }
        // What is ours comes before the other's blocks, so it has to be in one, too.
        if !self.tail.is_empty() && !self.file_tail() {
            let all: Vec<T> = other.iter().collect();
            self.tail.extend(all);
            return;
        }
        self.blocks.extend(other.blocks);
        self.filed += other.filed;
        self.tail = other.tail;
    }

    fn file_tail(&mut self) -> bool {
        let mut bytes = vec![0; self.tail.len() * T::SIZE];
        for (value, out) in self.tail.iter().zip(bytes.chunks_exact_mut(T::SIZE)) {
            value.put(out);
        }
        let Some(at) = self.disk.as_ref().and_then(|disk| disk.append(&bytes)) else { return false };
        self.blocks.push(Block { at, values: self.tail.len() });
        self.filed += self.tail.len();
        self.tail.clear();
        true
    }

    fn read(&self, block: usize, bytes: &mut Vec<u8>, values: &mut Vec<T>) -> bool {
        let Block { at, values: count } = self.blocks[block];
        bytes.resize(count * T::SIZE, 0);
        if !self.disk.as_ref().is_some_and(|disk| disk.read(at, bytes)) {
            return false;
        }
        values.clear();
        values.extend(bytes.chunks_exact(T::SIZE).map(T::get));
        true
    }
}

/// See [`Store::iter`].
pub(crate) struct Iter<'a, T> {
    store: &'a Store<T>,
    block: usize,
    buffer: Vec<u8>,
    values: std::vec::IntoIter<T>,
    tail: std::slice::Iter<'a, T>,
    /// No block is left.
    is_in_tail: bool,
}

impl<T: Plain> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        // All that most columns are is in memory.
        if self.is_in_tail {
            return self.tail.next().copied();
        }
        self.values.next().or_else(|| self.next_block())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let at_least = self.tail.len() + self.values.len();
        (if self.is_in_tail { at_least } else { 0 }, self.is_in_tail.then_some(at_least))
    }
}

impl<T: Plain> Iter<'_, T> {
    /// The first value behind a block that is over.
    #[cold]
    fn next_block(&mut self) -> Option<T> {
        while self.block < self.store.blocks.len() {
            let mut values = Vec::new();
            if !self.store.read(self.block, &mut self.buffer, &mut values) {
                self.block = self.store.blocks.len();
                self.tail = [].iter();
                break;
            }
            self.block += 1;
            self.values = values.into_iter();
            if let Some(value) = self.values.next() {
                return Some(value);
            }
        }
        self.is_in_tail = true;
        self.tail.next().copied()
    }
}
