//! The least of vLLM's faces that makes a gateway believe in an endpoint: models, metrics, health, one-token answers.

/// The page of `/v1/models` with one model.
#[must_use]
pub fn models(model: &str) -> String {
    format!(
        r#"{{"object":"list","data":[{{"id":"{model}","object":"model","created":1796069914,"owned_by":"vllm","root":"{model}","parent":null,"max_model_len":32768}}]}}"#
    )
}

/// Numbers for a page of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Calls in the engine's batch.
    pub running: u32,
    /// Calls in the engine's queue.
    pub waiting: u32,
    /// Share of KV blocks in use, 0 to 1.
    pub kv_used: f64,
}

/// The page of `/metrics` with the families that matter for scheduling, as vLLM 0.32 names them.
#[must_use]
pub fn metrics(model: &str, load: Load) -> String {
    let Load {
        running,
        waiting,
        kv_used,
    } = load;
    format!(
        "# TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{engine=\"0\",model_name=\"{model}\"}} {running}\n\
         # TYPE vllm:num_requests_waiting gauge\n\
         vllm:num_requests_waiting{{engine=\"0\",model_name=\"{model}\"}} {waiting}\n\
         # TYPE vllm:kv_cache_usage_perc gauge\n\
         vllm:kv_cache_usage_perc{{engine=\"0\",model_name=\"{model}\"}} {kv_used}\n\
         # TYPE vllm:cache_config_info gauge\n\
         vllm:cache_config_info{{block_size=\"16\",cache_dtype=\"auto\",engine=\"0\",num_gpu_blocks=\"8192\"}} 1.0\n"
    )
}

/// A whole chat answer, about `text`.
#[must_use]
pub fn chat(model: &str, text: &str) -> String {
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":1796069919,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}}],"service_tier":null,"system_fingerprint":"vllm-0.32.0","usage":{{"prompt_tokens":12,"total_tokens":14,"completion_tokens":2,"prompt_tokens_details":null}},"prompt_logprobs":null,"kv_transfer_params":null}}"#
    )
}

/// A whole completion of one token, as a readiness probe asks for.
#[must_use]
pub fn completion(model: &str) -> String {
    format!(
        r#"{{"id":"cmpl-1","object":"text_completion","created":1796069919,"model":"{model}","choices":[{{"index":0,"text":" a","logprobs":null,"finish_reason":"length","stop_reason":null}}],"usage":{{"prompt_tokens":1,"total_tokens":2,"completion_tokens":1,"prompt_tokens_details":null}}}}"#
    )
}

/// One event of a streamed chat answer, with its blank line.
#[must_use]
pub fn chat_event(model: &str, text: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1796069958,\"model\":\"{model}\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":null,\
         \"token_ids\":null}}]}}\n\n"
    )
}

/// The last events of a streamed chat answer: the reason for the end, the usage if it was asked for, and the mark.
#[must_use]
pub fn chat_end(model: &str, usage: Option<(u32, u32)>) -> String {
    let head = format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1796069958,\"model\":\"{model}\",\"choices\":["
    );
    let finish = r#"{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}"#;
    let usage = usage.map_or_else(String::new, |(input, output)| {
        let total = u64::from(input) + u64::from(output);
        format!(
            "{head}],\"usage\":{{\"prompt_tokens\":{input},\"total_tokens\":{total},\"completion_tokens\":{output}}}}}\n\n"
        )
    });
    format!("{head}{finish}]}}\n\n{usage}data: [DONE]\n\n")
}
