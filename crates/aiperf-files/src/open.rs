use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::InputError;
use crate::packing::{MAGIC, Packing};

/// What users call standard input.
pub const STANDARD_INPUT: &str = "-";
/// What some editors put before text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const BUFFER: usize = 1 << 18;

/// A file that can be read from any place, unpacked.
#[derive(Debug)]
pub struct Input {
    /// Read it from the place you want: the cursor is anywhere.
    pub file: File,
    /// What to call it.
    pub name: PathBuf,
    /// It has no name, and is gone when it is closed.
    pub is_spooled: bool,
}

impl Input {
    /// Puts the cursor where the text begins, behind a byte order mark, and says where that is.
    pub fn to_text(&self) -> io::Result<u64> {
        let mut file = &self.file;
        let mut mark = [0; BYTE_ORDER_MARK.len()];
        file.rewind()?;
        let is_marked = file.read_exact(&mut mark).is_ok() && mark == BYTE_ORDER_MARK;
        file.seek(SeekFrom::Start(if is_marked { mark.len() as u64 } else { 0 }))
    }
}

/// Whether `path` is standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Opens a regular file, or standard input (`-`), which can be done once.
pub fn open(path: &Path) -> Result<Input, InputError> {
    if is_standard_input(path) {
        let name = PathBuf::from("standard input");
        let (start, stdin) = begin(&name, io::stdin().lock())?;
        let packing = Packing::of(&name, &start)?;
        if packing.is_none() {
            check_encoding(&name, &start)?;
        }
        let file = spooled(&name, packing, Cursor::new(start).chain(stdin))?;
        return Ok(Input { file, name, is_spooled: true });
    }
    let (file, start) = regular(path)?;
    let packing = Packing::of(path, &start)?;
    let name = path.to_owned();
    match packing {
        None => {
            check_encoding(path, &start)?;
            Ok(Input { file, name, is_spooled: false })
        }
        Some(_) => Ok(Input { file: spooled(path, packing, &file)?, name, is_spooled: true }),
    }
}

/// Reads a regular file from its start, unpacked.
pub fn reader(path: &Path) -> Result<Box<dyn Read>, InputError> {
    let (file, start) = regular(path)?;
    Ok(match Packing::of(path, &start)? {
        None => Box::new(file),
        Some(packing) => packing.unpacked(BufReader::new(file)),
    })
}

/// A regular file at its start, and its first bytes.
fn regular(path: &Path) -> Result<(File, Vec<u8>), InputError> {
    let reading = |source| InputError::Read { path: path.to_owned(), source };
    // Looked at before it is opened: a pipe that nobody writes into would never open.
    let found = std::fs::metadata(path).map_err(|source| match std::fs::read_link(path) {
        Ok(target) if source.kind() == io::ErrorKind::NotFound => {
            InputError::Dangling { path: path.to_owned(), target }
        }
        _ => reading(source),
    })?;
    if !found.is_file() {
        return Err(InputError::NotAFile { path: path.to_owned() });
    }
    let mut file = File::open(path).map_err(reading)?;
    let (start, _) = begin(path, &file)?;
    file.rewind().map_err(reading)?;
    Ok((file, start))
}

/// Refuses text that begins with `start` in an encoding which is easily told.
fn check_encoding(path: &Path, start: &[u8]) -> Result<(), InputError> {
    let told = |encoding| Err(InputError::Encoding { path: path.to_owned(), encoding });
    // Two ASCII characters, where nobody marked it.
    match start {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => told("UTF-32"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => told("UTF-16"),
        [0, 1..=0x7f, 0, 1..=0x7f, ..] => told("UTF-16BE"),
        [1..=0x7f, 0, 1..=0x7f, 0, ..] => told("UTF-16LE"),
        _ => Ok(()),
    }
}

/// The first bytes of `from`, and the rest.
fn begin<R: Read>(path: &Path, mut from: R) -> Result<(Vec<u8>, R), InputError> {
    let mut start = Vec::with_capacity(MAGIC);
    from.by_ref()
        .take(MAGIC as u64)
        .read_to_end(&mut start)
        .map_err(|source| InputError::Read { path: path.to_owned(), source })?;
    Ok((start, from))
}

/// A new file without a name, for what is made of `path`.
pub fn spool(path: &Path) -> Result<File, InputError> {
    tempfile::tempfile().map_err(|source| InputError::spool(path, source))
}

/// Writes what `from` holds into a file without a name.
fn spooled(path: &Path, packing: Option<Packing>, from: impl Read) -> Result<File, InputError> {
    let mut file = spool(path)?;
    let from = BufReader::with_capacity(BUFFER, from);
    let mut from: Box<dyn Read> = match packing {
        Some(packing) => packing.unpacked(from),
        None => Box::new(from),
    };
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(match packing {
                    Some(packing) => packing.error(path, &error),
                    None => InputError::Read { path: path.to_owned(), source: error },
                });
            }
        };
        file.write_all(&buffer[..read]).map_err(|source| InputError::spool(path, source))?;
    }
    if let Some(packing) = packing {
        file.rewind().map_err(|source| InputError::spool(path, source))?;
        let (start, _) = begin(path, &file)?;
        packing.check_inner(path, &start)?;
        check_encoding(path, &start)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(bytes).expect("into memory");
        packer.finish().expect("into memory")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let mut input = open(&path).map_err(|e| e.to_string().replace(&path.display().to_string(), ""))?;
        input.file.rewind().expect("a file");
        let mut all = Vec::new();
        input.file.read_to_end(&mut all).expect("a file");
        let mut again = Vec::new();
        reader(&path).expect("it can be opened").read_to_end(&mut again).expect("it was read before");
        assert_eq!(again, all);
        Ok(all)
    }

    #[test]
    fn the_bytes_tell_how_a_file_is_packed() {
        for name in ["a.jsonl", "a.gz", "a.zst"] {
            assert_eq!(read(name, &gzip(b"hello\n")), Ok(b"hello\n".to_vec()), "{name}");
            assert_eq!(read(name, &zstd(b"hello\n")), Ok(b"hello\n".to_vec()), "{name}");
        }
        assert_eq!(read("a", b"{}"), Ok(b"{}".to_vec()));
        assert_eq!(read("a.gz", b""), Ok(Vec::new()));
        for (bytes, name) in [
            (&b"BZh91AY&SY\0"[..], "bzip2"),
            (b"\xfd7zXZ\0\0", "xz"),
            (b"PK\x03\x04....", "zip"),
            (b"\x04\x22\x4d\x18...", "lz4"),
        ] {
            let said = format!(
                ": is packed with {name}, which is not read; pack it with gzip or zstd, or unpack it"
            );
            assert_eq!(read("a", bytes), Err(said));
        }
        for (name, packing) in [("a.gz", "gzip"), ("a.jsonl.zst", "zstd")] {
            let said = read(name, b"<html>").expect_err("it is not packed");
            assert!(
                said.starts_with(&format!(": its name ends like that of {packing} data, and it holds none")),
                "{said}"
            );
        }
    }

    #[test]
    fn several_parts_are_one_file() {
        let skipped = [&b"\x52\x2a\x4d\x18\x03\0\0\0"[..], b"abc"].concat();
        for parts in [
            vec![gzip(b"a\n"), gzip(b"b\n")],
            vec![zstd(b"a\n"), zstd(b"b\n")],
            vec![skipped.clone(), zstd(b"a\n"), skipped, zstd(b"b\n")],
        ] {
            assert_eq!(read("a", &parts.concat()), Ok(b"a\nb\n".to_vec()));
        }
    }

    #[test]
    fn data_that_are_not_whole_are_told() {
        let text: Vec<u8> =
            (0..40_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_string().into_bytes()).collect();
        for (packing, whole) in [("gzip", gzip(&text)), ("zstd", zstd(&text))] {
            assert_eq!(read("a", &whole).as_deref(), Ok(&text[..]));
            for part in 1..10 {
                let said = read("a", &whole[..whole.len() * part / 10]);
                assert_eq!(
                    said,
                    Err(format!(": ends in the middle of its {packing} data; is the file cut off?")),
                    "{part}"
                );
            }
            let said = read("a", &whole[..whole.len() - 1]);
            assert_eq!(
                said,
                Err(format!(": ends in the middle of its {packing} data; is the file cut off?"))
            );
            let mut damaged = whole.clone();
            damaged.truncate(whole.len() / 2);
            damaged.extend_from_slice(&[0xff; 64]);
            damaged.extend_from_slice(&whole[whole.len() / 2..]);
            let said = read("a", &damaged).expect_err("it is damaged");
            assert!(said.starts_with(&format!(": cannot be unpacked as {packing}: ")), "{said}");
        }
    }

    #[test]
    fn what_stands_behind_packed_data_is_told() {
        for (packing, whole) in [("gzip", gzip(b"a\n")), ("zstd", zstd(b"a\n"))] {
            for more in [&b"hello\n"[..], b"hello, hello, hello\n"] {
                let said = format!(
                    ": cannot be unpacked as {packing}: something stands behind its {packing} data that is none; was it appended?"
                );
                assert_eq!(read("a", &[&whole[..], more].concat()), Err(said));
            }
        }
        assert_eq!(read("a", &[gzip(b"a\n"), vec![0; 700]].concat()), Ok(b"a\n".to_vec()));
        assert_eq!(read("a", &[gzip(b"a\n"), vec![0; 7], gzip(b"b\n")].concat()), Ok(b"a\nb\n".to_vec()));
    }

    #[test]
    fn what_is_packed_twice_is_told() {
        for (bytes, packing, inner) in [
            (gzip(&gzip(b"a")), "gzip", "gzip"),
            (gzip(&zstd(b"a")), "gzip", "zstd"),
            (zstd(b"PK\x03\x04...."), "zstd", "zip"),
        ] {
            let said = format!(": is packed twice: its {packing} data hold {inner} data; unpack it once");
            assert_eq!(read("a", &bytes), Err(said));
        }
    }

    #[test]
    fn text_of_another_encoding_is_told() {
        let wide = |big: bool, text: &str| -> Vec<u8> {
            text.encode_utf16()
                .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect()
        };
        for (bytes, encoding) in [
            (wide(true, "\u{feff}{\"a\":1}"), "UTF-16"),
            (wide(false, "\u{feff}{\"a\":1}"), "UTF-16"),
            (wide(true, "{\"a\":1}"), "UTF-16BE"),
            (wide(false, "[]"), "UTF-16LE"),
            (b"\xff\xfe\0\0{\0\0\0".to_vec(), "UTF-32"),
        ] {
            let said = format!(
                ": is {encoding} text, and UTF-8 is read; 'iconv -f {encoding} -t UTF-8' converts it"
            );
            assert_eq!(read("a", &bytes), Err(said.clone()));
            assert_eq!(read("a", &gzip(&bytes)), Err(said));
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_to_nothing_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("a");
        std::os::unix::fs::symlink("gone", &link).expect("a link");
        let said = open(&link).expect_err("it is not there").to_string();
        assert!(said.ends_with("/a: is a link to gone, which does not exist"), "{said}");
    }

    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(matches!(open(folder.path()), Err(InputError::NotAFile { .. })));
        assert!(matches!(open(&folder.path().join("a")), Err(InputError::Read { .. })));
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(bytes in prop::collection::vec(any::<u8>(), 1..3000)) {
            // A beginning that tells nothing.
            let bytes = [&b"ab"[..], &bytes].concat();
            prop_assert_eq!(read("a", &gzip(&bytes)), Ok(bytes.clone()));
            prop_assert_eq!(read("a", &zstd(&bytes)), Ok(bytes));
        }
    }
}
