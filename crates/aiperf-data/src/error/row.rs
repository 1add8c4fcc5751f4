//! What can be wrong with one row of a file.

use crate::blocks::BlocksError;

/// What is wrong with one row of a file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RowProblem {
    /// Singular and plural of the same thing.
    #[error("'{one}' and '{several}' cannot be set together")]
    Both {
        /// The field for one.
        one: &'static str,
        /// The field for several.
        several: &'static str,
    },
    /// A moment and a pause.
    #[error("'timestamp' and 'delay' cannot be set together")]
    BothTimes,
    /// An image, audio or video that cannot be sent.
    #[error("the {problem}")]
    Media {
        /// What it is, what the row says, shortened, and what is wrong with it.
        problem: String,
    },
    /// Ids of images that do not fit them.
    #[error("{problem}")]
    Uuids {
        /// What is wrong.
        problem: String,
    },
    /// Media that an API has no form for.
    #[error("requests of type '{api}' hold no {kind}; {able} do")]
    NoMedia {
        /// The type of endpoint.
        api: &'static str,
        /// Which media.
        kind: &'static str,
        /// Types of endpoints that have them.
        able: &'static str,
    },
    /// Media that no batch is drawn of.
    #[error(
        "images, audio or video in a row of random_pool, of which --batch-size draws texts alone; drop one of the two"
    )]
    DrawnMedia,
    /// Media among recorded answers.
    #[error(
        "images, audio or video in a conversation with recorded answers (deltas_with_responses), which holds texts alone; rows of \
         single_turn or mooncake_trace's 'messages' hold whole requests"
    )]
    RecordedMedia,
    /// Texts and images that do not go in pairs.
    #[error(
        "{texts} texts and {images} images; requests of type 'nim_embeddings' have them in pairs, or only the one or the other"
    )]
    Unpaired {
        /// How many texts.
        texts: usize,
        /// How many images.
        images: usize,
    },
    /// Texts and images of several pools that do not go in pairs.
    #[error(
        "drawn together with {others}, the conversation has {texts} texts and {images} images; requests of type 'nim_embeddings' have \
         them in pairs, or only the one or the other"
    )]
    UnpairedDraw {
        /// How many texts.
        texts: usize,
        /// How many images.
        images: usize,
        /// Files and lines of the other rows.
        others: String,
    },
    /// A field of another type or range.
    #[error("'{field}' must be {wanted}, not {found}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is allowed.
        wanted: &'static str,
        /// What is there, shortened.
        found: String,
    },
    /// A column with an output length that is none.
    #[error("'{column}' must be a whole number above 0, the output length, not {found}")]
    OutputLength {
        /// The column.
        column: String,
        /// What is there, shortened.
        found: String,
    },
    /// Broken JSON.
    #[error("not valid JSON: {reason}")]
    Json {
        /// The parser's reason.
        reason: String,
    },
    /// The row ends inside a value.
    #[error("the row ends in the middle of its JSON; is the file cut off?")]
    Truncated,
    /// Nothing to send.
    #[error(
        "holds nothing to send: 'text' or 'texts', 'image' or 'images', 'audio' or 'audios', 'video' or 'videos'"
    )]
    NoText,
    /// Nothing to send under a name that is known, and something under another.
    #[error(
        "holds nothing to send: 'text' or 'texts', 'image' or 'images', 'audio' or 'audios', 'video' or 'videos'; if '{key}' holds it, say so \
         with {option}"
    )]
    NoTextElsewhere {
        /// The other name.
        key: String,
        /// What says what it holds.
        option: &'static str,
    },
    /// Nothing to send of this form, and a key of another.
    #[error("holds neither 'text' nor 'texts'; {hint}")]
    NoTextBut {
        /// What is there, and what it may mean.
        hint: String,
    },
    /// Passages cannot be ranked by nothing.
    #[error(
        "no text is named 'query', which {api} needs: {{\"texts\": [{{\"name\": \"query\", \"contents\": [\"…\"]}}, {{\"name\": \
         \"passages\", \"contents\": [\"…\", \"…\"]}}]}}"
    )]
    NoQuery {
        /// The type of endpoint.
        api: &'static str,
    },
    /// A turn of several is broken.
    #[error("turns[{turn}]: {problem}")]
    InTurn {
        /// Its place, from 0.
        turn: usize,
        /// What is wrong with it.
        problem: Box<RowProblem>,
    },
    /// A recorded request of an agent's session is broken.
    #[error("session '{session}', spans[{span}]: {problem}")]
    InSpan {
        /// The session's name.
        session: String,
        /// Its place, from 0.
        span: usize,
        /// What is wrong with it.
        problem: Box<RowProblem>,
    },
    /// A session that came before.
    #[error("the session '{name}' is there twice")]
    SessionTwice {
        /// Its name.
        name: String,
    },
    /// What is sent is said in no way, or in several.
    #[error(
        "'input_length', 'text_input', 'messages' or 'payload' says what is sent, and {}",
        if found.is_empty() { "none of them is there".to_owned() } else { format!("there is more than one: '{found}'") }
    )]
    Sources {
        /// Those that are there.
        found: String,
    },
    /// A field without the one that it says something about.
    #[error("'{field}' is there without '{with}', which it belongs to")]
    OnlyWith {
        /// The field.
        field: &'static str,
        /// The other.
        with: &'static str,
    },
    /// Two sessions of one name.
    #[error("'{name}' is the session_id of data[{first}] too; each session has one of its own")]
    SameName {
        /// The name.
        name: String,
        /// Place of the first, from 0.
        first: usize,
    },
    /// A problem of a captured request.
    #[error("event '{id}': {problem}")]
    InEvent {
        /// Its id.
        id: String,
        /// What is wrong with it.
        problem: Box<RowProblem>,
    },
    /// A captured body that cannot be read.
    #[error("the captured body: {problem}")]
    Captured {
        /// Why.
        problem: String,
    },
    /// A captured body of another API.
    #[error("the captured body has no 'messages'; captures of chat endpoints are sent again, and no others")]
    NoCapturedMessages,
    /// Texts with names where each is drawn by itself.
    #[error("a text has a name, and --batch-size draws texts without theirs; drop one of the two")]
    NamedInBatch,
    /// A field that all rows have.
    #[error("'{field}' is missing, which every row of {form} has")]
    Lacks {
        /// The field.
        field: &'static str,
        /// The form of the file.
        form: &'static str,
    },
    /// A column that is not there.
    #[error("no column is called '{name}', which burst_gpt_trace has; there are '{found}'")]
    NoColumn {
        /// The column.
        name: &'static str,
        /// Those that are there.
        found: String,
    },
    /// A row that is too short.
    #[error("the row has {cells} cells, and none for '{name}'")]
    NoCell {
        /// The column.
        name: &'static str,
        /// Cells of the row.
        cells: usize,
    },
    /// More rows than can be numbered.
    #[error("the file has more than {max} rows")]
    TooManyRows {
        /// The most.
        max: usize,
    },
    /// Blocks and length contradict each other.
    #[error("{0}; --isl-block-size says how many tokens a block has")]
    Blocks(BlocksError),
    /// Messages for an API that takes none.
    #[error(
        "holds messages, which requests of the endpoint type {api} do not have; --endpoint-type chat has them"
    )]
    NoMessages {
        /// The type of endpoint.
        api: &'static str,
    },
    /// Whole requests and parts of a conversation in one session.
    #[error(
        "the session has rows with messages or whole bodies and rows with texts or lengths; a session has either, or the rows are in \
         sessions of their own"
    )]
    MixedRows,
    /// A marker for a body that is sent as it is.
    #[error("the row holds a whole body, which is sent as it is: a --cache-bust marker has no place in it")]
    MarkedBody,
    /// A file that was changed while it was in use.
    #[error("is not the row that was there when the file was opened")]
    Changed,
    /// A conversation of answers alone.
    #[error("every turn is a recorded answer, so that there is nothing to ask")]
    NoQuestions,
    /// Rows of a conversation that want it in different ways.
    #[error("'context_mode' is '{found}' here and '{before}' in the row that the conversation begins with")]
    Modes {
        /// What the row says.
        found: &'static str,
        /// What holds.
        before: &'static str,
    },
    /// A conversation of nothing.
    #[error("'turns' holds no turn")]
    NoTurns,
    /// A conversation for an API that has none.
    #[error(
        "the conversation has several turns, and a request of the endpoint type {api} takes one: --endpoint-type chat, responses and \
         messages take several, and rows of --custom-dataset-type single_turn are requests of their own"
    )]
    ManyTurns {
        /// The type of endpoint.
        api: &'static str,
    },
    /// JSON, but not an object.
    #[error("a row must be a JSON object, not {found}")]
    NotAnObject {
        /// What is there, shortened.
        found: String,
    },
    /// More rows of one session than requests can be numbered.
    #[error("session '{session}' has more than {max} turns")]
    TooManyTurns {
        /// The session.
        session: String,
        /// The most.
        max: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
}
