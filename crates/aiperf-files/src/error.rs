use std::path::PathBuf;

impl InputError {
    /// No room for what `path` holds.
    pub fn spool(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Spool { path: path.to_owned(), folder: std::env::temp_dir(), source }
    }
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The system does not give it.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Something that is no regular file: it is read more than once.
    #[error("{}: is not a regular file; what comes through a pipe is read with '-', standard input", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A link to nothing.
    #[error("{}: is a link to {}, which does not exist", path.display(), target.display())]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// Text that is not UTF-8 from its first byte on.
    #[error("{}: is {encoding} text, and UTF-8 is read; 'iconv -f {encoding} -t UTF-8' converts it", path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// As `iconv` calls it.
        encoding: &'static str,
    },
    /// Packed data within packed data.
    #[error("{}: is packed twice: its {packing} data hold {inner} data; unpack it once", path.display())]
    PackedTwice {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packing: &'static str,
        /// How what it holds is packed.
        inner: &'static str,
    },
    /// Packed in a way that is not known here.
    #[error("{}: is packed with {packing}, which is not read; pack it with gzip or zstd, or unpack it", path.display())]
    Packing {
        /// The file.
        path: PathBuf,
        /// The way.
        packing: &'static str,
    },
    /// Its name says that it is packed.
    #[error("{}: its name ends like that of {packing} data, and it holds none; was it unpacked, or is it a page that says why it could not be fetched?", path.display())]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// What the name promises.
        packing: &'static str,
    },
    /// The packed data have no end.
    #[error("{}: ends in the middle of its {packing} data; is the file cut off?", path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packing: &'static str,
    },
    /// The packed data are damaged.
    #[error("{}: cannot be unpacked as {packing}: {reason}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// How it is packed.
        packing: &'static str,
        /// The unpacker's reason.
        reason: String,
    },
    /// There is no room for what it holds.
    #[error("{}: cannot be written to a file in {}, where it can be read from any place: {source} (TMPDIR names another folder)", path.display(), folder.display())]
    Spool {
        /// The file.
        path: PathBuf,
        /// Where there is no room.
        folder: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
