//! What the files beside a `tokenizer.json` say: special tokens by name, and chat templates.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::TokenizerError;
use crate::file::read_text;
use crate::template::{ChatTemplate, SpecialTokens};

const CONFIG_FILE: &str = "tokenizer_config.json";
const SPECIALS_FILE: &str = "special_tokens_map.json";
const TEMPLATE_FILE: &str = "chat_template.jinja";
/// Holds a template alone, as processors of multimodal models write it.
const TEMPLATE_JSON_FILE: &str = "chat_template.json";
/// For conversations with tools.
const TOOL_TEMPLATE_FILE: &str = "additional_chat_templates/tool_use.jinja";

/// Files of a model's folder that say more of a `tokenizer.json`; every one may be missing.
pub const COMPANION_FILES: [&str; 5] =
    [CONFIG_FILE, SPECIALS_FILE, TEMPLATE_FILE, TEMPLATE_JSON_FILE, TOOL_TEMPLATE_FILE];

/// The names that `transformers` gives to special tokens.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// A chat template's text and where it came from.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    text: String,
}

/// All that is known about a tokenizer besides its vocabulary.
#[derive(Debug, Default)]
pub(super) struct Config {
    /// Special tokens by name.
    pub(super) specials: SpecialTokens,
    /// Special tokens without a name.
    further: Vec<String>,
    template: Option<Source>,
    /// For conversations with tools, if the model has a template of its own for them.
    tool_template: Option<Source>,
}

impl Config {
    /// Reads what there is in `folder`; every file may be missing.
    pub(super) fn read(folder: &Path) -> Result<Self, TokenizerError> {
        let mut out = Self::default();
        let path = folder.join(CONFIG_FILE);
        if let Some(config) = read_object(&path)? {
            out.take_specials(&config);
            out.take_config_templates(&config, &path);
        } else if let Some(specials) = read_object(&folder.join(SPECIALS_FILE))? {
            out.take_specials(&specials);
        }
        if out.template.is_none() {
            let path = folder.join(TEMPLATE_JSON_FILE);
            if let Some(object) = read_object(&path)? {
                out.take_config_templates(&object, &path);
            }
        }
        // Template files win over what the configuration holds.
        let template = read_source(folder.join(TEMPLATE_FILE))?;
        if template.is_some() {
            out.template = template;
            out.tool_template = None;
        }
        let tool_template = read_source(folder.join(TOOL_TEMPLATE_FILE))?;
        if tool_template.is_some() {
            out.tool_template = tool_template;
        }
        Ok(out)
    }

    /// Compiles the chat template, if there is one.
    pub(super) fn template(&self) -> Result<Option<ChatTemplate>, TokenizerError> {
        let refuse = |source: &Source| {
            let path = source.path.clone();
            move |source| TokenizerError::Template { path, source }
        };
        let Some(default) = self.template.as_ref().or(self.tool_template.as_ref()) else { return Ok(None) };
        let mut template = ChatTemplate::parse(&default.text, &self.specials).map_err(refuse(default))?;
        if let Some(tools) = &self.tool_template {
            template = template.with_tool_template(&tools.text).map_err(refuse(tools))?;
        }
        Ok(Some(template))
    }

    /// The file that holds the chat template.
    pub(super) fn template_path(&self) -> Option<PathBuf> {
        self.template.as_ref().or(self.tool_template.as_ref()).map(|source| source.path.clone())
    }

    /// Texts of all special tokens.
    pub(super) fn special_texts(&self) -> Vec<&str> {
        self.specials.iter().map(|(_, text)| text).chain(self.further.iter().map(String::as_str)).collect()
    }

    fn take_specials(&mut self, config: &Map<String, Value>) {
        for name in NAMES {
            if let Some(text) = config.get(name).and_then(token_text) {
                self.specials.insert(name, text);
            }
        }
        for key in ["extra_special_tokens", "additional_special_tokens"] {
            match config.get(key) {
                // Named ones, which templates see as variables too.
                Some(Value::Object(named)) => {
                    for (name, token) in named {
                        if let Some(text) = token_text(token) {
                            self.specials.insert(name, text);
                        }
                    }
                }
                Some(Value::Array(list)) => {
                    self.further.extend(list.iter().filter_map(token_text).map(str::to_owned));
                }
                _ => {}
            }
        }
    }

    /// `chat_template` is a text, or a list of named texts.
    fn take_config_templates(&mut self, config: &Map<String, Value>, path: &Path) {
        let source = |text: &str| Some(Source { path: path.to_owned(), text: text.to_owned() });
        match config.get("chat_template") {
            Some(Value::String(text)) => self.template = source(text),
            Some(Value::Array(list)) => {
                for entry in list {
                    let (Some(name), Some(text)) = (entry["name"].as_str(), entry["template"].as_str())
                    else {
                        continue;
                    };
                    match name {
                        "default" => self.template = source(text),
                        "tool_use" => self.tool_template = source(text),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

/// A token is given as its text, or as an object that holds it as `content`.
fn token_text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str()).filter(|text| !text.is_empty())
}

fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, TokenizerError> {
    if !path.is_file() {
        return Ok(None);
    }
    let broken = |detail: String| TokenizerError::Broken { path: path.to_owned(), detail };
    match serde_json::from_str(&read_text(path)?) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(broken("it is not a JSON object".to_owned())),
        Err(e) => Err(broken(e.to_string())),
    }
}

fn read_source(path: PathBuf) -> Result<Option<Source>, TokenizerError> {
    // A broken link is a file that cannot be read, not a missing one.
    if fs::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let text = read_text(&path)?;
    Ok(Some(Source { path, text }))
}
