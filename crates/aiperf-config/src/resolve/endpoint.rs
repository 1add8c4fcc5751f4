//! Where requests go and in which form.

use std::path::Path;

use aiperf_core::plan::{ConnectionReuse, EndpointKind, EndpointPlan, Secret};
use aiperf_core::time::seconds_to_ns;
use serde_json::Value;

use super::Resolver;
use super::connection::is_simulated;
use crate::environment::{ip_version, verify_tls};
use crate::error::ConfigError;
use crate::options::Id;
use crate::row::{Kind, row_of};
use crate::yaml::read_bounded;
use aiperf_core::headers::is_token;

/// Largest file that is taken for a key.
const MAX_KEY_BYTES: u64 = 64 << 10;

impl Resolver<'_> {
    pub(super) fn endpoint(&mut self) -> Option<EndpointPlan> {
        let servers = self.servers();
        let api_key = self.api_key();
        let path = self.settings.text(Id::CustomEndpoint).map(str::to_owned);
        if let Some(path) = path.as_deref().filter(|p| !p.is_empty())
            && (!path.starts_with('/') || path.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            self.bad(
                Id::CustomEndpoint,
                format!("'{path}'"),
                "a path that starts with / and has no white space, or nothing",
            );
        }
        let session_header = self.settings.text_or_default(Id::SessionHeader);
        if !is_token(&session_header) {
            self.bad(
                Id::SessionHeader,
                format!("'{session_header}'"),
                "a header name: letters, digits and -_.!#$%&'*+^`|~",
            );
        }
        let verify_tls = verify_tls(self.env, &mut self.notes, &mut self.errors);
        let ip = ip_version(self.env, &mut self.notes, &mut self.errors);
        let connection =
            self.connection(servers.as_ref().is_some_and(|s| s.targets.iter().any(is_simulated)));
        let first_token_timeout_ns = self.first_token_timeout();
        let streaming = self.streams();
        if let Some(place) =
            self.place(Id::Streaming).filter(|_| !streaming && self.settings.is_on(Id::Streaming))
        {
            let kind = self.endpoint_kind().name();
            self.notes
                .push(format!("{place} has no effect: an answer of endpoint type '{kind}' comes whole"));
        }
        let unformed = self.unformed();
        let (per_chunk_usage, chains) = (self.per_chunk_usage(), self.chains());
        let settings = self.settings;
        let limit = |id: Id| settings.float(id).map(seconds_to_ns);
        let hooks = self.hooks();
        let servers = servers?;
        Some(EndpointPlan {
            hooks,
            url_strategy: servers.strategy,
            connect_timeout_ns: limit(Id::ConnectTimeout),
            first_token_timeout_ns,
            idle_timeout_ns: limit(Id::IdleTimeout),
            http: connection.http,
            resend: settings.switch(Id::Resend).unwrap_or(true),
            unix_socket: connection.unix_socket,
            ip,
            proxy_from_env: connection.proxy_from_env,
            ca: connection.ca,
            client_certificate: connection.client_certificate,
            path,
            streaming,
            timeout_ns: seconds_to_ns(settings.float_or_default(Id::RequestTimeout)),
            api_key,
            headers: settings.headers().iter().map(|(n, v)| (n.clone(), Secret::new(v.as_str()))).collect(),
            extra: unformed.extra,
            template: unformed.template,
            response_field: unformed.response_field,
            legacy_max_tokens: settings.is_on(Id::LegacyMaxTokens),
            server_token_count: settings.is_on(Id::ServerTokenCount),
            per_chunk_usage,
            chains,
            reuse: match settings.text_or_default(Id::ConnectionReuse).as_str() {
                "never" => ConnectionReuse::Never,
                "sticky_user_sessions" => ConnectionReuse::Sticky,
                _ => ConnectionReuse::Pooled,
            },
            session_header,
            receive_stamps: settings.text_or_default(Id::ReceiveStamps) == "kernel",
            verify_tls,
            max_response_bytes: usize::try_from(settings.int_or_default(Id::MaxResponseBytes))
                .unwrap_or(usize::MAX),
            targets: servers.targets,
            ..EndpointPlan::new(self.endpoint_kind(), servers.first)
        })
    }

    fn first_token_timeout(&mut self) -> Option<u64> {
        let seconds = self.settings.float(Id::FirstTokenTimeout)?;
        if !self.streams() {
            self.needs(
                Id::FirstTokenTimeout,
                "--streaming",
                "without a stream the first token comes with the last; --request-timeout-seconds limits the whole",
            );
        }
        Some(seconds_to_ns(seconds))
    }

    /// Whether answers come as events: asked for, of an API that has them.
    pub(super) fn streams(&self) -> bool {
        self.whole.is_on(Id::Streaming) && self.endpoint_kind().traits().streams
    }

    pub(super) fn endpoint_kind(&self) -> EndpointKind {
        match self.whole.text(Id::EndpointType) {
            Some(word) => kind_of(word),
            // As in AIPerf, a template needs no type beside it.
            None if self.template_text().is_some() => EndpointKind::Template,
            None => EndpointKind::Chat,
        }
    }

    /// An option that only concerns requests made of messages, if it is there and they are not.
    pub(super) fn wants_messages(&mut self, id: Id) {
        let kind = self.endpoint_kind();
        if kind.has_messages() {
            return;
        }
        let Kind::Choice { words, .. } = row_of(Id::EndpointType).kind else { return };
        let able: Vec<&str> = words.iter().copied().filter(|word| kind_of(word).has_messages()).collect();
        let found =
            format!("the endpoint type '{}', whose requests are bare text without messages", kind.name());
        self.bad(id, found, &format!("endpoint types that send messages: {}", able.join(", ")));
    }

    /// Counts of each chunk, which only streams of one API have, and only a run that counts by them looks at.
    fn per_chunk_usage(&mut self) -> bool {
        let id = Id::PerChunkUsage;
        if !self.settings.is_on(id) {
            return false;
        }
        if !self.settings.is_on(Id::ServerTokenCount) {
            let why =
                "the tokens of the first chunk are the server's count, and the others then have to be too";
            self.needs(id, "--use-server-token-count", why);
        }
        if !self.settings.is_on(Id::Streaming) {
            self.needs(id, "--streaming", "without a stream there are no chunks");
        }
        let kind = self.endpoint_kind();
        if kind != EndpointKind::Chat {
            let found = format!("the endpoint type '{}'", kind.name());
            self.bad(id, found, "the endpoint type chat, the one API whose servers know stream_options.continuous_usage_stats");
        }
        true
    }

    /// Whether `store` among the extra inputs has the server keep answers, so that a later turn is sent alone and names the one
    /// before it.
    pub(super) fn is_chained(&self) -> bool {
        let stores = match self.settings.extra().get("store") {
            Some(Value::Bool(on)) => *on,
            Some(Value::String(word)) => word.trim().eq_ignore_ascii_case("true"),
            _ => false,
        };
        stores && self.endpoint_kind() == EndpointKind::Responses
    }

    /// The same; then nobody but the server knows lengths.
    fn chains(&mut self) -> bool {
        let chains = self.is_chained();
        if chains && !self.settings.is_on(Id::ServerTokenCount) {
            let why = "store:true has the server keep the conversation (previous_response_id); a later request then holds its newest turn \
                       alone, and only the server knows the length of its prompt";
            self.needs(Id::ExtraInputs, "--use-server-token-count", why);
        }
        chains
    }

    /// The key, from one of three places; the higher layer wins, two of one layer exclude each other.
    fn api_key(&mut self) -> Option<Secret> {
        let mut given: Vec<Id> = [Id::ApiKey, Id::ApiKeyFile, Id::ApiKeyEnv]
            .into_iter()
            .filter(|id| self.settings.has(*id))
            .collect();
        let rank = |id: Id| self.settings.place(id).map(crate::place::Place::rank);
        let highest = given.iter().filter_map(|id| rank(*id)).max();
        given.retain(|id| rank(*id) == highest);
        if let [first, second, ..] = given[..] {
            self.exclude(first, second, "the key comes from one place");
            return None;
        }
        let id = *given.first()?;
        let text = self.settings.text(id)?.to_owned();
        let place = self.place(id)?;
        let key = match id {
            Id::ApiKeyFile => match read_key(&text) {
                Ok(key) => key,
                Err(problem) => {
                    self.errors.push(ConfigError::File { place, path: text.into(), problem });
                    return None;
                }
            },
            Id::ApiKeyEnv => {
                if let Some(key) = (self.env)(&text).filter(|k| !k.trim().is_empty()) {
                    self.notes.push(format!("the API key comes from the environment variable {text}"));
                    key
                } else {
                    self.bad(
                        id,
                        // Names are written in capitals; what is not may be the key itself.
                        if text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
                            format!("'{text}', which is not set in the environment")
                        } else {
                            "a name that is not set in the environment (not shown, it may be a key)"
                                .to_owned()
                        },
                        "the name of a variable that holds the key",
                    );
                    return None;
                }
            }
            _ => text,
        };
        let key = key.trim();
        if key.is_empty() || key.chars().any(char::is_control) {
            self.bad(
                id,
                "a key that is empty or has control characters".to_owned(),
                "a key of printable characters",
            );
            return None;
        }
        Some(Secret::new(key))
    }
}

/// A word that is no API is refused elsewhere.
fn kind_of(word: &str) -> EndpointKind {
    EndpointKind::named(word).unwrap_or(EndpointKind::Chat)
}

/// The text of a file that holds a key.
fn read_key(path: &str) -> Result<String, String> {
    let bytes = read_bounded(Path::new(path), MAX_KEY_BYTES)?;
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}
