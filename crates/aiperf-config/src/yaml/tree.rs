//! The tree of a YAML text. Refuses what makes a configuration ambiguous or endless: duplicate keys, keys that are no
//! texts, aliases that contain themselves, trees too deep or too large, several documents.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value as Json};

use crate::error::ConfigError;
use crate::place::{Place, Position};

/// Deepest nesting; AIPerf's limit.
const MAX_DEPTH: usize = 256;
/// Most nodes after aliases are expanded: nine aliases of nine aliases … stay small files and become large trees.
const MAX_NODES: usize = 1_000_000;

/// One node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub position: Position,
    pub data: Data,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub key: String,
    pub position: Position,
    pub node: Node,
}

/// A scalar: its text and what the text means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scalar {
    pub raw: String,
    meaning: Meaning,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Meaning {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text,
}

impl Scalar {
    /// A text, whatever it looks like.
    pub(crate) fn text(raw: impl Into<String>) -> Self {
        Self { raw: raw.into(), meaning: Meaning::Text }
    }

    /// A plain scalar of the YAML 1.2 core schema, with `_` between digits as AIPerf's reader has it.
    fn plain(raw: &str) -> Self {
        let meaning = match raw {
            "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
            "true" | "True" | "TRUE" => Meaning::Bool(true),
            "false" | "False" | "FALSE" => Meaning::Bool(false),
            ".inf" | ".Inf" | ".INF" | "+.inf" => Meaning::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Meaning::Float(f64::NEG_INFINITY),
            ".nan" | ".NaN" | ".NAN" => Meaning::Float(f64::NAN),
            _ => number(raw),
        };
        Self { raw: raw.to_owned(), meaning }
    }

    /// The result of a substitution: booleans and numbers are recognised, the rest is text.
    pub(crate) fn coerced(raw: &str) -> Self {
        let trimmed = raw.trim();
        let meaning = match trimmed.to_lowercase().as_str() {
            "true" => Meaning::Bool(true),
            "false" => Meaning::Bool(false),
            _ => number(trimmed),
        };
        Self { raw: raw.to_owned(), meaning }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.meaning == Meaning::Null
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.meaning {
            Meaning::Bool(b) => Some(b),
            _ => None,
        }
    }

    /// A number, also one written as a text (`"5"`): AIPerf takes both.
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self.meaning {
            Meaning::Int(n) => Some(n as f64),
            Meaning::Float(x) => Some(x),
            Meaning::Text => match number(self.raw.trim()) {
                Meaning::Int(n) => Some(n as f64),
                Meaning::Float(x) => Some(x),
                _ => None,
            },
            _ => None,
        }
    }

    /// A whole number, also one written `550.0`.
    pub(crate) fn as_whole(&self) -> Option<i128> {
        let meaning = if self.meaning == Meaning::Text { number(self.raw.trim()) } else { self.meaning };
        match meaning {
            Meaning::Int(n) => Some(n),
            Meaning::Float(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(x as i128),
            _ => None,
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        self.meaning == Meaning::Text
    }

    fn to_json(&self) -> Json {
        match self.meaning {
            Meaning::Null => Json::Null,
            Meaning::Bool(b) => Json::Bool(b),
            Meaning::Int(n) => match (i64::try_from(n), u64::try_from(n)) {
                (Ok(n), _) => Json::from(n),
                (_, Ok(n)) => Json::from(n),
                _ => Number::from_f64(n as f64).map_or(Json::Null, Json::Number),
            },
            Meaning::Float(x) => {
                Number::from_f64(x).map_or_else(|| Json::String(self.raw.clone()), Json::Number)
            }
            Meaning::Text => Json::String(self.raw.clone()),
        }
    }
}

fn number(raw: &str) -> Meaning {
    let (sign, digits) = match raw.as_bytes().first() {
        Some(b'-') => (-1, &raw[1..]),
        Some(b'+') => (1, &raw[1..]),
        _ => (1, raw),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Meaning::Text;
    }
    let radix =
        |prefix: &str, radix| digits.strip_prefix(prefix).and_then(|d| i128::from_str_radix(d, radix).ok());
    if let Some(n) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Meaning::Int(sign * n);
    }
    let plain = digits.replace('_', "");
    if plain.bytes().all(|b| b.is_ascii_digit())
        && !digits.ends_with('_')
        && let Ok(n) = plain.parse::<i128>()
    {
        return Meaning::Int(sign * n);
    }
    let is_float = plain.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match plain.parse::<f64>() {
        Ok(x) if is_float => Meaning::Float(if sign < 0 { -x } else { x }),
        _ => Meaning::Text,
    }
}

impl Node {
    pub(crate) fn to_json(&self) -> Json {
        match &self.data {
            Data::Scalar(s) => s.to_json(),
            Data::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Data::Map(entries) => {
                Json::Object(entries.iter().map(|e| (e.key.clone(), e.node.to_json())).collect::<Map<_, _>>())
            }
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.data, Data::Scalar(s) if s.is_null())
    }

    /// `the text 'abc'`, `a list`: what an error calls it.
    pub(crate) fn describe(&self) -> String {
        match &self.data {
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a mapping".to_owned(),
            Data::Scalar(s) => match s.meaning {
                Meaning::Null => "nothing".to_owned(),
                Meaning::Bool(_) => format!("the truth value {}", self.brief()),
                Meaning::Int(_) | Meaning::Float(_) => format!("the number {}", self.brief()),
                Meaning::Text => format!("the text '{}'", self.brief()),
            },
        }
    }

    /// A scalar's text, cut; a collection's kind.
    pub(crate) fn brief(&self) -> String {
        match &self.data {
            Data::Scalar(s) => aiperf_core::text::for_terminal(&s.raw, 60),
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// The tree of `text`; an empty text is an empty mapping.
pub(crate) fn parse(file: &Arc<str>, text: &str) -> Result<Node, ConfigError> {
    Builder { file, anchors: HashMap::new(), open: Vec::new(), nodes: 0 }.document(text)
}

struct Builder<'a> {
    file: &'a Arc<str>,
    /// Finished nodes by anchor, with their sizes.
    anchors: HashMap<usize, (Node, usize)>,
    /// Collections that are not finished.
    open: Vec<Open>,
    /// Nodes so far, aliases expanded.
    nodes: usize,
}

/// A collection being read.
struct Open {
    position: Position,
    anchor: usize,
    /// Nodes before it.
    nodes_before: usize,
    held: Held,
}

enum Held {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        /// A key whose value has not come.
        key: Option<(String, Position)>,
        /// Mappings merged with `<<`, lowest last.
        merged: Vec<Entry>,
    },
}

impl Builder<'_> {
    fn problem(&self, position: Position, problem: impl Into<String>) -> ConfigError {
        let place = Place::File { file: Arc::clone(self.file), position, key: "".into() };
        ConfigError::Yaml { place, problem: problem.into() }
    }

    fn document(mut self, text: &str) -> Result<Node, ConfigError> {
        let mut root = None;
        let mut documents = 0;
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|e| {
                let mark = e.marker();
                let position = Position { line: mark.line().max(1) as u32, column: mark.col() as u32 + 1 };
                self.problem(position, e.info())
            })?;
            let position = position_of(&span);
            let (node, anchor, size) = match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(self.problem(position, "a second document starts here; one is read"));
                    }
                    continue;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let is_text = style != ScalarStyle::Plain
                        || tag.as_ref().is_some_and(|t| t.core_suffix() == Some("str"));
                    let scalar = if is_text { Scalar::text(text.into_owned()) } else { Scalar::plain(&text) };
                    (Node { position, data: Data::Scalar(scalar) }, anchor, 1)
                }
                Event::SequenceStart(_, anchor, _) => {
                    self.enter(position, anchor, Held::List(Vec::new()))?;
                    continue;
                }
                Event::MappingStart(_, anchor, _) => {
                    self.enter(
                        position,
                        anchor,
                        Held::Map { entries: Vec::new(), key: None, merged: Vec::new() },
                    )?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    let Some(open) = self.open.pop() else { continue };
                    let data = match open.held {
                        Held::List(items) => Data::List(items),
                        Held::Map { entries, merged, .. } => Data::Map(with_merged(entries, merged)),
                    };
                    let size = self.nodes - open.nodes_before;
                    (Node { position: open.position, data }, open.anchor, size)
                }
                Event::Alias(id) => {
                    let Some((node, size)) = self.anchors.get(&id) else {
                        return Err(self.problem(position, "this alias is inside of the node it stands for"));
                    };
                    if self.open.len() + depth(node) > MAX_DEPTH {
                        return Err(self.problem(position, format!("nested deeper than {MAX_DEPTH}")));
                    }
                    let mut node = node.clone();
                    let size = *size;
                    node.position = position;
                    self.nodes += size;
                    (node, 0, size)
                }
                _ => continue,
            };
            if matches!(node.data, Data::Scalar(_)) {
                self.nodes += 1;
            }
            if self.nodes > MAX_NODES {
                return Err(self.problem(position, format!("more than {MAX_NODES} nodes, aliases expanded")));
            }
            if anchor > 0 {
                self.anchors.insert(anchor, (node.clone(), size));
            }
            self.place(node, &mut root)?;
        }
        let start = Position { line: 1, column: 1 };
        match root {
            Some(node) if node.is_null() => Ok(Node { position: start, data: Data::Map(Vec::new()) }),
            Some(node) => Ok(node),
            None => Ok(Node { position: start, data: Data::Map(Vec::new()) }),
        }
    }

    fn enter(&mut self, position: Position, anchor: usize, held: Held) -> Result<(), ConfigError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.problem(position, format!("nested deeper than {MAX_DEPTH}")));
        }
        if let Some(Open { held: Held::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(self.problem(position, "a key must be a text, and this one is a collection"));
        }
        self.open.push(Open { position, anchor, nodes_before: self.nodes, held });
        self.nodes += 1;
        Ok(())
    }

    /// Gives a finished node to the collection it belongs to.
    fn place(&mut self, node: Node, root: &mut Option<Node>) -> Result<(), ConfigError> {
        let position = node.position;
        let Some(open) = self.open.last_mut() else {
            *root = Some(node);
            return Ok(());
        };
        let problem = match &mut open.held {
            Held::List(items) => {
                items.push(node);
                return Ok(());
            }
            Held::Map { key, entries, merged } => match key.take() {
                Some((name, at)) if name == "<<" => {
                    match node.data {
                        Data::Map(more) => merged.extend(more),
                        Data::List(items) => {
                            for item in items {
                                if let Data::Map(more) = item.data {
                                    merged.extend(more);
                                }
                            }
                        }
                        Data::Scalar(_) => {
                            return Err(self.problem(at, "<< merges mappings, and this is none"));
                        }
                    }
                    return Ok(());
                }
                Some((name, at)) => {
                    entries.push(Entry { key: name, position: at, node });
                    return Ok(());
                }
                None => match node.data {
                    Data::Scalar(s) if s.is_text() => {
                        if let Some(first) = entries.iter().find(|e| e.key == s.raw) {
                            let (line, column) = (first.position.line, first.position.column);
                            let place =
                                Place::File { file: Arc::clone(self.file), position, key: s.raw.into() };
                            return Err(ConfigError::DuplicateKey { place, line, column });
                        }
                        *key = Some((s.raw, position));
                        return Ok(());
                    }
                    Data::Scalar(s) => format!("a key must be a text; quote '{}'", s.raw),
                    _ => "a key must be a text, and this one is a collection".to_owned(),
                },
            },
        };
        Err(self.problem(position, problem))
    }
}

/// Levels of a node; itself is one.
fn depth(node: &Node) -> usize {
    1 + match &node.data {
        Data::Scalar(_) => 0,
        Data::List(items) => items.iter().map(depth).max().unwrap_or(0),
        Data::Map(entries) => entries.iter().map(|e| depth(&e.node)).max().unwrap_or(0),
    }
}

/// A mapping's own keys, then those merged into it that it does not have.
fn with_merged(mut entries: Vec<Entry>, merged: Vec<Entry>) -> Vec<Entry> {
    for entry in merged {
        if !entries.iter().any(|e| e.key == entry.key) {
            entries.push(entry);
        }
    }
    entries
}

/// Files are at most 16 MiB, so lines and columns fit.
fn position_of(span: &Span) -> Position {
    Position { line: span.start.line().max(1) as u32, column: span.start.col() as u32 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::fmt::Write as _;

    fn tree(text: &str) -> Result<Node, ConfigError> {
        parse(&"c.yaml".into(), text)
    }

    fn read(text: &str) -> Json {
        tree(text).map(|n| n.to_json()).expect("good YAML")
    }

    fn refused(text: &str) -> String {
        tree(text).expect_err("refused").to_string()
    }

    #[test]
    fn scalars_mean_what_yaml_and_the_reference_say() {
        assert_eq!(
            read(
                "{a: 1_000, b: 010, c: 0x1F, d: -1.5e3, e: true, f: ~, g: 'true', h: yes, i: 2024-01-01, j: '5', k: !!str 7}"
            ),
            json!({"a": 1000, "b": 10, "c": 31, "d": -1500.0, "e": true, "f": null, "g": "true", "h": "yes",
                "i": "2024-01-01", "j": "5", "k": "7"})
        );
        assert_eq!(read(""), json!({}));
        assert_eq!(read("# nothing\n"), json!({}));
        assert_eq!(read("18446744073709551615"), json!(18_446_744_073_709_551_615_u64));
    }

    #[test]
    fn every_node_knows_its_line_and_column() {
        let node = tree("a:\n  - b: 1\n    c: {d: x}\n").expect("good");
        let Data::Map(top) = &node.data else { panic!("a mapping") };
        let Data::List(items) = &top[0].node.data else { panic!("a list") };
        let Data::Map(inner) = &items[0].data else { panic!("a mapping") };
        assert_eq!(inner[1].position, Position { line: 3, column: 5 });
        assert_eq!(inner[0].node.position, Position { line: 2, column: 8 });
        let Data::Map(flow) = &inner[1].node.data else { panic!("a mapping") };
        assert_eq!(flow[0].node.position, Position { line: 3, column: 12 });
    }

    #[test]
    fn aliases_and_merge_keys_work() {
        assert_eq!(
            read("base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\nlist: [*b]\n"),
            json!({"base": {"x": 1, "y": 2}, "own": {"y": 3, "x": 1}, "list": [{"x": 1, "y": 2}]})
        );
    }

    #[test]
    fn ambiguous_and_endless_texts_are_refused_with_their_place() {
        assert_eq!(
            refused("a: 1\nb:\n  c: 1\n  c: 2\n"),
            "c.yaml:4:3: c: this key was already given at line 3, column 3"
        );
        assert_eq!(refused("1: a\n"), "c.yaml:1:1: a key must be a text; quote '1'");
        assert_eq!(refused("? [a]\n: b\n"), "c.yaml:1:3: a key must be a text, and this one is a collection");
        assert_eq!(refused("a: &x [1, *x]\n"), "c.yaml:1:11: this alias is inside of the node it stands for");
        assert_eq!(refused("a: 1\n---\nb: 2\n"), "c.yaml:2:1: a second document starts here; one is read");
        assert!(refused("a: *nope\n").starts_with("c.yaml:1:4: "), "{}", refused("a: *nope\n"));
        assert_eq!(refused("a: [1, 2\n"), "c.yaml:1:4: unclosed bracket '['");
        let deep = format!("a: {}1{}", "[".repeat(300), "]".repeat(300));
        assert_eq!(refused(&deep), "c.yaml:1:259: recursion limit exceeded");
        // Aliases of aliases are as deep as what they stand for.
        let mut chain = String::from("a0: &a0 [x]\n");
        for i in 1..300 {
            let _ = writeln!(chain, "a{i}: &a{i} [*a{}]", i - 1);
        }
        assert_eq!(refused(&chain), "c.yaml:255:14: nested deeper than 256");
    }

    #[test]
    fn a_billion_laughs_stay_small() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 9].join(", ");
            let _ = writeln!(text, "a{i}: &a{i} [{refs}]");
        }
        assert!(refused(&text).contains("nodes, aliases expanded"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ -~\\n]{0,200}") {
            let _ = tree(&text);
        }

        #[test]
        fn numbers_survive(n in any::<i64>(), x in any::<f64>().prop_filter("finite", |x| x.is_finite())) {
            prop_assert_eq!(read(&format!("[{n}]")), json!([n]));
            let got = read(&format!("[{x:?}]"))[0].as_f64();
            prop_assert_eq!(got, Some(x));
        }
    }
}
