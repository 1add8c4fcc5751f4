//! Where requests go, in which form, and over what.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::{HooksPlan, Secret};
use crate::url::BaseUrl;

/// Which API is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// OpenAI `/v1/chat/completions`.
    Chat,
    /// OpenAI `/v1/completions`.
    Completions,
    /// OpenAI `/v1/responses`.
    Responses,
    /// Anthropic `/v1/messages`.
    Messages,
    /// OpenAI `/v1/embeddings`.
    Embeddings,
    /// `/v1/embeddings` asked with chat messages (vLLM).
    ChatEmbeddings,
    /// NVIDIA NIM's `/v1/embeddings`.
    NimEmbeddings,
    /// Cohere's `/v2/rerank`.
    CohereRankings,
    /// Hugging Face TEI's `/rerank`.
    HfTeiRankings,
    /// NVIDIA NIM's `/v1/ranking`.
    NimRankings,
    /// Hugging Face TGI's `/generate` and `/generate_stream`.
    HuggingfaceGenerate,
    /// SGLang's native `/generate`.
    SglangGenerate,
    /// Solido's `/rag/api/prompt`.
    SolidoRag,
    /// A body made by a template of the user's.
    Template,
    /// Bodies as they stand in the dataset.
    Raw,
}

/// What sets an API apart from others, as far as it needs no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindTraits {
    /// The name users type and files hold.
    pub name: &'static str,
    /// Path behind the server's address; empty when the address is all of it.
    pub path: &'static str,
    /// Path for streamed answers, where it is another.
    pub streaming_path: Option<&'static str>,
    /// Answers can come as server-sent events.
    pub streams: bool,
    /// Answers are text that is counted in tokens.
    pub produces_tokens: bool,
    /// A session may have several turns.
    pub many_turns: bool,
    /// Requests can hold a system text.
    pub has_system: bool,
    /// Title of its console tables.
    pub title: &'static str,
}

/// An API of generated text that streams, of one turn.
const TEXT: KindTraits = KindTraits {
    name: "",
    path: "",
    streaming_path: None,
    streams: true,
    produces_tokens: true,
    many_turns: false,
    has_system: false,
    title: "LLM Metrics",
};

/// An API of conversations.
const TALK: KindTraits = KindTraits { many_turns: true, has_system: true, ..TEXT };

/// An API whose answers are vectors or scores.
const SCORES: KindTraits = KindTraits { streams: false, produces_tokens: false, ..TEXT };

impl EndpointKind {
    /// All of them, in the order help lists them.
    pub const ALL: [Self; 15] = [
        Self::Chat,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Embeddings,
        Self::ChatEmbeddings,
        Self::NimEmbeddings,
        Self::CohereRankings,
        Self::HfTeiRankings,
        Self::NimRankings,
        Self::HuggingfaceGenerate,
        Self::SglangGenerate,
        Self::SolidoRag,
        Self::Template,
        Self::Raw,
    ];

    /// What sets it apart.
    pub const fn traits(self) -> KindTraits {
        match self {
            Self::Chat => KindTraits { name: "chat", path: "/v1/chat/completions", ..TALK },
            Self::Completions => KindTraits { name: "completions", path: "/v1/completions", ..TEXT },
            Self::Responses => KindTraits { name: "responses", path: "/v1/responses", ..TALK },
            Self::Messages => KindTraits { name: "messages", path: "/v1/messages", ..TALK },
            Self::Embeddings => KindTraits {
                name: "embeddings",
                path: "/v1/embeddings",
                title: "Embeddings Metrics",
                ..SCORES
            },
            Self::ChatEmbeddings => KindTraits {
                name: "chat_embeddings",
                path: "/v1/embeddings",
                many_turns: true,
                has_system: true,
                title: "Embeddings Metrics",
                ..SCORES
            },
            Self::NimEmbeddings => KindTraits {
                name: "nim_embeddings",
                path: "/v1/embeddings",
                title: "NIM Embeddings Metrics",
                ..SCORES
            },
            Self::CohereRankings => {
                KindTraits { name: "cohere_rankings", path: "/v2/rerank", title: "Ranking Metrics", ..SCORES }
            }
            Self::HfTeiRankings => {
                KindTraits { name: "hf_tei_rankings", path: "/rerank", title: "Ranking Metrics", ..SCORES }
            }
            Self::NimRankings => {
                KindTraits { name: "nim_rankings", path: "/v1/ranking", title: "Rankings Metrics", ..SCORES }
            }
            Self::HuggingfaceGenerate => KindTraits {
                name: "huggingface_generate",
                path: "/generate",
                streaming_path: Some("/generate_stream"),
                ..TEXT
            },
            Self::SglangGenerate => KindTraits { name: "sglang_generate", path: "/generate", ..TEXT },
            Self::SolidoRag => KindTraits {
                name: "solido_rag",
                path: "/rag/api/prompt",
                title: "SOLIDO RAG Metrics",
                ..TEXT
            },
            Self::Template => KindTraits { name: "template", has_system: true, ..TEXT },
            Self::Raw => KindTraits { name: "raw", has_system: true, ..TEXT },
        }
    }

    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// The API of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A request can say how long its answer may be. Solido's API has no field for it, and vectors and scores have no length.
    pub const fn has_limit(self) -> bool {
        self.traits().produces_tokens && !matches!(self, Self::SolidoRag)
    }

    /// A request is a query and passages to be ranked by it.
    pub const fn is_ranking(self) -> bool {
        matches!(self, Self::CohereRankings | Self::HfTeiRankings | Self::NimRankings)
    }

    /// Answers are vectors, one for each input.
    pub const fn is_embedding(self) -> bool {
        matches!(self, Self::Embeddings | Self::ChatEmbeddings | Self::NimEmbeddings)
    }

    /// A server puts the tokenizer's own specials (BOS) around each text: not inside messages, whose template brings its own, nor
    /// around a query and its passages, which it joins in its own way. Of bodies that are not ours nothing is known.
    pub const fn adds_specials(self) -> bool {
        !self.has_messages() && !self.is_ranking() && !matches!(self, Self::Raw)
    }

    /// A request is a list of messages with roles, which the server puts through its chat template; otherwise it is plain
    /// text, which it puts behind the tokenizer's own specials (BOS).
    pub const fn has_messages(self) -> bool {
        matches!(self, Self::Chat | Self::Responses | Self::Messages | Self::ChatEmbeddings)
    }

    /// Requests have a form for images, audio or video.
    pub const fn has_media(self) -> bool {
        self.has_messages() || matches!(self, Self::NimEmbeddings | Self::Template)
    }

    /// All texts of a turn become one, with blanks between them: its tokens are not the sum of theirs.
    pub const fn joins_texts(self) -> bool {
        matches!(self, Self::HuggingfaceGenerate | Self::SglangGenerate)
    }

    /// The field of a request that holds its messages.
    pub const fn messages_field(self) -> Option<&'static str> {
        match self {
            Self::Chat | Self::Messages | Self::ChatEmbeddings => Some("messages"),
            Self::Responses => Some("input"),
            _ => None,
        }
    }

    /// The field of a request that holds its system text, where that is no message.
    pub const fn system_field(self) -> Option<&'static str> {
        match self {
            Self::Responses => Some("instructions"),
            Self::Messages => Some("system"),
            _ => None,
        }
    }

    /// Whether `fields`, laid over a request, are in the place of its messages or of its system text.
    pub fn is_replaced_by(self, fields: &Map<String, Value>) -> bool {
        [self.messages_field(), self.system_field()].into_iter().flatten().any(|f| fields.contains_key(f))
    }

    /// Whether layers of fields, the later over the earlier, bring a system text beside the messages.
    pub fn has_system_in(self, layers: &[&Map<String, Value>]) -> bool {
        let top = self.system_field().and_then(|field| layers.iter().rev().find_map(|l| l.get(field)));
        top.is_some_and(|value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(parts) => !parts.is_empty(),
            _ => true,
        })
    }
}

/// Connection use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionReuse {
    /// Kept connections are used again, whoever opened them.
    Pooled,
    /// A fresh one for every request.
    Never,
    /// One for each session, from its first turn to its last.
    Sticky,
}

/// Which HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1: a connection carries one request at a time.
    One,
    /// HTTP/2: many requests share a connection. Over TLS by ALPN, in clear by prior knowledge (h2c).
    Two,
}

/// Which addresses of a server's name are used. A literal address is used as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4 alone.
    Four,
    /// IPv6 alone.
    Six,
    /// Both, IPv4 first.
    Any,
}

/// How a new session gets one of several servers. All turns of a session go to the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlStrategy {
    /// Session `i` takes server `i mod n`.
    RoundRobin,
    /// By a keyed draw, each as likely as the others.
    Random,
    /// By a keyed draw, each as likely as its weight is of all weights.
    Weighted,
    /// The one with the fewest requests in flight when the session starts; of equals the first.
    LeastInFlight,
}

impl UrlStrategy {
    /// The name users type and files hold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::Random => "random",
            Self::Weighted => "weighted",
            Self::LeastInFlight => "least_in_flight",
        }
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its address.
    pub url: BaseUrl,
    /// Its share under [`UrlStrategy::Weighted`]; above 0. 1 where nothing was said.
    pub weight: f64,
}

/// What this client shows a server that asks who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// PEM file with the certificate and those that signed it.
    pub certificate: PathBuf,
    /// PEM file with its key; may be the same file.
    pub key: PathBuf,
}

/// A template that bodies are made by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplatePlan {
    /// Its text.
    pub body: String,
    /// Where it is written, for errors.
    pub origin: String,
}

/// Where answers have their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseField {
    /// A JMESPath expression.
    pub expression: String,
    /// Where it is written, for errors.
    pub origin: String,
}

/// Where requests go and in which form.
#[derive(Debug, Clone)]
pub struct EndpointPlan {
    /// Which API.
    pub kind: EndpointKind,
    /// Servers, at least one.
    pub targets: Vec<Target>,
    /// How sessions are spread over them.
    pub url_strategy: UrlStrategy,
    /// Replaces the API's own path; empty appends nothing.
    pub path: Option<String>,
    /// Server-sent events asked for.
    pub streaming: bool,
    /// Limit of one request from start to end.
    pub timeout_ns: u64,
    /// Limit of name, TCP and TLS of one connection.
    pub connect_timeout_ns: Option<u64>,
    /// Limit from the last byte of a request out to the first content of its answer. Only of streams.
    pub first_token_timeout_ns: Option<u64>,
    /// Limit between two reads of one answer.
    pub idle_timeout_ns: Option<u64>,
    /// Sent as `Authorization: Bearer …`, or as `x-api-key` to Anthropic's API.
    pub api_key: Option<Secret>,
    /// The user's own headers, in order.
    pub headers: Vec<(String, Secret)>,
    /// Merged into every body after the API's own fields.
    pub extra: Map<String, Value>,
    /// What makes the bodies of [`EndpointKind::Template`].
    pub template: Option<TemplatePlan>,
    /// Where the answers to [`EndpointKind::Template`] and [`EndpointKind::Raw`] have their content; `None` looks for it.
    pub response_field: Option<ResponseField>,
    /// `max_tokens` in place of `max_completion_tokens` for chat.
    pub legacy_max_tokens: bool,
    /// ISL and OSL come from the server's usage.
    pub server_token_count: bool,
    /// Each chunk of a stream is asked for the counts so far, and ITL is taken without the tokens of the first.
    pub per_chunk_usage: bool,
    /// The server keeps answers, and a later turn names the one before it in the place of the conversation until then.
    pub chains: bool,
    /// Connection use.
    pub reuse: ConnectionReuse,
    /// Which HTTP.
    pub http: HttpVersion,
    /// A kept connection that turns out closed by the server before any byte of an answer came is replaced once, and the
    /// request goes out again.
    pub resend: bool,
    /// Connections go to this Unix socket; the URL still names host and path.
    pub unix_socket: Option<PathBuf>,
    /// Which addresses of a name are used.
    pub ip: IpVersion,
    /// Proxies are taken from the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, and in small letters).
    pub proxy_from_env: bool,
    /// PEM file of certificates that are trusted beside the system's own.
    pub ca: Option<PathBuf>,
    /// What we show a server that asks who we are.
    pub client_certificate: Option<ClientCertificate>,
    /// Name of the header that carries the correlation id.
    pub session_header: String,
    /// Arrivals are the kernel's receive stamps, where it gives any; else every stamp is taken where a read returns.
    pub receive_stamps: bool,
    /// Certificate checks for https.
    pub verify_tls: bool,
    /// Most bytes of one response body kept, at most `u32::MAX`; more is a failure.
    pub max_response_bytes: usize,
    /// What is asked of the servers around the load.
    pub hooks: HooksPlan,
}

impl EndpointPlan {
    /// A plan of `kind` with AIPerf's defaults and one server.
    pub fn new(kind: EndpointKind, url: BaseUrl) -> Self {
        Self {
            kind,
            targets: vec![Target { url, weight: 1.0 }],
            url_strategy: UrlStrategy::RoundRobin,
            path: None,
            streaming: false,
            timeout_ns: 21_600_000_000_000,
            connect_timeout_ns: None,
            first_token_timeout_ns: None,
            idle_timeout_ns: None,
            api_key: None,
            headers: Vec::new(),
            extra: Map::new(),
            template: None,
            response_field: None,
            legacy_max_tokens: false,
            server_token_count: false,
            per_chunk_usage: false,
            chains: false,
            reuse: ConnectionReuse::Pooled,
            http: HttpVersion::One,
            resend: true,
            unix_socket: None,
            ip: IpVersion::Any,
            proxy_from_env: false,
            ca: None,
            client_certificate: None,
            session_header: "X-Correlation-ID".to_owned(),
            receive_stamps: true,
            verify_tls: true,
            max_response_bytes: 64 << 20,
            hooks: HooksPlan::default(),
        }
    }

    /// The first server, which stands for all where only one can be asked.
    pub fn url(&self) -> &BaseUrl {
        &self.targets[0].url
    }
}
