//! The HTTP face: paths, methods, keys, and answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use maitred_engines::Engine;
use maitred_sim::{FinishReason, OutputLength, Refused};

use super::ask::{Api, Ask, Served};
use super::body::{FaceBody, read_capped};
use super::call_log::{CallLog, Logged};
use super::core::{Core, Life};
use super::embedding;
use super::faults::{Break, CallFault};
use super::page::PageSetup;
use super::problem::Problem;
use super::progress::Progress;
use super::script::Planner;
use super::shape::{Ending, Quoted, Shape};
use super::stream::{Call, Cut, EventStream};
use super::text::mix;

/// What the face is made of.
#[derive(Debug)]
pub(super) struct Face {
    /// The engine behind it.
    pub(super) core: Arc<Core>,
    /// What it serves.
    pub(super) served: Served,
    /// Its metrics page.
    pub(super) page: PageSetup,
    /// How long answers are.
    pub(super) length: OutputLength,
    /// Tokens per KV block.
    pub(super) block_size: u32,
    /// Seed of texts and lengths.
    pub(super) seed: u64,
    /// The key that is asked for.
    pub(super) api_key: Option<String>,
    /// Whether usage tells of cached tokens.
    pub(super) tells_cached: bool,
    /// Where calls are written, if they are.
    pub(super) call_log: Option<Arc<CallLog>>,
    /// Where it takes faults and commands, if it does.
    pub(super) admin: Option<SocketAddr>,
    /// Numbers of answers.
    pub(super) answers: AtomicU64,
}

/// A path that the face knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Infer(Api),
    Tokenize(Api),
    Models,
    Metrics,
    Health,
    Version,
    ModelFacts,
    Simulation,
    ServerFacts,
}

impl Route {
    fn find(engine: Engine, path: &str) -> Option<(Self, &'static str)> {
        let sglang = engine == Engine::Sglang;
        let triton = matches!(engine, Engine::Triton | Engine::TritonTensorrtLlm);
        let found = match path {
            "/v1/chat/completions" => (Self::Infer(Api::Chat), "/v1/chat/completions"),
            "/v1/completions" => (Self::Infer(Api::Completion), "/v1/completions"),
            "/v1/embeddings" => (Self::Infer(Api::Embedding), "/v1/embeddings"),
            "/v1/messages" => (Self::Infer(Api::Messages), "/v1/messages"),
            "/v1/messages/count_tokens" => (Self::Tokenize(Api::Messages), "/v1/messages/count_tokens"),
            "/tokenize" => (Self::Tokenize(Api::Chat), "/tokenize"),
            "/v1/models" => (Self::Models, "/v1/models"),
            "/health" | "/ping" => (Self::Health, "/health"),
            "/health_generate" if sglang => (Self::Health, "/health_generate"),
            "/health/ready" | "/v2/health/ready" | "/v2/health/live" if triton => (Self::Health, "/health/ready"),
            "/version" if !sglang => (Self::Version, "/version"),
            "/model_info" | "/get_model_info" if sglang => (Self::ModelFacts, "/model_info"),
            "/sim" => (Self::Simulation, "/sim"),
            "/server_info" | "/get_server_info" if sglang => (Self::ServerFacts, "/server_info"),
            path if path == "/metrics" || path == engine.metrics_path() => (Self::Metrics, "/metrics"),
            _ => return None,
        };
        Some(found)
    }

    const fn method(self) -> &'static str {
        match self {
            Self::Infer(_) | Self::Tokenize(_) => "POST",
            _ => "GET",
        }
    }

    const fn api(self) -> Option<Api> {
        match self {
            Self::Infer(api) => Some(api),
            _ => None,
        }
    }
}

type Reply = Response<FaceBody>;

impl Face {
    /// Answers a request; an error cuts the connection.
    pub(super) async fn serve(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Cut> {
        let route = Route::find(self.served.engine, request.uri().path());
        let method = if request.method() == Method::POST {
            "POST"
        } else {
            "GET"
        };
        let reply = self.dispatch(route.map(|(route, _)| route), request).await?;
        let class = reply.status().as_u16() / 100;
        let handler = route.map_or("none", |(_, name)| name);
        self.core
            .with(|state| *state.face.answers.entry((handler, method, class)).or_default() += 1);
        Ok(reply)
    }

    async fn dispatch(&self, route: Option<Route>, request: Request<Incoming>) -> Result<Reply, Cut> {
        if request.uri().path().starts_with("/v1/") && !self.may(request.headers()) {
            return Ok(self.refuse(&Problem::Unauthorized, None));
        }
        let Some(route) = route else {
            return Ok(self.refuse(&Problem::NotFound, None));
        };
        if request.method().as_str() != route.method() {
            return Ok(self.refuse(&Problem::Method(route.method()), None));
        }
        match route {
            Route::Infer(api) => match self.infer(api, request).await {
                Ok(reply) => reply,
                Err(problem) => Ok(self.refuse(&problem, Some(api))),
            },
            Route::Tokenize(api) => Ok(match self.tokenize(api, request).await {
                Ok(reply) => reply,
                Err(problem) => self.refuse(&problem, route.api()),
            }),
            Route::Models => Ok(json(StatusCode::OK, self.models())),
            Route::Metrics => Ok(self.metrics()),
            Route::Health => Ok(self.health().await),
            Route::Version => Ok(json(StatusCode::OK, r#"{"version":"0.32.0"}"#.to_owned())),
            Route::ModelFacts => Ok(json(StatusCode::OK, self.model_facts())),
            Route::Simulation => Ok(json(StatusCode::OK, self.simulation())),
            Route::ServerFacts => Ok(json(StatusCode::OK, self.server_facts())),
        }
    }

    /// Whether the key fits, if one is asked for.
    fn may(&self, headers: &HeaderMap) -> bool {
        let Some(key) = &self.api_key else { return true };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        given
            .and_then(|given| given.strip_prefix("Bearer "))
            .is_some_and(|given| given == key)
    }

    fn refuse(&self, problem: &Problem, api: Option<Api>) -> Reply {
        let (status, body) = problem.answer(&self.served, api);
        let mut reply = json(status, body);
        if let Problem::Method(allowed) = problem {
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        reply
    }

    async fn infer(&self, api: Api, request: Request<Incoming>) -> Result<Result<Reply, Cut>, Problem> {
        let (parts, body) = request.into_parts();
        let body = read_capped(body).await?;
        check_content_type(&parts.headers)?;
        let ask = self.served.read(api, &body)?;
        match self.core.with(|state| state.life) {
            Life::Loading => return Err(Problem::Loading),
            Life::Dead if self.served.engine == Engine::Sglang => return std::future::pending().await,
            Life::Dead => return Err(Problem::EngineDead),
            Life::Serving | Life::Draining => {}
        }
        let breaks = match self.core.draw_fault() {
            Some(CallFault::Reject) => return Err(Problem::Overloaded),
            Some(CallFault::Fail) => return Err(Problem::Failed),
            Some(CallFault::Break(after, how)) => Some((after, how)),
            None => None,
        };
        let call = self.submit(&ask, &parts.headers, breaks)?;
        if ask.stream && api != Api::Embedding {
            return Ok(Ok(event_stream(EventStream::new(call))));
        }
        self.whole(&ask, call).await
    }

    fn submit(&self, ask: &Ask, headers: &HeaderMap, breaks: Option<(u32, Break)>) -> Result<Call, Problem> {
        let planner = Planner {
            served: &self.served,
            length: self.length,
            block_size: self.block_size,
            seed: self.seed,
        };
        let (choices, requests) = planner.plan(ask);
        let progress = Arc::new(Progress::new(choices.len()));
        let ticket = self.core.submit(requests, &progress).map_err(|refused| match refused {
            Refused::TooLong { limit } | Refused::NeverFits { limit } => Problem::TooLong {
                tokens: limit.get(),
                limit: limit.get(),
            },
            Refused::QueueFull | Refused::DuplicateNumber => Problem::Overloaded,
            Refused::UnknownAdapter => Problem::UnknownModel(ask.model.clone()),
        })?;
        let prompt_tokens = ask.prompts.iter().map(Vec::len).sum::<usize>();
        let prompt_tokens = u32::try_from(prompt_tokens).unwrap_or(u32::MAX);
        let logged = self.call_log.as_ref().map(|log| {
            let id = headers.get("x-request-id").and_then(|value| value.to_str().ok());
            Logged::begin(log, id.unwrap_or_default(), prompt_tokens, &progress)
        });
        Ok(Call {
            shape: self.shape(ask, headers),
            choices,
            n: ask.n as usize,
            prompt_tokens,
            tells_cached: self.tells_cached,
            continuous_usage: ask.continuous_usage,
            breaks,
            progress,
            ticket,
            logged,
        })
    }

    fn shape(&self, ask: &Ask, headers: &HeaderMap) -> Shape {
        let engine = self.served.engine;
        Shape {
            engine,
            api: ask.api,
            id: self.answer_id(ask.api, headers),
            created: self.core.clock().unix_now().get() / 1000,
            model: ask.model.clone(),
            fingerprint: format!("vllm-0.32.0-{:08x}", mix(self.seed, 7) >> 32),
            include_usage: ask.include_usage,
            event_head: String::new(),
        }
        .with_event_head()
    }

    /// vLLM takes the caller's request id into the answer's; SGLang has bare ones.
    fn answer_id(&self, api: Api, headers: &HeaderMap) -> String {
        let number = mix(
            mix(self.seed, self.core.born.get()),
            self.answers.fetch_add(1, Ordering::Relaxed),
        );
        if self.served.engine == Engine::Sglang {
            let prefix = if api == Api::Messages { "msg_" } else { "" };
            return format!("{prefix}{number:016x}{:016x}", mix(number, 1));
        }
        let prefix = match api {
            Api::Chat | Api::Messages => "chatcmpl",
            Api::Completion => "cmpl",
            Api::Embedding => "embd",
        };
        let given = headers.get("x-request-id").and_then(|value| value.to_str().ok());
        let given =
            given.filter(|id| id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        given.map_or_else(|| format!("{prefix}-{number:016x}"), |id| format!("{prefix}-{id}"))
    }

    /// Waits for the whole answer.
    async fn whole(&self, ask: &Ask, call: Call) -> Result<Result<Reply, Cut>, Problem> {
        if let Some((0, Break::Hang)) = call.breaks {
            std::future::pending::<()>().await;
        }
        let answer = call.progress.over().await;
        if answer.engine_died {
            return if self.served.engine == Engine::Sglang {
                Ok(Err(Cut))
            } else {
                Err(Problem::EngineDead)
            };
        }
        let totals = call.totals(&answer);
        match call.breaks.filter(|(after, _)| totals.output >= *after) {
            Some((_, Break::Hang)) => return std::future::pending().await,
            Some((_, Break::Cut)) => return Ok(Err(Cut)),
            Some((_, Break::Error)) => return Err(Problem::EngineDead),
            None => {}
        }
        if ask.api == Api::Embedding {
            let Shape { id, created, model, .. } = &call.shape;
            let head = embedding::Head {
                id,
                created: *created,
                model,
            };
            let body = embedding::answer(&ask.prompts, ask.dimensions, ask.base64, &head);
            return Ok(Ok(json(StatusCode::OK, body)));
        }
        let choices = call.choices.iter().zip(&answer.choices);
        let texts: Vec<_> = choices
            .map(|(choice, progress)| {
                let reason = progress.end.unwrap_or(FinishReason::Abort);
                (choice.script.text(0, progress.tokens), Ending { reason, choice })
            })
            .collect();
        Ok(Ok(json(StatusCode::OK, call.shape.whole(&texts, totals))))
    }

    async fn tokenize(&self, api: Api, request: Request<Incoming>) -> Result<Reply, Problem> {
        let (parts, body) = request.into_parts();
        let body = read_capped(body).await?;
        check_content_type(&parts.headers)?;
        let tokens = self.served.tokenize(api, &body)?;
        let count = tokens.len();
        let sglang = self.served.engine == Engine::Sglang;
        let body = match api {
            Api::Messages if sglang => format!(r#"{{"input_tokens":{count}}}"#),
            Api::Messages => {
                format!(r#"{{"input_tokens":{count},"context_management":{{"original_input_tokens":{count}}}}}"#)
            }
            _ => {
                let tokens = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                let context = self.served.context;
                if sglang {
                    format!(r#"{{"tokens":[{tokens}],"count":{count},"max_model_len":{context}}}"#)
                } else {
                    format!(r#"{{"count":{count},"max_model_len":{context},"tokens":[{tokens}],"token_strs":null}}"#)
                }
            }
        };
        Ok(json(StatusCode::OK, body))
    }

    fn models(&self) -> String {
        let created = self.core.born.get() / 1000;
        let context = self.served.context;
        let root = self.served.names.first().map_or("", String::as_str);
        let row = |name: &str, parent: Option<&str>| {
            let (id, parent_json) = (
                Quoted(name),
                parent.map_or_else(|| "null".to_owned(), |name| Quoted(name).to_string()),
            );
            if self.served.engine == Engine::Sglang {
                return format!(
                    "{{\"id\":{id},\"object\":\"model\",\"created\":{created},\"owned_by\":\"sglang\",\"root\":{id},\
                     \"parent\":{parent_json},\"max_model_len\":{context}}}"
                );
            }
            let limit = if parent.is_some() {
                "null".to_owned()
            } else {
                context.to_string()
            };
            let (root, permission) = (Quoted(root), mix(self.seed, super::text::digest(name.as_bytes())));
            format!(
                "{{\"id\":{id},\"object\":\"model\",\"created\":{created},\"owned_by\":\"vllm\",\"root\":{root},\"parent\":\
                 {parent_json},\"max_model_len\":{limit},\"permission\":[{{\"id\":\"modelperm-{permission:016x}\",\"object\":\
                 \"model_permission\",\"created\":{created},\"allow_create_engine\":false,\"allow_sampling\":true,\
                 \"allow_logprobs\":true,\"allow_search_indices\":false,\"allow_view\":true,\"allow_fine_tuning\":false,\
                 \"organization\":\"*\",\"group\":null,\"is_blocking\":false}}]}}"
            )
        };
        let own = self.served.names.iter().map(|name| row(name, None));
        let adapters = self.served.adapters.iter().map(|name| row(name, Some(root)));
        format!(
            r#"{{"object":"list","data":[{}]}}"#,
            own.chain(adapters).collect::<Vec<_>>().join(",")
        )
    }

    fn model_facts(&self) -> String {
        let name = Quoted(self.served.names.first().map_or("", String::as_str));
        format!(
            "{{\"model_path\":{name},\"served_model_name\":{name},\"tokenizer_path\":{name},\"is_generation\":true,\
             \"weight_version\":\"default\"}}"
        )
    }

    /// What no real engine says: that this is none, and where it can be told to fail.
    fn simulation(&self) -> String {
        serde_json::json!({ "simulated": true, "admin": self.admin }).to_string()
    }

    /// Of SGLang's settings, what tells which release it runs.
    fn server_facts(&self) -> String {
        let name = Quoted(self.served.names.first().map_or("", String::as_str));
        format!(
            "{{\"model_path\":{name},\"served_model_name\":{name},\"revision\":null,\"quantization\":null,\
             \"weight_version\":\"default\",\"version\":\"0.5.23\"}}"
        )
    }

    fn metrics(&self) -> Reply {
        let Some(page) = self.page.render(&self.core) else {
            return self.refuse(&Problem::NotFound, None);
        };
        let version = if self.served.engine == Engine::Vllm {
            "1.0.0"
        } else {
            "0.0.4"
        };
        let kind = format!("text/plain; version={version}; charset=utf-8");
        reply(
            StatusCode::OK,
            &kind,
            FaceBody::whole(Bytes::copy_from_slice(page.as_bytes())),
        )
    }

    /// What the health path says. A vLLM that is reached at all says 200, even while a fault keeps it from loading; the others
    /// say that they are not ready.
    async fn health(&self) -> Reply {
        let engine = self.served.engine;
        let status = match (self.core.with(|state| state.life), engine) {
            (Life::Serving, _) | (Life::Loading, Engine::Vllm) => StatusCode::OK,
            (Life::Loading | Life::Draining, Engine::Triton | Engine::TritonTensorrtLlm) => StatusCode::BAD_REQUEST,
            (Life::Dead, Engine::Vllm) => StatusCode::OK,
            (Life::Dead, Engine::Sglang) => return std::future::pending().await,
            (Life::Loading | Life::Draining | Life::Dead, _) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut reply = Response::new(FaceBody::whole(Bytes::new()));
        *reply.status_mut() = status;
        reply
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("application/json");
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        Ok(())
    } else {
        Err(Problem::ContentType)
    }
}

fn reply(status: StatusCode, kind: &str, body: FaceBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    if let Ok(kind) = HeaderValue::from_str(kind) {
        reply.headers_mut().insert(CONTENT_TYPE, kind);
    }
    reply
}

pub(super) fn json(status: StatusCode, body: String) -> Reply {
    reply(status, "application/json", FaceBody::whole(Bytes::from(body)))
}

fn event_stream(stream: EventStream) -> Reply {
    reply(
        StatusCode::OK,
        "text/event-stream; charset=utf-8",
        FaceBody::Events(Box::new(stream)),
    )
}
