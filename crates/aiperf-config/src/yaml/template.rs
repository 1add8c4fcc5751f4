//! Jinja templates in the texts of a file. Names are the `variables`, the keys of the body and those of the envelope;
//! variables may use each other and are rendered in the order they need. An unknown name is an error, and a template
//! may only run for so long.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value as Json};

use super::{Data, Node, Scalar, Source};
use crate::error::ConfigError;

/// Steps of one template; a loop over a thousand items takes a few tens of thousands.
const FUEL: u64 = 1_000_000;

/// Keys whose values are templates of their own, rendered at another time.
const SKIPPED: &[&str] = &["template", "body", "payload_template", "user_files", "userFiles"];

/// Renders every template of the tree, or says every one that cannot be rendered.
pub(crate) fn render(source: &mut Source) -> Result<(), Vec<ConfigError>> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    env.set_syntax(syntax.expect("the usual delimiters do not overlap"));
    env.set_fuel(Some(FUEL));
    let mut renderer = Renderer { env, context: context_of(&source.root.to_json()), errors: Vec::new() };

    let place = source.clone();
    let mut root = std::mem::replace(
        &mut source.root,
        Node { position: crate::place::Position::default(), data: Data::Map(Vec::new()) },
    );
    if let Data::Map(entries) = &mut root.data {
        if let Some(entry) = entries.iter_mut().find(|e| e.key == "variables")
            && let Data::Map(variables) = &mut entry.node.data
        {
            renderer.variables(variables, &place);
        }
        for entry in entries.iter_mut().filter(|e| e.key != "variables") {
            let key = entry.key.clone();
            renderer.walk(&mut entry.node, &key, &place);
        }
    }
    source.root = root;
    if renderer.errors.is_empty() { Ok(()) } else { Err(renderer.errors) }
}

/// What templates may name: keys from the top, then those of `benchmark`. Lists of named items are also reachable by
/// name, so `phases.profiling.rate` works.
fn context_of(root: &Json) -> BTreeMap<String, Json> {
    let mut context = BTreeMap::new();
    let mut take = |map: &Map<String, Json>| {
        for (key, value) in map {
            context.insert(key.clone(), by_name(value));
        }
    };
    if let Json::Object(top) = root {
        take(top);
        if let Some(Json::Object(body)) = top.get("benchmark") {
            take(body);
        }
    }
    context
}

fn by_name(value: &Json) -> Json {
    match value {
        Json::Object(map) => Json::Object(map.iter().map(|(k, v)| (k.clone(), by_name(v))).collect()),
        Json::Array(items) => {
            let named: Map<String, Json> = items
                .iter()
                .filter_map(|item| Some((item.get("name")?.as_str()?.to_owned(), by_name(item))))
                .collect();
            if named.is_empty() || named.len() != items.len() { value.clone() } else { Json::Object(named) }
        }
        other => other.clone(),
    }
}

struct Renderer {
    env: Environment<'static>,
    context: BTreeMap<String, Json>,
    errors: Vec<ConfigError>,
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

impl Renderer {
    /// Renders the variables, those first that others need.
    fn variables(&mut self, entries: &mut [super::Entry], source: &Source) {
        let names: BTreeSet<String> = entries.iter().map(|e| e.key.clone()).collect();
        let mut needs: Vec<BTreeSet<String>> = entries
            .iter()
            .map(|e| {
                let mut found = BTreeSet::new();
                self.names_in(&e.node, &mut found);
                found.intersection(&names).cloned().collect()
            })
            .collect();
        let mut pending: BTreeSet<usize> = (0..entries.len()).collect();
        // A body key of the same name is hidden from the start, also while the variable is not rendered yet.
        for name in &names {
            self.context.remove(name);
        }
        while let Some(i) = pending.iter().copied().find(|i| needs[*i].is_empty()) {
            pending.remove(&i);
            let entry = &mut entries[i];
            self.walk(&mut entry.node, &format!("variables.{}", entry.key), source);
            self.context.insert(entry.key.clone(), by_name(&entry.node.to_json()));
            for need in &mut needs {
                need.remove(&entry.key);
            }
        }
        if let Some(first) = pending.iter().next() {
            let cycle: Vec<&str> = pending.iter().map(|i| entries[*i].key.as_str()).collect();
            let entry = &entries[*first];
            self.errors.push(ConfigError::Template {
                place: source.place(entry.position, "variables"),
                template: entry.node.brief(),
                problem: format!("these variables need each other in a circle: {}", cycle.join(", ")),
            });
        }
        let variables: Map<String, Json> =
            entries.iter().map(|e| (e.key.clone(), by_name(&e.node.to_json()))).collect();
        self.context.insert("variables".to_owned(), Json::Object(variables));
    }

    /// Names that the templates below a node use. A broken template uses none; rendering it tells.
    fn names_in(&self, node: &Node, found: &mut BTreeSet<String>) {
        match &node.data {
            Data::Scalar(s) if is_template(&s.raw) => {
                if let Ok(template) = self.env.template_from_str(&s.raw) {
                    for name in template.undeclared_variables(true) {
                        // `variables.x` needs x as much as a bare `x` does.
                        let name = name.strip_prefix("variables.").unwrap_or(&name);
                        found.insert(name.split('.').next().unwrap_or(name).to_owned());
                    }
                }
            }
            Data::Scalar(_) => {}
            Data::List(items) => items.iter().for_each(|n| self.names_in(n, found)),
            Data::Map(entries) => entries.iter().for_each(|e| self.names_in(&e.node, found)),
        }
    }

    fn walk(&mut self, node: &mut Node, key: &str, source: &Source) {
        let position = node.position;
        match &mut node.data {
            Data::Scalar(scalar) if scalar.is_text() && is_template(&scalar.raw) => {
                match self.text(&scalar.raw) {
                    Ok(new) => *scalar = Scalar::coerced(&new),
                    Err(problem) => self.errors.push(ConfigError::Template {
                        place: source.place(position, key),
                        template: aiperf_core::text::for_terminal(&scalar.raw, 120),
                        problem,
                    }),
                }
            }
            Data::Scalar(_) => {}
            Data::List(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.walk(item, &format!("{key}[{i}]"), source);
                }
            }
            Data::Map(entries) => {
                for entry in entries.iter_mut().filter(|e| !SKIPPED.contains(&e.key.as_str())) {
                    self.walk(&mut entry.node, &format!("{key}.{}", entry.key), source);
                }
            }
        }
    }

    fn text(&self, template: &str) -> Result<String, String> {
        for (open, close) in [("{{", "}}"), ("{%", "%}")] {
            if template.contains(open) && !template.contains(close) {
                return Err(format!("'{open}' is never closed with '{close}'"));
            }
        }
        let rendered = self
            .env
            .render_str(template, Serde(&self.context))
            .map_err(|e| e.detail().map_or_else(|| e.kind().to_string(), |d| format!("{}: {d}", e.kind())))?;
        if is_template(&rendered) {
            return Err("it uses a value that is a template itself; put that value into variables".to_owned());
        }
        Ok(rendered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::load_text;
    use serde_json::{Value as Json, json};

    fn read(text: &str) -> Result<Json, String> {
        load_text(&"c.yaml".into(), text, &|_| None)
            .map(|s| s.root.to_json())
            .map_err(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn variables_and_body_keys_are_names_and_results_are_typed() {
        let text = "
variables: {total: '{{ base * 4 }}', base: 2, name: 'm-{{ total }}', on: '{% if base > 1 %}true{% endif %}'}
benchmark:
  model: '{{ name }}'
  endpoint: {streaming: '{{ on }}'}
  phases: [{name: profiling, rate: 2.5, requests: '{{ total }}'}]
  again: '{{ phases.profiling.rate }}'
  full: '{{ benchmark.phases.profiling.rate * variables.base }}'
";
        let body = read(text).expect("renders")["benchmark"].clone();
        assert_eq!(
            body,
            json!({"model": "m-8", "endpoint": {"streaming": true},
                "phases": [{"name": "profiling", "rate": 2.5, "requests": 8}], "again": 2.5, "full": 5.0})
        );
    }

    #[test]
    fn what_cannot_be_rendered_is_told_with_its_place() {
        let all = read("a: '{{ nope }}'\nb: '{{ open'\nc: ['{{ 1 / }}']\n").expect_err("three errors");
        let lines: Vec<&str> = all.lines().collect();
        assert_eq!(lines.len(), 3, "{all}");
        assert!(
            lines[0]
                .starts_with("c.yaml:1:4: a: the template '{{ nope }}' cannot be rendered: undefined value"),
            "{all}"
        );
        assert!(lines[1].contains("'{{' is never closed with '}}'"), "{all}");
        assert!(lines[2].starts_with("c.yaml:3:5: c[0]: "), "{all}");
    }

    #[test]
    fn circles_are_told() {
        let text = "variables: {a: '{{ b }}', b: '{{ variables.c }}', c: '{{ a }}', d: 1}\n";
        let error = read(text).expect_err("a circle");
        assert!(error.contains("need each other in a circle: a, b, c"), "{error}");
    }

    #[test]
    fn an_endless_template_stops() {
        let text = "a: '{% for i in range(10000) %}{% for j in range(10000) %}x{% endfor %}{% endfor %}'\n";
        let error = read(text).expect_err("out of fuel");
        assert!(error.contains("fuel"), "{error}");
    }

    #[test]
    fn a_template_of_a_template_is_refused() {
        let error = read("a: '{{ b }}'\nb: '{{ c }}'\nc: 1\n").expect_err("two steps");
        assert!(error.contains("put that value into variables"), "{error}");
    }
}
