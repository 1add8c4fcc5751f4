//! Compact JSON straight into a byte buffer, without a value tree. Writing to memory cannot fail.

/// An object being written. Keys are ours and need no escaping.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }

    /// Writes the key; the caller writes the value into the returned buffer.
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// The same with a key that needs escaping.
    pub(crate) fn foreign_key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        text(self.out, key);
        self.out.push(b':');
        self.out
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        text(self.key(key), value);
    }

    pub(crate) fn text_or_null(&mut self, key: &str, value: Option<&str>) {
        match value {
            Some(value) => self.text(key, value),
            None => self.null(key),
        }
    }

    /// Text known to need no escaping.
    pub(crate) fn plain(&mut self, key: &str, value: impl std::fmt::Display) {
        use std::io::Write as _;
        let out = self.key(key);
        out.push(b'"');
        let _ = write!(out, "{value}");
        out.push(b'"');
    }

    /// The same of bytes that are such text.
    pub(crate) fn ascii(&mut self, key: &str, value: &[u8]) {
        let out = self.key(key);
        out.push(b'"');
        out.extend_from_slice(value);
        out.push(b'"');
    }

    /// A name that ends in a number, such as `worker_0`.
    pub(crate) fn numbered(&mut self, key: &str, name: &str, number: u64) {
        let out = self.key(key);
        out.push(b'"');
        out.extend_from_slice(name.as_bytes());
        int(out, number);
        out.push(b'"');
    }

    pub(crate) fn int(&mut self, key: &str, value: u64) {
        int(self.key(key), value);
    }

    pub(crate) fn int_or_null(&mut self, key: &str, value: Option<i64>) {
        match value {
            Some(value) => signed(self.key(key), value),
            None => self.null(key),
        }
    }

    pub(crate) fn real(&mut self, key: &str, value: f64) {
        real(self.key(key), value);
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        self.key(key).extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(crate) fn null(&mut self, key: &str) {
        self.key(key).extend_from_slice(b"null");
    }
}

/// A string, escaped.
pub(crate) fn text(out: &mut Vec<u8>, value: &str) {
    let _ = serde_json::to_writer(out, value);
}

/// Bytes that should be text; what is not UTF-8 becomes U+FFFD.
pub(crate) fn lossy(out: &mut Vec<u8>, value: &[u8]) {
    text(out, &String::from_utf8_lossy(value));
}

/// A whole number.
pub(crate) fn int(out: &mut Vec<u8>, value: u64) {
    let _ = serde_json::to_writer(out, &value);
}

/// A signed whole number.
pub(crate) fn signed(out: &mut Vec<u8>, value: i64) {
    let _ = serde_json::to_writer(out, &value);
}

/// A real number: the shortest text that reads back as the same double, `40.0` for whole ones. Not finite becomes null.
pub(crate) fn real(out: &mut Vec<u8>, value: f64) {
    let _ = serde_json::to_writer(out, &value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_look_as_in_the_files_of_the_reference() {
        let mut out = Vec::new();
        for value in [40.0, 0.0, 0.1 + 0.2, 1e-5, 1.5e300, -0.25] {
            real(&mut out, value);
            out.push(b' ');
        }
        assert_eq!(String::from_utf8_lossy(&out), "40.0 0.0 0.30000000000000004 0.00001 1.5e+300 -0.25 ");
    }

    proptest! {
        #[test]
        fn reals_read_back_as_themselves(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let mut out = Vec::new();
            real(&mut out, value);
            let text = std::str::from_utf8(&out).expect("ASCII");
            prop_assert_eq!(text.parse::<f64>().expect("a number").to_bits(), value.to_bits());
        }

        #[test]
        fn texts_read_back_as_themselves(value in ".*") {
            let mut out = Vec::new();
            text(&mut out, &value);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).expect("a string"), value);
        }
    }
}
