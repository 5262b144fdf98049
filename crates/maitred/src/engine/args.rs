//! The command line of `maitred engine`.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use maitred_engines::Engine;
use maitred_sim::{
    EngineOptions, EngineProfile, GaugeUpdates, LoraOptions, MAX_ADAPTERS, OutputLength, PrefixCaching, WarmUp,
};
use maitred_types::{ModelName, TokenCount};

use super::faults::FaultPatch;

/// Run a simulated endpoint: the HTTP face of a real engine on a model of its scheduler.
#[derive(Args, Clone, Debug)]
pub(crate) struct EngineArgs {
    /// Where to serve. Port 0 takes a free one; the line "listening on ADDRESS" says which.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Where to take faults and other commands while running; loopback only. Without it there is no such listener.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<SocketAddr>,
    /// The model's name.
    #[arg(long, value_name = "NAME", default_value = "sim-8b")]
    pub(crate) model: String,
    /// Other names it is served under; the first one given replaces the model's name in answers.
    #[arg(long, value_name = "NAME")]
    pub(crate) served_name: Vec<String>,
    /// Whose face to wear.
    #[arg(long, value_name = "ENGINE", default_value = "vllm", value_parser = parse_flavor)]
    pub(crate) flavor: Engine,
    /// GPU and model size: h100, h200, a100 or l40s, and 8b or 14b.
    #[arg(long, value_name = "GPU-MODEL", default_value = "h100-8b", value_parser = parse_profile)]
    pub(crate) profile: EngineProfile,
    /// How many times faster than real time the engine runs.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) time_scale: f64,
    /// Seed of texts, answer lengths and fault rates.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How long loading the model takes, in the engine's time (divided by the time scale).
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) load_time: Duration,
    /// What can be seen while it loads.
    #[arg(long, value_name = "MODE", default_value = "open-port")]
    pub(crate) load_mode: LoadMode,
    /// LoRA adapters, by name.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) lora_modules: Vec<String>,
    /// How many adapters are on the GPU at once.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) max_loras: NonZeroUsize,
    /// How long a step is held up by bringing an adapter onto the GPU.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    pub(crate) lora_load_time: Duration,
    /// Most sequences running at once; by default the profile's.
    #[arg(long, value_name = "N")]
    pub(crate) max_num_seqs: Option<NonZeroU32>,
    /// Most tokens computed in one step; by default the profile's.
    #[arg(long, value_name = "N")]
    pub(crate) max_num_batched_tokens: Option<NonZeroU32>,
    /// Blocks of the KV pool; by default what the profile's memory holds.
    #[arg(long, value_name = "N")]
    pub(crate) blocks: Option<u32>,
    /// Tokens per KV block.
    #[arg(long, value_name = "N", default_value = "16")]
    pub(crate) block_size: NonZeroU32,
    /// Most tokens of prompt and answer together.
    #[arg(long, value_name = "N", default_value_t = 32_768)]
    pub(crate) max_model_len: u32,
    /// Mean length of answers, in tokens.
    #[arg(long, value_name = "N", default_value_t = 200.0)]
    pub(crate) output_tokens: f64,
    /// Coefficient of variation of the length of answers.
    #[arg(long, value_name = "CV", default_value_t = 0.8)]
    pub(crate) output_variation: f64,
    /// Compute every prompt from its first token.
    #[arg(long)]
    pub(crate) no_prefix_caching: bool,
    /// Leave `cached_tokens` out of usage, as engines do unless told otherwise.
    #[arg(long)]
    pub(crate) no_cached_tokens: bool,
    /// Publish KV events at this port, and play them again at the next one; with port 0 at two free ones, which the lines
    /// "kv events on ADDRESS" and "kv events again on ADDRESS" name.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(..65_535))]
    pub(crate) kv_events: Option<u16>,
    /// Add a line to this file for every call that the model begins to work on, with its `x-request-id`, and one for its end.
    #[arg(long, value_name = "FILE")]
    pub(crate) call_log: Option<PathBuf>,
    /// Refuse calls under /v1/ without this key.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,
    /// Faults from the start, such as `reject=0.1,cut-after=3,metrics=frozen,slow=3`.
    #[arg(long, value_name = "FAULTS", default_value = "", value_parser = FaultPatch::parse)]
    pub(crate) fault: FaultPatch,
    /// On SIGTERM say 503 on the health path, finish what runs, then end; whatever the engine itself does.
    #[arg(long)]
    pub(crate) drain_on_sigterm: bool,
    /// How long a drain goes on at least, in real time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) drain_grace: Duration,
    /// Renew the metrics page only this often, in real time.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) metrics_interval: Duration,
    /// Show gauges as they are instead of as they were after the last step.
    #[arg(long)]
    pub(crate) live_gauges: bool,
    /// Make steps three times slower until this many requests have ended.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warm_up_requests: u64,
}

/// What can be seen of an engine that has not loaded its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoadMode {
    /// Connections are refused, as by vLLM.
    ClosedPort,
    /// It listens and answers, but cannot infer; as SGLang for a while, and anything behind a sidecar.
    OpenPort,
}

impl EngineArgs {
    /// The engine model's options.
    ///
    /// # Errors
    /// Says which figures make no sense.
    pub(super) fn options(&self) -> anyhow::Result<EngineOptions> {
        if !(self.time_scale.is_finite() && self.time_scale > 0.0) {
            bail!("--time-scale {} is not a positive number", self.time_scale);
        }
        if self.lora_modules.len() > MAX_ADAPTERS {
            bail!(
                "--lora-modules names {} adapters; at most {MAX_ADAPTERS} are possible",
                self.lora_modules.len()
            );
        }
        if let Some(admin) = self.admin.filter(|admin| !admin.ip().is_loopback()) {
            bail!("--admin {admin} is not a loopback address, and the admin path asks for no key");
        }
        let lora = (!self.lora_modules.is_empty()).then(|| LoraOptions {
            adapters: self
                .lora_modules
                .iter()
                .map(|name| ModelName::from(name.as_str()))
                .collect(),
            resident: self.max_loras.get(),
            load_time: self.lora_load_time,
        });
        let warm_up = (self.warm_up_requests > 0).then_some(WarmUp {
            requests: self.warm_up_requests,
            factor: 3.0,
        });
        Ok(EngineOptions {
            block_size: self.block_size,
            blocks: self.blocks,
            sequences: self.max_num_seqs,
            batched_tokens: self.max_num_batched_tokens,
            context: TokenCount::new(self.max_model_len),
            prefix_caching: if self.no_prefix_caching {
                PrefixCaching::Off
            } else {
                PrefixCaching::On
            },
            lora,
            gauges: if self.live_gauges {
                GaugeUpdates::Live
            } else {
                GaugeUpdates::PerStep
            },
            warm_up,
            ..EngineOptions::default()
        })
    }

    /// How long answers are.
    pub(super) fn output_length(&self) -> OutputLength {
        OutputLength {
            mean: self.output_tokens,
            variation: self.output_variation,
        }
    }
}

fn parse_flavor(text: &str) -> anyhow::Result<Engine> {
    let names = || {
        Engine::ALL
            .iter()
            .map(|engine| engine.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    Engine::parse(text).with_context(|| format!("no such engine; there are {}", names()))
}

fn parse_profile(text: &str) -> anyhow::Result<EngineProfile> {
    let names = || EngineProfile::ALL.map(|profile| profile.name).join(", ");
    EngineProfile::find(text).with_context(|| format!("no such profile; there are {}", names()))
}

/// A number with one of the units ms, s, m.
pub(super) fn parse_duration(text: &str) -> anyhow::Result<Duration> {
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number
        .parse()
        .with_context(|| format!("{text:?} does not begin with a number"))?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        _ => bail!("{text:?} has no unit; write it as 300ms, 20s or 2m"),
    };
    Duration::try_from_secs_f64(seconds).with_context(|| format!("{text:?} is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        let check = |text, millis| assert_eq!(parse_duration(text).ok(), millis, "{text}");
        check("300ms", Some(Duration::from_millis(300)));
        check("210s", Some(Duration::from_secs(210)));
        check("1.5m", Some(Duration::from_secs(90)));
        check("0s", Some(Duration::ZERO));
        for bad in ["", "5", "s", "-1s", "5 s", "5h", "1e30s"] {
            check(bad, None);
        }
    }
}
