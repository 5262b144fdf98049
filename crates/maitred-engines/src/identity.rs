//! What an endpoint says it runs: weights, version, quantisation.
//!
//! Each engine tells it on pages of its own, and each tells less than one would like; what is not told is not guessed.

use serde_json::Value;

use crate::Engine;

/// Longest value that is taken from a page, in bytes. A longer one is no name of anything.
const VALUE_MAX: usize = 512;

/// What an endpoint tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The weights: their path or their name at a hub, with `@` and the revision where that is told too.
    pub weights: Option<String>,
    /// The engine's version.
    pub version: Option<String>,
    /// How the weights are quantised; `none` if the endpoint says that they are not.
    pub quantization: Option<String>,
}

impl Engine {
    /// The pages on which it tells what it runs. None of an engine that tells nothing.
    #[must_use]
    pub const fn identity_pages(self) -> &'static [&'static str] {
        match self {
            Self::Vllm => &["/v1/models", "/version"],
            Self::Sglang => &["/server_info"],
            Self::TrtllmServe | Self::TritonTensorrtLlm | Self::Triton | Self::Hosted => &[],
        }
    }

    /// Whether it tells how its weights are quantised.
    #[must_use]
    pub const fn tells_quantization(self) -> bool {
        matches!(self, Self::Sglang)
    }
}

impl Identity {
    /// Takes in the body of one of the engine's pages; what it does not tell stays as it was. `model` is the one that is asked for.
    pub fn read(&mut self, engine: Engine, page: &str, body: &[u8], model: &str) {
        let Ok(page_value) = serde_json::from_slice::<Value>(body) else {
            return;
        };
        match (engine, page) {
            (Engine::Vllm, "/v1/models") => {
                let models = page_value.get("data").and_then(Value::as_array);
                let mut models = models.into_iter().flatten();
                let found = models.find(|entry| text(entry, "id").as_deref() == Some(model));
                self.weights = found.and_then(|entry| text(entry, "root"));
            }
            (Engine::Vllm, _) => self.version = text(&page_value, "version"),
            (Engine::Sglang, _) => self.read_server(&page_value),
            (Engine::TrtllmServe | Engine::TritonTensorrtLlm | Engine::Triton | Engine::Hosted, _) => {}
        }
    }

    /// SGLang's settings. Weights that were exchanged while it ran have a version of their own, which is then their revision.
    fn read_server(&mut self, page: &Value) {
        let exchanged = text(page, "weight_version").filter(|version| version != "default");
        let revision = exchanged.or_else(|| text(page, "revision"));
        self.weights = text(page, "model_path").map(|path| match revision {
            Some(revision) => format!("{path}@{revision}"),
            None => path,
        });
        self.version = text(page, "version");
        self.quantization = match page.get("quantization") {
            Some(Value::Null) => Some("none".to_owned()),
            _ => text(page, "quantization"),
        };
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    let text = value.get(key).and_then(Value::as_str)?.trim();
    (!text.is_empty() && text.len() <= VALUE_MAX).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(engine: Engine, pages: &[(&str, &str)]) -> [Option<String>; 3] {
        let mut identity = Identity::default();
        for (page, body) in pages {
            identity.read(engine, page, body.as_bytes(), "tiny");
        }
        [identity.weights, identity.version, identity.quantization]
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn vllm_tells_weights_and_version() {
        let models = r#"{"object":"list","data":[{"id":"lora-a","root":"model/tiny-lora-a","parent":"tiny"},
            {"id":"tiny","object":"model","owned_by":"vllm","root":"model/tiny","parent":null,"max_model_len":2048}]}"#;
        let pages = [("/v1/models", models), ("/version", r#"{"version":"0.32.0"}"#)];
        assert_eq!(told(Engine::Vllm, &pages), [some("model/tiny"), some("0.32.0"), None]);
        assert_eq!(
            told(
                Engine::Vllm,
                &[("/v1/models", r#"{"data":[{"id":"other","root":"x"}]}"#)]
            ),
            [None, None, None]
        );
    }

    #[test]
    fn sglang_tells_everything_on_one_page() {
        let page = |revision: &str, weights: &str, quantization: &str| {
            format!(
                r#"{{"model_path":"model/tiny","revision":{revision},"weight_version":{weights},"quantization":{quantization},"version":"0.5.23"}}"#
            )
        };
        let check = |page: &str, weights: &str, quantization: &str| {
            let found = told(Engine::Sglang, &[("/server_info", page)]);
            assert_eq!(found, [some(weights), some("0.5.23"), some(quantization)]);
        };
        check(&page("null", "\"default\"", "null"), "model/tiny", "none");
        check(&page("\"abc\"", "\"default\"", "\"fp8\""), "model/tiny@abc", "fp8");
        check(&page("\"abc\"", "\"step-7\"", "\"fp8\""), "model/tiny@step-7", "fp8");
    }

    #[test]
    fn what_is_no_answer_tells_nothing() {
        let long = format!(r#"{{"version":"{}"}}"#, "1".repeat(VALUE_MAX + 1));
        for body in [
            "",
            "404",
            "{}",
            "[]",
            r#"{"version":7,"data":{}}"#,
            r#"{"version":" "}"#,
            &long,
        ] {
            for &engine in Engine::ALL {
                for page in engine.identity_pages() {
                    assert_eq!(
                        told(engine, &[(page, body)]),
                        [None, None, None],
                        "{engine} {page} {body}"
                    );
                }
            }
        }
    }
}
