//! What can be wrong with a workload.

mod row;

use std::path::PathBuf;

pub use self::row::RowProblem;

/// Why a workload cannot be opened or a conversation cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A row of a form that was not asked for.
    #[error(
        "{}:{line}: '{key}' is a key of {format}; if the file is one, say so: --custom-dataset-type {format}",
        path.display()
    )]
    OtherForm {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The key that shows it.
        key: &'static str,
        /// The form.
        format: &'static str,
    },
    /// Names of columns for what has none.
    #[error(
        "{}: has no columns that --dataset-prompt-column and the like could name: it is no JSON list, JSONL, CSV or Parquet; drop them",
        path.display()
    )]
    NoColumns {
        /// The file.
        path: PathBuf,
    },
    /// A row of a form that is not read yet.
    #[error("{}:{line}: '{key}' is a key of {format}, which this version does not read yet", path.display())]
    LaterForm {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The key that shows it.
        key: &'static str,
        /// The form.
        format: &'static str,
    },
    /// Options that would change bodies which the file showed only when it was opened.
    #[error(
        "{}: its bodies ({form}) are sent as they are, and {option} has no place there; drop the option",
        path.display()
    )]
    AroundBodies {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
        /// The option.
        option: &'static str,
    },
    /// A folder that shows no form.
    #[error(
        "{}: no JSONL file of the folder shows what it holds; --custom-dataset-type says it (raw_payload, random_pool and sagemaker_data_capture may be folders)",
        path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// A document without sessions.
    #[error(
        "{}: has no list named 'data', which inputs_json has: {{\"data\": [{{\"session_id\": …, \"payloads\": [{{…}}]}}]}}",
        path.display()
    )]
    NoData {
        /// The file.
        path: PathBuf,
    },
    /// A part of a document that cannot be sent.
    #[error("{}: {place}: {problem}", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// Which part.
        place: String,
        /// What is wrong.
        problem: RowProblem,
    },
    /// A file that is not what it seems to be.
    #[error("{}: cannot be read as {form}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        form: &'static str,
        /// The reader's reason.
        reason: String,
    },
    /// A column that is not there.
    #[error("{}: has no '{column}', which {flag} names; it has {columns}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// Its name.
        column: String,
        /// Who names it.
        flag: &'static str,
        /// Those that are there.
        columns: String,
    },
    /// No conversations where ShareGPT has them.
    #[error(
        "{}: has no 'conversations', which sharegpt has; it has {columns}; --dataset-messages-column says what they are called here, and \
         --custom-dataset-type another form",
        path.display()
    )]
    NoTalks {
        /// The file.
        path: PathBuf,
        /// Those that are there.
        columns: String,
    },
    /// No column of a name that many data sets have.
    #[error(
        "{}: which column says what is sent? It has {columns}; name one with --dataset-prompt-column, or with \
         --dataset-messages-column if it holds conversations (rows of --custom-dataset-type single_turn and multi_turn are lines of their own)",
        path.display()
    )]
    NoPromptColumn {
        /// The file.
        path: PathBuf,
        /// Those that are there.
        columns: String,
    },
    /// A data set of which nothing is left.
    #[error("{}: none of its {seen} {unit}s can be sent: {reasons}", path.display())]
    NothingToSend {
        /// The file.
        path: PathBuf,
        /// How many there are.
        seen: u64,
        /// What an entry of it is called.
        unit: &'static str,
        /// Why not.
        reasons: String,
    },
    /// Lengths decide what is sent, and there is nothing to count with.
    #[error(
        "{}: what is sent of ShareGPT is chosen by its lengths in tokens, which a tokenizer counts: without \
         --use-server-token-count, or with --custom-dataset-type sharegpt, there is one; --custom-dataset-type chat sends all of it",
        path.display()
    )]
    NoTokenizerForLengths {
        /// The file.
        path: PathBuf,
    },
    /// Several pools, and texts drawn each by itself.
    #[error("{}: its {files} files are pools with names of their own, and --batch-size takes one pool; drop one of the two", path.display())]
    ManyPools {
        /// The folder.
        path: PathBuf,
        /// Files with rows.
        files: usize,
    },
    /// A file without a single row.
    #[error("{}: holds no rows", path.display())]
    EmptyFile {
        /// The file.
        path: PathBuf,
    },
    /// A folder whose files are not those that are read.
    #[error(
        "{}: holds no file whose name ends in .jsonl, and no others are read: {passed} {} passed over",
        path.display(),
        if *several { "are" } else { "is" }
    )]
    NoJsonl {
        /// The folder.
        path: PathBuf,
        /// Names of what it holds.
        passed: String,
        /// There is more than one.
        several: bool,
    },
    /// A file of a folder that is there packed too.
    #[error("{}: is there packed too, as {}; leave one of the two in the folder", path.display(), packed.display())]
    PackedBeside {
        /// The file.
        path: PathBuf,
        /// The same, packed.
        packed: PathBuf,
    },
    /// A file of which no row can be sent.
    #[error("{}: none of its {rows} rows can be sent; the first: {first}", path.display())]
    NoGoodRow {
        /// The file.
        path: PathBuf,
        /// Rows that it has.
        rows: u64,
        /// What is wrong with the first.
        first: Box<DataError>,
    },
    /// A file of which every row is longer than wanted.
    #[error("{}: every row ({rows}) is longer than --synthesis-max-isl allows, so that none is left", path.display())]
    AllTooLong {
        /// The file.
        path: PathBuf,
        /// Rows that are.
        rows: u64,
    },
    /// A replay of what has no times.
    #[error(
        "{}: no row has a 'timestamp' or a 'delay', so there is nothing to replay; drop the options of the replay (--replay-speedup, \
         --no-open-loop-replay and the like)",
        path.display()
    )]
    NoTimes {
        /// The file.
        path: PathBuf,
    },
    /// Lengths and blocks of what has no blocks.
    #[error(
        "{}: no row has 'hash_ids', so there are no prefixes and prompts to multiply; drop --synthesis-prefix-len-multiplier, \
         --synthesis-prefix-root-multiplier and --synthesis-prompt-len-multiplier",
        path.display()
    )]
    NoBlocks {
        /// The file.
        path: PathBuf,
    },
    /// Rows whose sessions are not known one by one.
    #[error(
        "--synthesis-prefix-root-multiplier puts each session into a tree, and the rows of bailian_trace ({}) are joined to chats by the \
         file: a chat would be torn apart; drop it",
        path.display()
    )]
    TornChats {
        /// The file.
        path: PathBuf,
    },
    /// Something that is done to traces alone.
    #[error("{option} is for traces, whose rows give lengths, and {} is read as {form}; drop it", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
        /// The option.
        option: &'static str,
    },
    /// What would change prompts that are sent as they were.
    #[error("{option} changes prompts, and those of {} ({form}) are sent as they were; drop it", path.display())]
    Verbatim {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
        /// The option.
        option: &'static str,
    },
    /// What goes with the prompts of recorded completions alone.
    #[error("{option} is for baseten_trace, and {} is read as {form}; drop it", path.display())]
    NotCompletions {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
        /// The option.
        option: &'static str,
    },
    /// A share of sessions that rows do not tell.
    #[error("--trace-session-sample-ratio keeps whole sessions, and rows of {form} ({}) do not tell theirs by themselves; drop it", path.display())]
    NoSessions {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
    },
    /// A field that both the rows and the user say.
    #[error("--extra-inputs says '{key}', and so does each row of {}; drop it there, or leave it out of the rows: {option}", path.display())]
    SaidTwice {
        /// The file.
        path: PathBuf,
        /// The field of a request.
        key: &'static str,
        /// What leaves it out of the rows.
        option: &'static str,
    },
    /// A schedule without a row.
    #[error("{}: none of its {rows} rows lies between --fixed-schedule-start-offset and --fixed-schedule-end-offset (milliseconds; a baseten_trace counts them from its first row)", path.display())]
    AllOutside {
        /// The file.
        path: PathBuf,
        /// Rows that could have been sent.
        rows: usize,
    },
    /// A table that lacks what its form has.
    #[error("{}: no column is called '{column}', which {form} has; there are {columns}", path.display())]
    TraceColumn {
        /// The file.
        path: PathBuf,
        /// What is missing.
        column: &'static str,
        /// Its form.
        form: &'static str,
        /// The names that there are.
        columns: String,
    },
    /// A trace with lists in a table that has none.
    #[error("{}: {form} is read from Parquet, JSONL or a JSON list; CSV has no lists, which it needs", path.display())]
    CsvTrace {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
    },
    /// A file of Arrow.
    #[error(
        "{}: is an Arrow IPC file, which is not read; write it as Parquet: python -c 'import sys, pyarrow as a, pyarrow.parquet as p; \
         p.write_table(a.ipc.open_file(sys.argv[1]).read_all(), sys.argv[2])' IN.arrow OUT.parquet",
        path.display()
    )]
    Arrow {
        /// The file.
        path: PathBuf,
    },
    /// A corpus for a form that brings its texts.
    #[error(
        "--prompt-corpus is for traces whose rows give lengths, and {} is read as {form}: its prompts are sent as they are; drop one \
         of the two",
        path.display()
    )]
    NoCorpus {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
    },
    /// Tokens of a block for a form without blocks.
    #[error("--isl-block-size is for traces with blocks, and {} is read as {form}; drop it", path.display())]
    NoBlockSize {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
    },
    /// Turns that cannot be torn apart.
    #[error(
        "--open-loop-strict sends each row as a session of one request, and rows of multi_turn ({}) are turns that follow the answers \
         before them; drop it",
        path.display()
    )]
    NotAlone {
        /// The file.
        path: PathBuf,
    },
    /// A file of a published data set that is neither here nor to be had.
    #[error(transparent)]
    Part(Box<dyn std::error::Error + Send + Sync>),
    /// A published data set that does not have what it is known to have.
    #[error("{}: --public-dataset {set} is sent from '{column}', and it has {columns}; is it the right file?", path.display())]
    NoPublicColumn {
        /// The file.
        path: PathBuf,
        /// The data set.
        set: &'static str,
        /// The column.
        column: String,
        /// Those that there are.
        columns: String,
    },
    /// Rows that keep no images apart.
    #[error(
        "--uuid-and-strip leaves out images that an earlier row of a session has shown, and {} is read as {form}; single_turn is the form \
         that has such rows (--custom-dataset-type)",
        path.display()
    )]
    NotStripped {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: &'static str,
    },
    /// A file that cannot be opened, or not be unpacked.
    #[error(transparent)]
    Input(#[from] aiperf_files::InputError),
    /// A window that reaches down to texts of no token.
    #[error(
        "--random-range-ratio {ratio} with an ISL of {isl} allows prompts of 0 tokens (the tokenizer adds {specials} of its own); \
         take a longer ISL or a smaller ratio"
    )]
    EmptyWindow {
        /// The ISL.
        isl: u64,
        /// The ratio of the ISL.
        ratio: f64,
        /// Tokens that the tokenizer adds.
        specials: u64,
    },
    /// A length that leaves no room for what a request cannot be without.
    #[error(
        "{what} of {asked} cannot be: the least possible is {least} ({parts}){}; ask for more, or pass --isl-below-minimum floor to \
         send the shortest that can be",
        place.as_ref().map(|p| format!(", and {p} asks for less")).unwrap_or_default()
    )]
    BelowLeast {
        /// Which length.
        what: &'static str,
        /// Tokens asked for.
        asked: u64,
        /// The least that can be.
        least: u64,
        /// What it is made of.
        parts: String,
        /// Whose length it is, unless it is everyone's.
        place: Option<String>,
    },
    /// A system message too short for the marker on it.
    #[error(
        "--shared-system-prompt-length: a shared system prompt of {asked} tokens has no room for its cache-bust marker: the least possible is {least}; ask for more, or \
         put the marker on the first turn (--cache-bust first_turn_prefix)"
    )]
    SystemBelowLeast {
        /// Tokens asked for.
        asked: u64,
        /// The least that can be.
        least: u64,
    },
    /// The chat template refuses a request of this shape.
    #[error(
        "the chat template takes no {}: {problem}; drop what asks for it, or --apply-chat-template (the template is in {file})",
        what.trim_start_matches("a ")
    )]
    Template {
        /// Where it is.
        file: String,
        /// What it was given.
        what: &'static str,
        /// Its own words.
        problem: aiperf_tokens::TemplateError,
    },
    /// Block ids that do not go with the length of their prompt.
    #[error("{problem}")]
    Blocks {
        /// Why.
        problem: crate::blocks::BlocksError,
    },
    /// The chat template leaves out what messages say.
    #[error(
        "the chat template in {file} leaves out what messages say: with a text of more than {asked} tokens its request has {reached}, so \
         an ISL that makes {asked} cannot be had (--isl); take another template, or drop --apply-chat-template"
    )]
    TemplateLosesText {
        /// Tokens asked of a request, or of a later turn.
        asked: u64,
        /// Tokens it has with a text longer than that.
        reached: u64,
        /// Where the template is.
        file: String,
    },
    /// Several texts in a message, where lengths are those of the rendered request.
    #[error(
        "--batch-size {batch} puts several texts into one message, and servers join them in different ways, so no length with the chat \
         template is sure; drop --apply-chat-template or the batch size"
    )]
    BatchWithTemplate {
        /// Texts of a turn.
        batch: usize,
    },
    /// More turns than requests can be numbered.
    #[error(
        "conversation {entry} draws {turns} turns, and the most is {most}; a smaller --conversation-turn-mean or \
         --conversation-turn-stddev, or a distribution with 'max', keeps below it"
    )]
    TooManyTurns {
        /// The conversation.
        entry: usize,
        /// Turns drawn.
        turns: u64,
        /// The most.
        most: u64,
    },
    /// A workload without entries.
    #[error("a data set needs at least 1 entry")]
    NoEntries,
    /// No model is named.
    #[error("no model is named")]
    NoModel,
    /// The tokenizer gives no text of this length.
    #[error(
        "tokenizer '{tokenizer}' makes no text of {asked} tokens from the corpus; the nearest found has {nearest}"
    )]
    NoTextOfLength {
        /// The tokenizer's name.
        tokenizer: String,
        /// Tokens asked for.
        asked: usize,
        /// The nearest count found.
        nearest: usize,
    },
    /// Prompts are made to a length in tokens, and there is nothing to count with.
    #[error("synthetic prompts need a tokenizer")]
    NoTokenizer,
    /// Texts of a trace are made to a length in tokens, and there is nothing to count with.
    #[error(
        "the rows of a trace give lengths in tokens, which texts are made to with a tokenizer: without --use-server-token-count, or with \
         the form named (--custom-dataset-type), there is one"
    )]
    NoTokenizerForTrace,
    /// The tokenizer has no tokens to make texts of.
    #[error("tokenizer '{tokenizer}' has no ordinary tokens to make random prompts of")]
    NoVocabulary {
        /// The tokenizer's name.
        tokenizer: String,
    },
    /// A length that no model takes and no memory should.
    #[error("an ISL of {asked} tokens is beyond the most that prompts are made for, {most}")]
    TooLong {
        /// Tokens asked for.
        asked: u64,
        /// The most.
        most: u64,
    },
    /// More entries than draws are kept for.
    #[error(
        "{entries} entries are more than the {most} that random prompts with a range ratio can have: their draws have one order \
         and are kept in memory"
    )]
    TooManyEntries {
        /// Entries asked for.
        entries: usize,
        /// The most.
        most: usize,
    },
    /// A position outside the workload.
    #[error("conversation {index} of {len} does not exist")]
    OutOfRange {
        /// The position asked for.
        index: usize,
        /// Number of conversations.
        len: usize,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A row that cannot be sent.
    #[error("{}:{line}{}: {problem}", path.display(), column.map(|c| format!(":{c}")).unwrap_or_default())]
    Row {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// Byte in the line, from 1, where one is to blame.
        column: Option<usize>,
        /// What is wrong.
        problem: RowProblem,
    },
}
