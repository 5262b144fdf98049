//! What the status of a health probe means.

use crate::Engine;

/// What a health probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthVerdict {
    /// It can serve.
    Healthy,
    /// It cannot serve now. Before it was ever ready it is loading; afterwards it is leaving.
    Unavailable,
    /// The path is not there, so the probe says nothing.
    NotOffered,
    /// The probe itself went wrong.
    Broken,
}

/// Judges the status of `GET` [`Engine::health_path`].
#[must_use]
pub fn judge_health(engine: Engine, status: u16) -> HealthVerdict {
    match status {
        200..=299 => HealthVerdict::Healthy,
        _ if engine.facts().health.unavailable.contains(&status) => HealthVerdict::Unavailable,
        404 | 405 | 501 => HealthVerdict::NotOffered,
        _ => HealthVerdict::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_meaning() {
        let check = |engine, status, wanted| {
            assert_eq!(judge_health(engine, status), wanted, "{engine} {status}");
        };
        for &engine in Engine::ALL {
            check(engine, 200, HealthVerdict::Healthy);
            check(engine, 503, HealthVerdict::Unavailable);
            check(engine, 404, HealthVerdict::NotOffered);
            check(engine, 500, HealthVerdict::Broken);
            check(engine, 302, HealthVerdict::Broken);
            check(engine, 401, HealthVerdict::Broken);
        }
        check(Engine::Vllm, 400, HealthVerdict::Broken);
        check(Engine::Triton, 400, HealthVerdict::Unavailable);
        check(Engine::TritonTensorrtLlm, 400, HealthVerdict::Unavailable);
    }
}
