//! Reading files, with their paths in the errors.

use std::path::Path;
use std::{fs, io};

use crate::error::TokenizerError;

/// The whole text of the file `path`.
pub(crate) fn read_text(path: &Path) -> Result<String, TokenizerError> {
    let unreadable = |source| TokenizerError::Unreadable { path: path.to_owned(), source };
    // A pipe may wait for ever, a device may have no end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|e| TokenizerError::Broken {
        path: path.to_owned(),
        detail: format!("it is not UTF-8 from byte {} on", e.utf8_error().valid_up_to()),
    })
}

/// Names of what a folder holds, sorted, the first ten alone.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>, TokenizerError> {
    const MOST: usize = 10;
    let unreadable = |source| TokenizerError::Unreadable { path: folder.to_owned(), source };
    let mut names: Vec<String> = fs::read_dir(folder)
        .map_err(unreadable)?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    if names.len() > MOST {
        let more = names.len() - MOST;
        names.truncate(MOST);
        names.push(format!("and {more} more"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_device_without_end_is_not_read() {
        let error = read_text(Path::new("/dev/zero")).expect_err("it is no regular file");
        assert!(error.to_string().starts_with("cannot read /dev/zero"), "{error}");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert_eq!(cause.to_string(), "it is not a regular file");
    }
}
