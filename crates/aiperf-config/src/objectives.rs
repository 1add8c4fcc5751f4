//! Metrics with a bound each, as `tag:value` pairs or as a mapping.

use aiperf_core::text::for_terminal;

use crate::row::Row;
use crate::value::{Trouble, Value};
use crate::yaml::{Data, Node};

/// Pairs separated by white space. Whether there is such a metric is looked up later, with all options at hand.
pub(crate) fn from_text(row: &Row, text: &str) -> Result<Value, Trouble> {
    let bad = |found: String, allowed: String| Trouble::Bad { found, allowed, nearest: None };
    let mut pairs: Vec<(String, f64)> = Vec::new();
    for word in text.split_whitespace() {
        let shown = for_terminal(word, 200);
        let (tag, bound) = word
            .split_once(':')
            .map(|(tag, bound)| (tag.trim(), bound.trim()))
            .filter(|(tag, _)| !tag.is_empty())
            .ok_or_else(|| bad(format!("'{shown}'"), row.kind.allowed()))?;
        let bound = bound
            .parse::<f64>()
            .ok()
            .filter(|x| x.is_finite())
            .ok_or_else(|| bad(format!("'{shown}'"), "a number behind the colon".to_owned()))?;
        if pairs.iter().any(|(t, _)| t == tag) {
            return Err(bad(format!("'{}' twice", for_terminal(tag, 200)), "each metric once".to_owned()));
        }
        pairs.push((tag.to_owned(), bound));
    }
    if pairs.is_empty() {
        return Err(bad(format!("'{}'", for_terminal(text, 200)), row.kind.allowed()));
    }
    Ok(Value::Objectives(pairs))
}

/// A mapping of tags to numbers.
pub(crate) fn from_node(node: &Node) -> Result<Value, Trouble> {
    let shape = |node: &Node, expected: &str| Trouble::Shape {
        found: node.describe(),
        expected: expected.to_owned(),
    };
    let Data::Map(entries) = &node.data else {
        return Err(shape(node, "a mapping of metrics to numbers, such as {request_latency: 250}"));
    };
    let mut pairs = Vec::with_capacity(entries.len());
    for entry in entries {
        let bound = match &entry.node.data {
            Data::Scalar(scalar) => scalar.as_number().filter(|x| x.is_finite()),
            Data::List(_) | Data::Map(_) => None,
        };
        let bound = bound.ok_or_else(|| Trouble::Shape {
            found: format!("{} for {}", entry.node.describe(), for_terminal(&entry.key, 200)),
            expected: "a number".to_owned(),
        })?;
        pairs.push((entry.key.clone(), bound));
    }
    Ok(Value::Objectives(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Id;
    use crate::row::row_of;

    fn read(text: &str) -> Result<Value, Trouble> {
        from_text(row_of(Id::Goodput), text)
    }

    #[test]
    fn pairs_are_separated_by_spaces() {
        assert_eq!(
            read(" a:1.5  b_c:-2\n"),
            Ok(Value::Objectives(vec![("a".into(), 1.5), ("b_c".into(), -2.0)]))
        );
    }

    #[test]
    fn what_is_no_pair_is_told() {
        for text in ["", " ", "a", ":1", "a:", "a:x", "a:inf", "a:1,b:2", "a:1 a:2"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
