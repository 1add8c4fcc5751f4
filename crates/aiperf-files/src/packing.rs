//! How a file is packed: told by its first bytes, whatever its name.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::error::InputError;
use crate::gzip::Gzip;
use crate::zstd::Zstd;

/// Bytes that tell all of them.
pub(crate) const MAGIC: usize = 10;

/// Ways of packing that are known, and not read.
const OTHERS: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x37\x7a\xbc\xaf\x27\x1c", "7z"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// What data that begin with `start` are packed with; an error is a way that is not read.
    fn shown(start: &[u8]) -> Result<Option<Self>, &'static str> {
        let is_zstd = start.len() >= 4
            && (start.starts_with(b"\x28\xb5\x2f\xfd")
                // Frames to be skipped may come first.
                || (start[0] & 0xf0 == 0x50 && start[1..4] == *b"\x2a\x4d\x18"));
        if start.starts_with(b"\x1f\x8b") {
            return Ok(Some(Self::Gzip));
        } else if is_zstd {
            return Ok(Some(Self::Zstd));
        }
        let is_bzip2 = start.starts_with(b"BZh") && start.get(4..10) == Some(b"1AY&SY");
        let other = OTHERS.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, name)| name);
        other.or(is_bzip2.then_some("bzip2")).map_or(Ok(None), Err)
    }

    /// Of a file that begins with `start`; `None` is one that is not packed.
    pub(crate) fn of(path: &Path, start: &[u8]) -> Result<Option<Self>, InputError> {
        match Self::shown(start) {
            Ok(None) => {}
            Ok(packing) => return Ok(packing),
            Err(packing) => return Err(InputError::Packing { path: path.to_owned(), packing }),
        }
        let promised = match path.extension().and_then(OsStr::to_str) {
            Some("gz" | "gzip") => Some(Self::Gzip),
            Some("zst" | "zstd") => Some(Self::Zstd),
            _ => None,
        };
        match promised {
            Some(packing) if !start.is_empty() => {
                Err(InputError::Misnamed { path: path.to_owned(), packing: packing.name() })
            }
            _ => Ok(None),
        }
    }

    /// Refuses what was unpacked and begins with `start`, where it is packed once more.
    pub(crate) fn check_inner(self, path: &Path, start: &[u8]) -> Result<(), InputError> {
        let inner = match Self::shown(start) {
            Ok(None) => return Ok(()),
            Ok(Some(inner)) => inner.name(),
            Err(name) => name,
        };
        Err(InputError::PackedTwice { path: path.to_owned(), packing: self.name(), inner })
    }

    /// Reads what is packed in `from`.
    pub(crate) fn unpacked<'a, R: BufRead + 'a>(self, from: R) -> Box<dyn Read + 'a> {
        match self {
            Self::Gzip => Box::new(Gzip::new(from)),
            Self::Zstd => Box::new(Zstd::new(from)),
        }
    }

    /// What an error of such a reader says of the file.
    pub(crate) fn error(self, path: &Path, error: &io::Error) -> InputError {
        let (path, packing) = (path.to_owned(), self.name());
        if is_end(error) {
            return InputError::CutOff { path, packing };
        }
        // The innermost reason is the one that says something.
        let mut reason: &dyn Error = error;
        while let Some(inner) = reason.source() {
            reason = inner;
        }
        InputError::Broken { path, packing, reason: reason.to_string() }
    }
}

/// Whether the data had no end.
fn is_end(error: &io::Error) -> bool {
    let mut error: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = error {
        let io = current.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        // An error of the system's kind that holds another does not name it as its source.
        error =
            io.and_then(|io| io.get_ref()).map(|inner| inner as &(dyn Error + 'static)).or(current.source());
    }
    false
}
