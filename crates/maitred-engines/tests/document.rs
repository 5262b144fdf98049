//! `docs/engines.md` says what the tables say.

use maitred_engines::Engine;

const PAGE: &str = include_str!("../../../docs/engines.md");

#[test]
fn every_engine_figure_and_path_is_on_the_page() {
    let check = |engine: Engine, what: &str| {
        assert!(
            PAGE.contains(&format!("`{what}`")),
            "{engine}: `{what}` is not in docs/engines.md"
        );
    };
    for &engine in Engine::ALL {
        check(engine, engine.name());
        check(engine, engine.health_path());
        check(engine, engine.metrics_path());
        let mapping = engine.mapping();
        for (_, alternatives) in mapping.figures() {
            for figure in alternatives {
                check(engine, &figure.to_string());
            }
        }
        if let Some(lora) = mapping.lora {
            check(engine, &lora.family);
        }
        for step in engine.readiness() {
            check(engine, step.label());
        }
    }
}
