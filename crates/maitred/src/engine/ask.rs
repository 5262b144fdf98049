//! What a call asks for, read from its body as the engines read it.

mod fields;
mod prompt;
mod schema;

use maitred_engines::Engine;
use maitred_sim::AdapterIndex;
use serde_json::Value;

use super::problem::Problem;
use super::text::PromptTokens;
use fields::Fields;

/// The API that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completion,
    /// `/v1/embeddings`.
    Embedding,
    /// `/v1/messages`, Anthropic's.
    Messages,
}

/// What kind of text the answer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Words.
    Words,
    /// A JSON text that fits the schema asked for.
    Json(String),
    /// A call of a tool.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments, a JSON text.
        arguments: String,
    },
}

/// One call.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// The API that is spoken.
    pub(super) api: Api,
    /// The model's name as it will be repeated.
    pub(super) model: String,
    /// The adapter that the name stands for.
    pub(super) adapter: Option<AdapterIndex>,
    /// The prompts' tokens.
    pub(super) prompts: Vec<Vec<u32>>,
    /// Choices per prompt.
    pub(super) n: u32,
    /// What the answer is.
    pub(super) form: Form,
    /// Whether it is streamed.
    pub(super) stream: bool,
    /// Whether a stream ends with usage.
    pub(super) include_usage: bool,
    /// Whether each event carries usage.
    pub(super) continuous_usage: bool,
    /// Limit on its tokens.
    pub(super) max_tokens: Option<u32>,
    /// Fewest tokens.
    pub(super) min_tokens: u32,
    /// Whether it goes on to the limit in any case.
    pub(super) ignore_eos: bool,
    /// What ends it.
    pub(super) stop: Vec<String>,
    /// The client's seed.
    pub(super) seed: u64,
    /// Whether embeddings are wanted as base64.
    pub(super) base64: bool,
    /// How long embeddings are wanted.
    pub(super) dimensions: Option<u32>,
}

/// What the engine serves, as far as reading a call needs it.
#[derive(Clone, Debug)]
pub(super) struct Served {
    /// Whose face it wears.
    pub(super) engine: Engine,
    /// Names of the base model; the first is its own.
    pub(super) names: Vec<String>,
    /// Names of adapters.
    pub(super) adapters: Vec<String>,
    /// Most tokens of prompt and answer together.
    pub(super) context: u32,
}

/// Most choices over all prompts of one call.
const MAX_CHOICES: usize = 128;

impl Served {
    /// The name to repeat and the adapter, for the model that a call names.
    fn resolve(&self, name: Option<&str>) -> Result<(String, Option<AdapterIndex>), Problem> {
        let own = || self.names.first().cloned().unwrap_or_default();
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok((own(), None));
        };
        if let Some(index) = self.adapters.iter().position(|adapter| adapter == name) {
            return Ok((name.to_owned(), AdapterIndex::new(index)));
        }
        // SGLang answers with the model it has and repeats whatever name it was called.
        if self.engine == Engine::Sglang || self.names.iter().any(|own| own == name) {
            return Ok((name.to_owned(), None));
        }
        Err(Problem::UnknownModel(name.to_owned()))
    }

    /// Reads a call of `api`.
    ///
    /// # Errors
    /// What the engine would say.
    pub(super) fn read(&self, api: Api, body: &[u8]) -> Result<Ask, Problem> {
        let value: Value = serde_json::from_slice(body).map_err(|error| Problem::Json(offset(body, &error)))?;
        let mut fields = Fields::new(&value)?;
        let ask = self.read_fields(api, &mut fields);
        // Everything that is wrong with the form is said at once, and before anything else.
        fields.finish()?;
        let ask = ask?;
        self.check(ask)
    }

    fn read_fields(&self, api: Api, fields: &mut Fields<'_>) -> Result<Ask, Problem> {
        let prompts = match api {
            Api::Chat => prompt::chat(fields),
            Api::Messages => prompt::messages(fields),
            Api::Completion => prompt::completion(fields, "prompt"),
            Api::Embedding => prompt::completion(fields, "input"),
        };
        let max_tokens = fields.count("max_completion_tokens").or(fields.count("max_tokens"));
        if api == Api::Messages && max_tokens.is_none() {
            fields.require("max_tokens");
        }
        let options = fields.object("stream_options");
        let option = |name: &str| options.and_then(|options| options.get(name)).and_then(Value::as_bool);
        let (n, stream) = (fields.count("n"), fields.flag("stream"));
        let (min_tokens, seed) = (fields.count("min_tokens"), fields.count("seed"));
        let temperature = fields.number("temperature");
        let (model, adapter) = self.resolve(fields.text("model"))?;
        if let Some(temperature) = temperature.filter(|temperature| *temperature < 0.0) {
            return Err(Problem::Temperature(temperature));
        }
        Ok(Ask {
            api,
            model,
            adapter,
            prompts: prompts?,
            n: n.unwrap_or(1).max(1),
            form: if api == Api::Chat {
                schema::form(fields)?
            } else {
                Form::Words
            },
            stream: stream.unwrap_or(false),
            include_usage: option("include_usage").unwrap_or(false),
            continuous_usage: option("continuous_usage_stats").unwrap_or(false),
            // An engine that is not told otherwise completes 16 tokens, and chats to the end of its context.
            max_tokens: max_tokens.or((api == Api::Completion).then_some(16)),
            min_tokens: min_tokens.unwrap_or(0),
            ignore_eos: fields.flag("ignore_eos").unwrap_or(false),
            stop: fields.texts(if api == Api::Messages { "stop_sequences" } else { "stop" }),
            seed: u64::from(seed.unwrap_or(0)),
            base64: fields.text("encoding_format") == Some("base64"),
            dimensions: fields.count("dimensions"),
        })
    }

    fn check(&self, ask: Ask) -> Result<Ask, Problem> {
        let choices = ask.prompts.len().saturating_mul(ask.n as usize);
        if choices > MAX_CHOICES {
            return Err(Problem::TooManyChoices(MAX_CHOICES));
        }
        let longest = ask.prompts.iter().map(Vec::len).max().unwrap_or(0);
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        if longest >= self.context && !(ask.api == Api::Embedding && longest == self.context) {
            return Err(Problem::TooLong {
                tokens: longest,
                limit: self.context,
            });
        }
        if let Some(asked) = ask.max_tokens.filter(|asked| *asked > self.context) {
            return Err(Problem::MaxTokens {
                asked,
                prompt: longest,
                limit: self.context,
            });
        }
        Ok(ask)
    }

    /// How many tokens a body holds, for `/tokenize` and for counting.
    ///
    /// # Errors
    /// What the engine would say.
    pub(super) fn tokenize(&self, api: Api, body: &[u8]) -> Result<Vec<u32>, Problem> {
        let value: Value = serde_json::from_slice(body).map_err(|error| Problem::Json(offset(body, &error)))?;
        let mut fields = Fields::new(&value)?;
        let prompts = match (api, value.get("messages")) {
            (Api::Messages, _) => prompt::messages(&mut fields),
            (_, Some(_)) => prompt::chat(&mut fields),
            (_, None) => prompt::completion(&mut fields, "prompt"),
        };
        self.resolve(fields.text("model"))?;
        fields.finish()?;
        Ok(prompts?.pop().unwrap_or_else(|| PromptTokens::default().finish()))
    }
}

/// The byte at which reading JSON stopped.
fn offset(body: &[u8], error: &serde_json::Error) -> usize {
    let lines = body
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1));
    (lines.map(<[u8]>::len).sum::<usize>() + error.column()).min(body.len())
}

#[cfg(test)]
mod tests;
