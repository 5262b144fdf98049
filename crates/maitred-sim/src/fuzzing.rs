//! Bodies of the fuzz targets. Plain functions, so that a fuzzer and a test run the same code.

use crate::lab::workload::{MAX_TRACE_TOKENS, TextLines, TraceCalls, TraceFormat, TracePlan};

/// Any bytes as a trace: no panic, rows keep their bounds, and calls come in order of time.
pub fn fuzz_trace(data: &[u8]) {
    for format in [TraceFormat::JsonLines, TraceFormat::AzureCsv] {
        for (number, line) in (1..).zip(data.split(|byte| *byte == b'\n')) {
            if let Ok(Some(row)) = format.row(line, number) {
                assert!((1..=MAX_TRACE_TOKENS).contains(&row.input) && row.output <= MAX_TRACE_TOKENS);
            }
        }
        // Blocks of many tokens, so that a long prompt stays cheap.
        let plan = TracePlan::new(format, 1 << 20, 1);
        let mut last = maitred_types::Time::ZERO;
        for call in TraceCalls::new(TextLines::new(data), plan).flatten() {
            assert!(call.arrived >= last, "a call came before the one before it");
            last = call.arrived;
        }
    }
}
