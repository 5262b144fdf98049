//! What an engine says when it will not or cannot answer: status and body, flavour by flavour.

use http::StatusCode;
use maitred_engines::Engine;
use serde_json::{Value, json};

use super::ask::{Api, Served};

/// One complaint of pydantic's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    kind: &'static str,
    field: Option<&'static str>,
    message: &'static str,
    input: String,
}

impl Complaint {
    pub(super) fn new(kind: &'static str, field: Option<&'static str>, message: &'static str, input: &Value) -> Self {
        Self {
            kind,
            field,
            message,
            input: python(input),
        }
    }
}

/// A value as Python prints it, shortened as vLLM shortens it.
fn python(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{text}'"),
        Value::Array(list) => format!("'<list of {} items>'", list.len()),
        Value::Object(object) => format!("'<dict of {} items>'", object.len()),
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Problem {
    /// No key, or a wrong one.
    Unauthorized,
    /// No such path.
    NotFound,
    /// The path has another method, this one.
    Method(&'static str),
    /// The body is larger than the face reads.
    BodyTooLarge,
    /// Not JSON by its content type.
    ContentType,
    /// Not JSON from this byte on.
    Json(usize),
    /// Fields of wrong types, or missing.
    Invalid(Vec<Complaint>),
    /// A prompt of nothing.
    EmptyPrompt,
    /// More choices than this.
    TooManyChoices(usize),
    /// No model of this name.
    UnknownModel(String),
    /// The prompt alone is longer than the context.
    TooLong {
        /// Its tokens.
        tokens: u32,
        /// The context.
        limit: u32,
    },
    /// More output asked for than there is context.
    MaxTokens {
        /// What was asked for.
        asked: u32,
        /// Tokens of the prompt.
        prompt: u32,
        /// The context.
        limit: u32,
    },
    /// A temperature below zero.
    Temperature(f64),
    /// A tool must be called, and there is none.
    ToolChoice,
    /// A picture for a model that reads text.
    NotMultimodal,
    /// Still loading.
    Loading,
    /// Too much to do.
    Overloaded,
    /// Something broke.
    Failed,
    /// The scheduler is dead.
    EngineDead,
}

/// The words of an engine whose scheduler died.
pub(super) const ENGINE_DEAD: &str = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

impl Problem {
    /// The status and the JSON body.
    pub(super) fn answer(&self, served: &Served, api: Option<Api>) -> (StatusCode, String) {
        match (self, served.engine) {
            (Self::NotFound, _) => return (StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#.to_owned()),
            (Self::Method(_), _) => {
                return (
                    StatusCode::METHOD_NOT_ALLOWED,
                    r#"{"detail":"Method Not Allowed"}"#.to_owned(),
                );
            }
            (Self::Unauthorized, _) => return (StatusCode::UNAUTHORIZED, r#"{"error":"Unauthorized"}"#.to_owned()),
            _ => {}
        }
        let row = self.row(served, api);
        let status = StatusCode::from_u16(row.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, row.body(served.engine, api))
    }

    fn row(&self, served: &Served, api: Option<Api>) -> Row {
        let sglang = served.engine == Engine::Sglang;
        let bad = |message: String, param: Option<&str>| Row::new(400, "BadRequestError", message, param);
        match self {
            Self::ContentType => validation(served.engine, api, &[media_type()]),
            Self::Json(at) => validation(served.engine, api, &[bad_json(*at)]),
            Self::Invalid(complaints) => {
                let said: Vec<_> = complaints
                    .iter()
                    .map(|complaint| (complaint.said(), complaint.location()))
                    .collect();
                validation(served.engine, api, &said)
            }
            Self::EmptyPrompt => bad(
                "Either prompt or prompt_embeds must be provided and non-empty.".to_owned(),
                None,
            ),
            Self::TooManyChoices(most) => bad(format!("n must be at most {most}."), Some("n")),
            Self::UnknownModel(name) => Row::new(404, "NotFoundError", unknown_model(served, name), Some("model")),
            Self::TooLong { tokens, limit } => too_long(sglang, *tokens, *limit),
            Self::MaxTokens { asked, prompt, limit } => max_tokens(sglang, *asked, *prompt, *limit),
            Self::Temperature(found) if sglang => bad(
                format!("temperature must be a non-negative finite number, got {found:?}."),
                None,
            ),
            Self::Temperature(found) => bad(
                format!("temperature must be non-negative, got {found:?}. (parameter=temperature, value={found:?})"),
                Some("temperature"),
            ),
            Self::ToolChoice if sglang => bad(
                "Tools cannot be empty if tool choice is set to required.".to_owned(),
                None,
            ),
            Self::ToolChoice => bad(
                "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)".to_owned(),
                Some("tool_choice"),
            ),
            Self::NotMultimodal if sglang => bad(
                "Model only supports text input; received unsupported content type 'image_url'.".to_owned(),
                None,
            ),
            Self::NotMultimodal => bad(
                format!(
                    "{} is not a multimodal model",
                    served.names.first().map_or("", String::as_str)
                ),
                None,
            ),
            Self::BodyTooLarge => Row::new(413, "RequestEntityTooLarge", "The body is too large.".to_owned(), None),
            Self::Loading => Row::new(
                503,
                "ServiceUnavailableError",
                "The model is still loading.".to_owned(),
                None,
            ),
            Self::Overloaded => Row::new(
                429,
                "TooManyRequestsError",
                "Too many requests: the queue is full.".to_owned(),
                None,
            ),
            Self::Failed => Row::new(500, "InternalServerError", "Internal server error".to_owned(), None),
            Self::EngineDead => Row::new(500, "InternalServerError", ENGINE_DEAD.to_owned(), None),
            // Answered before.
            Self::Unauthorized | Self::NotFound | Self::Method(_) => {
                Row::new(500, "InternalServerError", String::new(), None)
            }
        }
    }
}

/// What an error body says, in any of its forms.
#[derive(Debug)]
struct Row {
    code: u16,
    kind: &'static str,
    message: String,
    param: Option<String>,
}

impl Row {
    fn new(code: u16, kind: &'static str, message: String, param: Option<&str>) -> Self {
        Self {
            code,
            kind,
            message,
            param: param.map(str::to_owned),
        }
    }

    fn body(&self, engine: Engine, api: Option<Api>) -> String {
        let Self {
            code,
            kind,
            message,
            param,
        } = self;
        let quoted = |text: &str| Value::from(text).to_string();
        let message_json = quoted(message);
        let is_validation = *kind == "Bad Request";
        match (engine, api) {
            (Engine::Vllm, Some(Api::Messages)) if !is_validation => {
                format!(r#"{{"type":"error","error":{{"type":"{kind}","message":{message_json}}}}}"#)
            }
            (Engine::Sglang, Some(Api::Messages)) => {
                format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":{message_json}}}}}"#)
            }
            (Engine::Vllm | Engine::Hosted, _) => {
                let param = param.as_deref().map_or_else(|| "null".to_owned(), quoted);
                format!(r#"{{"error":{{"message":{message_json},"type":"{kind}","param":{param},"code":{code}}}}}"#)
            }
            (Engine::Sglang | Engine::TrtllmServe, _) => {
                format!(r#"{{"object":"error","message":{message_json},"type":"{kind}","param":null,"code":{code}}}"#)
            }
            // The OpenAI frontend of Triton raises plain HTTP exceptions.
            (Engine::Triton | Engine::TritonTensorrtLlm, _) => json!({ "detail": message }).to_string(),
        }
    }
}

impl Complaint {
    fn said(&self) -> [String; 4] {
        let location = self.field.map_or_else(String::new, |field| format!(".{field}"));
        [
            self.kind.to_owned(),
            location,
            self.message.to_owned(),
            self.input.clone(),
        ]
    }

    fn location(&self) -> String {
        self.field
            .map_or_else(|| "body".to_owned(), |field| format!("body.{field}"))
    }
}

/// Kind, location behind `body`, message and input of a complaint; and where it is.
type Said = ([String; 4], String);

fn media_type() -> Said {
    let message = "Unsupported Media Type: Only 'application/json' is allowed";
    (
        [
            "value_error".to_owned(),
            String::new(),
            message.to_owned(),
            String::new(),
        ],
        String::new(),
    )
}

fn bad_json(at: usize) -> Said {
    let said = [
        "json_invalid".to_owned(),
        format!(".{at}"),
        "JSON decode error".to_owned(),
        String::new(),
    ];
    (said, format!("body.{at}"))
}

/// A validation error as FastAPI's handlers of each engine print it.
fn validation(engine: Engine, api: Option<Api>, complaints: &[Said]) -> Row {
    let lines: Vec<String> = complaints
        .iter()
        .map(|(said, _)| validation_line(engine, said))
        .collect();
    let plural = if lines.len() == 1 { "" } else { "s" };
    let mut message = format!("{} validation error{plural}:\n  {}", lines.len(), lines.join("\n  "));
    if engine == Engine::Sglang {
        if api == Some(Api::Messages)
            && let Some(([_, location, text, _], _)) = complaints.first()
        {
            let field = location.trim_start_matches('.');
            return Row::new(400, "invalid_request_error", format!("{field}: {text}"), None);
        }
        let is_media_type = complaints.iter().any(|([kind, ..], _)| kind == "value_error");
        if is_media_type {
            message.push_str(&format!(" [{}]", lines.join(", ")));
            return Row::new(400, "Bad Request", message, None);
        }
        // The engine lets its own file paths out.
        message.push_str(&format!(
            "\n\n  File \"/opt/sglang/lib/python3.11/site-packages/sglang/srt/entrypoints/http_server.py\", line 1870, \
             in openai_v1_chat_completions\n    POST /v1/chat/completions [{}]",
            lines.join(", ")
        ));
    }
    let param = complaints
        .first()
        .map(|(_, location)| location.as_str())
        .filter(|location| !location.is_empty());
    Row::new(400, "Bad Request", message, param)
}

fn validation_line(engine: Engine, [kind, location, message, input]: &[String; 4]) -> String {
    let json_input = if engine == Engine::Vllm {
        "'<dict of 0 items>'"
    } else {
        "{}"
    };
    let place = match (engine, location.strip_prefix('.')) {
        (Engine::Vllm, _) => format!("'body{location}'"),
        (_, Some(at)) if at.bytes().all(|byte| byte.is_ascii_digit()) => format!("('body', {at})"),
        (_, Some(field)) => format!("('body', '{field}')"),
        (_, None) => "('body',)".to_owned(),
    };
    match (kind.as_str(), engine) {
        ("value_error", Engine::Vllm) => message.clone(),
        ("value_error", _) => {
            format!("{{'loc': ['header', 'content-type'], 'msg': \"{message}\", 'type': 'value_error'}}")
        }
        ("json_invalid", _) => format!(
            "{{'type': 'json_invalid', 'loc': {place}, 'msg': '{message}', 'input': {json_input}, \
             'ctx': {{'error': 'Expecting value'}}}}"
        ),
        _ => format!("{{'type': '{kind}', 'loc': {place}, 'msg': '{message}', 'input': {input}}}"),
    }
}

fn unknown_model(served: &Served, name: &str) -> String {
    match served.engine {
        Engine::Triton | Engine::TritonTensorrtLlm => format!("Unknown model: {name}"),
        _ => {
            let mut aliases = served.names.clone();
            aliases.sort();
            format!(
                "The model `{name}` does not exist. Valid aliases: {}.",
                aliases.join(", ")
            )
        }
    }
}

fn too_long(sglang: bool, tokens: u32, limit: u32) -> Row {
    if sglang {
        let message =
            format!("The input ({tokens} tokens) is longer than the model's context length ({limit} tokens).");
        return Row::new(400, "BadRequestError", message, None);
    }
    // vLLM stops counting one token beyond the limit.
    let seen = limit.saturating_add(1);
    let message = format!(
        "This model's maximum context length is {limit} tokens. However, your prompt contains at least {seen} input \
         tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. \
         (parameter=input_tokens, value={seen})"
    );
    Row::new(400, "BadRequestError", message, Some("input_tokens"))
}

fn max_tokens(sglang: bool, asked: u32, prompt: u32, limit: u32) -> Row {
    if sglang {
        let total = u64::from(asked) + u64::from(prompt);
        let message = format!(
            "Requested token count exceeds the model's maximum context length of {limit} tokens. You requested a total of \
             {total} tokens: {prompt} tokens from the input messages and {asked} tokens for the completion. Please reduce \
             the number of tokens in the input messages or the completion to fit within the limit."
        );
        return Row::new(400, "BadRequestError", message, None);
    }
    let message = format!(
        "max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens. \
         (parameter=max_tokens, value={asked})"
    );
    Row::new(400, "BadRequestError", message, Some("max_tokens"))
}
