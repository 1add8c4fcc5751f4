//! Endpoint types whose requests or answers have no form of their own: templates, and bodies from the data set.

use std::path::Path;

use aiperf_core::plan::{EndpointKind, ResponseField, TemplatePlan};
use serde_json::{Map, Value};

use super::{Resolver, how};
use crate::error::ConfigError;
use crate::options::Id;
use crate::place::Place;
use crate::yaml::read_bounded;

/// Largest file that is taken for a template.
const MAX_TEMPLATE_BYTES: u64 = 1 << 20;
/// Templates that have a name.
const NAMED: &[(&str, &str)] = &[("nv-embedqa", r#"{"text": {{ texts|tojson }}}"#)];
/// Extra inputs that AIPerf takes for what the two options say.
pub(crate) const TEMPLATE_EXTRA: &str = "payload_template";
pub(crate) const FIELD_EXTRA: &str = "response_field";
/// The response field that AIPerf takes for none, of templates alone.
pub(crate) const LOOK_FOR_IT: &str = "text";

/// Whether `text` is the name of a template.
pub(crate) fn is_named(text: &str) -> bool {
    NAMED.iter().any(|(name, _)| *name == text)
}

/// What is left of the extra inputs, and what the others were.
#[derive(Debug, Default)]
pub(super) struct Unformed {
    pub(super) extra: Map<String, Value>,
    pub(super) template: Option<TemplatePlan>,
    pub(super) response_field: Option<ResponseField>,
}

impl Resolver<'_> {
    /// The template as it is written: the option's, else that of the extra inputs.
    pub(super) fn template_text(&self) -> Option<String> {
        let extra = || Some(self.settings.extra().get(TEMPLATE_EXTRA)?.as_str()?.to_owned());
        self.settings.text(Id::PayloadTemplate).map(str::to_owned).or_else(extra)
    }

    pub(super) fn unformed(&mut self) -> Unformed {
        let kind = self.endpoint_kind();
        let mut out = Unformed { extra: self.settings.extra(), ..Unformed::default() };
        if kind == EndpointKind::Template {
            let inline = self.taken(&mut out.extra, TEMPLATE_EXTRA, Id::PayloadTemplate);
            out.template = if let Some((text, place)) = inline {
                self.template(&text, place)
            } else {
                self.errors.push(ConfigError::Missing {
                    what: "the template of request bodies (--endpoint-type template)",
                    how: how(Id::PayloadTemplate),
                });
                None
            };
        } else {
            self.needs(Id::PayloadTemplate, "--endpoint-type template", "no other endpoint type has one");
        }
        if matches!(kind, EndpointKind::Template | EndpointKind::Raw) {
            let field = self.taken(&mut out.extra, FIELD_EXTRA, Id::ResponseField);
            let field = field.filter(|(text, _)| kind == EndpointKind::Raw || text != LOOK_FOR_IT);
            out.response_field =
                field.map(|(expression, place)| ResponseField { expression, origin: place.to_string() });
        } else {
            self.needs(
                Id::ResponseField,
                "--endpoint-type template or raw",
                "the answers of all others have a form of their own",
            );
        }
        if kind == EndpointKind::Raw && !self.has_payloads() {
            self.errors.push(ConfigError::Missing {
                what: "a data set of whole request bodies (--endpoint-type raw sends them as they are)",
                how: "--input-file with --custom-dataset-type raw_payload or inputs_json, or benchmark.dataset with path and format in a \
                      configuration file"
                    .to_owned(),
            });
        }
        out
    }

    /// Whether the data set has request bodies.
    pub(super) fn has_payloads(&self) -> bool {
        self.settings.has(Id::InputFile) && self.file_format().is_bodies()
    }

    /// What `id` says, or an extra input of that name, which is none of the body's then; and where it is written.
    fn taken(&mut self, extra: &mut Map<String, Value>, name: &str, id: Id) -> Option<(String, Place)> {
        let given = extra.shift_remove(name).filter(|value| !value.is_null());
        let option = self.settings.text(id).map(str::to_owned).zip(self.place(id));
        let Some(given) = given else { return option };
        let place = self.place(Id::ExtraInputs)?;
        if let Some((_, first)) = option {
            self.errors.push(ConfigError::Conflict {
                first,
                second: place,
                why: "they say the same thing; keep one",
            });
            return None;
        }
        let Value::String(text) = given else {
            self.bad(Id::ExtraInputs, format!("a '{name}' that is no text"), "a text");
            return None;
        };
        Some((text, place))
    }

    /// The template that `text` is, names or has the path of.
    fn template(&mut self, text: &str, place: Place) -> Option<TemplatePlan> {
        if let Some((name, body)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Some(TemplatePlan { body: (*body).to_owned(), origin: format!("the template {name}") });
        }
        let path = Path::new(text);
        if !text.contains('\n') && path.is_file() {
            let read = read_bounded(path, MAX_TEMPLATE_BYTES)
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned()));
            return match read {
                Ok(body) => Some(TemplatePlan { body, origin: text.to_owned() }),
                Err(problem) => {
                    self.errors.push(ConfigError::File { place, path: path.to_owned(), problem });
                    None
                }
            };
        }
        if !text.contains('{') {
            let shown = aiperf_core::text::for_terminal(text, 200);
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            self.errors.push(ConfigError::BadValue {
                place,
                found: format!("'{shown}'"),
                allowed: format!(
                    "a file that is there, a template that makes a JSON object, {}",
                    names.join(", ")
                ),
                nearest: aiperf_core::text::nearest(text, names.iter().copied()).map(str::to_owned),
            });
            return None;
        }
        Some(TemplatePlan { body: text.to_owned(), origin: place.to_string() })
    }
}
