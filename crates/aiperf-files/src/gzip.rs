//! All members of a gzip file, one after the other.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// The first byte of a member.
const MAGIC: u8 = 0x1f;

/// Reads what the members hold. Zeros behind one are none of it, as for `gzip`; whatever else is no member is an error.
pub(crate) struct Gzip<R> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gzip<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { member: Some(GzDecoder::new(source)) }
    }
}

/// Whether there is a member in `source` behind zeros; an error is something else.
fn goes_on(source: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = source.fill_buf()?;
        let Some(first) = bytes.first() else { return Ok(false) };
        match *first {
            0 => source.consume(1),
            MAGIC => return Ok(true),
            _ => {
                let problem = "something stands behind its gzip data that is none; was it appended?";
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
        }
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let read = member.read(into)?;
            if read > 0 {
                return Ok(read);
            }
            let source = self.member.take().map(GzDecoder::into_inner);
            if let Some(mut source) = source
                && goes_on(&mut source)?
            {
                self.member = Some(GzDecoder::new(source));
            }
        }
        Ok(0)
    }
}
