//! Files of the user's as they come: as they are, packed, or through a pipe.
//!
//! Whoever [`open`]s one has a file that can be read from any place, as often as needed: what is packed, or comes from standard
//! input, is written once into a file without a name in the folder for temporary files, which goes when it is closed.

mod error;
mod gzip;
mod open;
mod packing;
mod zstd;

pub use error::InputError;
pub use open::{BYTE_ORDER_MARK, Input, STANDARD_INPUT, is_standard_input, open, reader, spool};
