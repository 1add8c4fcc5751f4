//! `tojson` as `transformers` defines it: Python's `json.dumps`, without the HTML escapes of Jinja's own.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value};

/// Deepest nesting written. Requests are parsed to a depth of 128; only a hostile template builds more.
const MAX_DEPTH: usize = 200;

/// The filter: `tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(
    state: &State<'_, '_>,
    value: &Value,
    args: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let args = args.into_values();
    let (positional, kwargs): (&[Value], Kwargs) = from_args(&args)?;
    let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
        match positional.get(index) {
            Some(value) => Ok(Some(value.clone())),
            None => kwargs.get::<Option<Value>>(name),
        }
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = argument(1, "indent")?.filter(|v| !v.is_none()).map(|v| indent_text(&v)).transpose()?;
    let separators = argument(2, "separators")?.filter(|v| !v.is_none());
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let (item, key) = match separators {
        Some(pair) => (text(&pair.get_item_by_index(0)?)?, text(&pair.get_item_by_index(1)?)?),
        // Python drops the space behind the comma when it breaks lines.
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let mut writer =
        Writer { state, out: String::new(), charged: 0, ensure_ascii, indent, item, key, sort_keys };
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

/// What one level of indent is: that many spaces, or a text.
fn indent_text(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let width = match value.kind() {
        ValueKind::Bool => i64::from(value.is_true()),
        _ => value
            .as_i64()
            .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "indent must be an integer"))?,
    };
    // Each line costs its indent; a width beyond this is an attack on the output.
    Ok(" ".repeat(usize::try_from(width).unwrap_or(0).min(64)))
}

fn text(value: &Value) -> Result<String, Error> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "separators must be two strings"))
}

struct Writer<'a, 't, 'e> {
    state: &'a State<'t, 'e>,
    out: String,
    /// Lengths of 64 bytes in `out` that fuel was taken for.
    charged: usize,
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl Writer<'_, '_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "value is nested too deeply for JSON"));
        }
        // The interpreter charges a filter only for what it returns; a large value must stop while it is written. Its
        // measure is one step, and one more for each 64 bytes.
        let written = self.out.len() / 64;
        self.state.consume_fuel(1 + (written - self.charged) as u64)?;
        self.charged = written;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.between(index, depth + 1);
                    self.value(item, depth + 1)?;
                }
                self.close(items.is_empty(), ']', depth);
            }
            ValueKind::Map => {
                let mut entries: Vec<(String, Value)> = Vec::new();
                for key in value.try_iter()? {
                    entries.push((key_text(&key)?, value.get_item(&key)?));
                }
                if self.sort_keys {
                    // By code point, as Python compares strings; UTF-8 sorts the same.
                    entries.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.out.push('{');
                for (index, (key, item)) in entries.iter().enumerate() {
                    self.between(index, depth + 1);
                    self.string(key);
                    self.out.push_str(&self.key);
                    self.value(item, depth + 1)?;
                }
                self.close(entries.is_empty(), '}', depth);
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("object of type {kind} is not JSON serializable"),
                ));
            }
        }
        Ok(())
    }

    /// What stands before the item of that `index` inside a list or object.
    fn between(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_str(&self.item);
        }
        self.line(depth);
    }

    fn close(&mut self, empty: bool, bracket: char, depth: usize) {
        if !empty {
            self.line(depth);
        }
        self.out.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' => self.escape(c as u16),
                // Python's ensure_ascii pattern keeps space to tilde, so DEL is escaped too.
                c if self.ensure_ascii && c > '~' => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.escape(*unit);
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, unit: u16) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.out.push_str("\\u");
        for shift in [12, 8, 4, 0] {
            self.out.push(char::from(DIGITS[usize::from(unit >> shift & 15)]));
        }
    }
}

/// A mapping's key as `json.dumps` turns it into text.
fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Ok(number(key)),
        kind => Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("keys must be strings or numbers, not {kind}"),
        )),
    }
}

/// An integer in decimal; a float as Python's `repr`: the shortest digits that read back the same, with an exponent
/// below 1e-4 and from 1e16 on.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) => python_float(float),
        Err(_) => value.to_string(),
    }
}

fn python_float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = float.abs();
    if float == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return format!("{float:?}");
    }
    // Rust writes 1e-7 and 1.5e16, Python 1e-07 and 1.5e+16.
    let text = format!("{float:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::python_float;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (float, expected) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e100, "1e+100"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(python_float(float), expected);
        }
    }
}
