//! A few clients that call all the time, so that whatever goes wrong goes wrong under traffic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use maitred_runtime::Tasks;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::calls::{Answered, Ask, Caller};

/// How many clients call at one time.
const CLIENTS: usize = 6;
/// Tokens of an answer.
const TOKENS: u32 = 12;
/// Most calls of one client: where calls fail at once, there would be no end to them.
const CALLS_MAX: usize = 2_000;

/// Clients that each make one call after the other, streamed and not in turn.
pub(super) struct Load {
    answers: Arc<Mutex<Vec<Answered>>>,
    is_over: Arc<AtomicBool>,
    tasks: Tasks,
}

impl Load {
    /// They begin.
    pub(super) fn begin(caller: &Caller) -> Self {
        let load = Self {
            answers: Arc::default(),
            is_over: Arc::default(),
            tasks: Tasks::new(),
        };
        for _ in 0..CLIENTS {
            let (caller, answers, is_over) = (caller.clone(), Arc::clone(&load.answers), Arc::clone(&load.is_over));
            load.tasks.spawn(call_on(caller, answers, is_over));
        }
        load
    }

    /// How many calls have ended.
    pub(super) fn ended(&self) -> usize {
        self.answers.lock().len()
    }

    /// They end, each after the call that it has begun; what came of all.
    pub(super) async fn end(self) -> Vec<Answered> {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.wait().await;
        std::mem::take(&mut self.answers.lock())
    }
}

/// One client.
async fn call_on(caller: Caller, answers: Arc<Mutex<Vec<Answered>>>, is_over: Arc<AtomicBool>) {
    for number in 0..CALLS_MAX {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let stream = number % 2 == 0;
        let answered = caller.ask(Ask { stream, tokens: TOKENS }).await;
        answers.lock().push(answered);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// How calls ended, as figures: how many there were, and how many of each ending that is not a good one.
pub(super) fn figures(answers: &[Answered]) -> Value {
    let mut bad: BTreeMap<String, usize> = BTreeMap::new();
    for answered in answers.iter().filter(|answered| !answered.is_complete()) {
        *bad.entry(answered.words()).or_default() += 1;
    }
    let complete = answers.iter().filter(|answered| answered.is_complete()).count();
    let mut figures = json!({ "calls": answers.len(), "complete": complete });
    if !bad.is_empty() {
        figures["others"] = json!(bad);
    }
    figures
}
