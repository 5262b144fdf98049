//! Rolls out thousands of releases in virtual time and prints how they ended:
//! `cargo run --release -p maitred-route --example rollouts -- [ROLLOUTS] [SAMPLE] [FIRST SEED] [CASE]`.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::unwrap_used, reason = "terms that are written here are good")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a model of a service, not a count of anything"
)]

mod world;

use maitred_route::rollout::Stage;
use world::{Case, Ending, World};

const CASES: [Case; 9] = [
    Case::Equal,
    Case::Slower,
    Case::SlowTail,
    Case::SlowTokens,
    Case::Truncates,
    Case::BreaksTools,
    Case::Fails,
    Case::Costs,
    Case::Annoys,
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: u64| {
        let given = arguments.next().and_then(|argument| argument.parse().ok());
        given.unwrap_or(otherwise)
    };
    let (rollouts, sample, first) = (number(1_000), number(20_000), number(0));
    let only = arguments.next();
    println!(
        "| Candidate | Rolled back | Promoted | Neither | Calls until rolled back: median | 95 % | 99 % | Found by |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in CASES {
        let word = format!("{case:?}");
        if only.as_ref().is_none_or(|only| *only == word) {
            let endings: Vec<_> = (first..first + rollouts)
                .map(|seed| World::new(case, seed).run(sample))
                .collect();
            print(&word, &endings);
        }
    }
}

/// One line of the table.
fn print(case: &str, endings: &[Ending]) {
    let back: Vec<_> = endings
        .iter()
        .filter(|ending| ending.stage == Stage::RollingBack)
        .collect();
    let promoted = endings.iter().filter(|ending| ending.stage == Stage::Promoting).count();
    let mut calls: Vec<_> = back.iter().map(|ending| ending.compared).collect();
    calls.sort_unstable();
    let at = |part: f64| {
        let place = (calls.len().saturating_sub(1) as f64 * part).round() as usize;
        calls.get(place).map_or_else(|| "–".to_owned(), ToString::to_string)
    };
    let mut guards: Vec<_> = back.iter().map(|ending| ending.guard.label()).collect();
    guards.sort_unstable();
    guards.dedup();
    println!(
        "| {case} | {} | {promoted} | {} | {} | {} | {} | {} |",
        back.len(),
        endings.len() - back.len() - promoted,
        at(0.5),
        at(0.95),
        at(0.99),
        guards.join(", ")
    );
}
