//! Answers to Anthropic's messages, as vLLM and SGLang give them.

use maitred_engines::Engine;

use super::{Ending, OrNull, Piece, Quoted, Shape, Totals};

fn is_sglang(shape: &Shape) -> bool {
    shape.engine == Engine::Sglang
}

pub(super) fn opening(shape: &Shape, out: &mut String, prompt: u32) {
    let (id, model) = (&shape.id, Quoted(&shape.model));
    let stop = if is_sglang(shape) {
        ""
    } else {
        r#""stop_reason":null,"stop_sequence":null,"#
    };
    out.push_str(&format!(
        "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"{id}\",\"type\":\"message\",\
         \"role\":\"assistant\",\"content\":[],\"model\":{model},{stop}\"usage\":{{\"input_tokens\":{prompt},\
         \"output_tokens\":0}}}}}}\n\n"
    ));
    let block = r#""content_block":{"type":"text","text":""}"#;
    let fields = if is_sglang(shape) {
        format!(r#""index":0,{block}"#)
    } else {
        format!(r#"{block},"index":0"#)
    };
    out.push_str(&format!(
        "event: content_block_start\ndata: {{\"type\":\"content_block_start\",{fields}}}\n\n"
    ));
}

pub(super) fn delta(shape: &Shape, out: &mut String, piece: &Piece<'_>) {
    let delta = format!(r#""delta":{{"type":"text_delta","text":{}}}"#, Quoted(piece.text));
    let fields = if is_sglang(shape) {
        format!(r#""index":0,{delta}"#)
    } else {
        format!(r#"{delta},"index":0"#)
    };
    out.push_str(&format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",{fields}}}\n\n"
    ));
}

pub(super) fn closing(shape: &Shape, out: &mut String, totals: Totals, ending: &Ending<'_>) {
    let (reason, stop) = (ending.anthropic(), ending.stop());
    let Totals { prompt, output, .. } = totals;
    out.push_str("event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n");
    let fields = if is_sglang(shape) {
        format!(r#""delta":{{"stop_reason":{reason}}},"usage":{{"output_tokens":{output}}}"#)
    } else {
        format!(
            "\"delta\":{{\"stop_reason\":{reason},\"stop_sequence\":{stop}}},\"usage\":{{\"input_tokens\":{prompt},\
             \"output_tokens\":{output}}}"
        )
    };
    out.push_str(&format!(
        "event: message_delta\ndata: {{\"type\":\"message_delta\",{fields}}}\n\n"
    ));
    out.push_str("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

pub(super) fn whole(shape: &Shape, texts: &[(String, Ending<'_>)], totals: Totals) -> String {
    let (id, model) = (&shape.id, Quoted(&shape.model));
    let Totals { prompt, output, .. } = totals;
    let text = Quoted(texts.first().map_or("", |(text, _)| text));
    let reason = texts.first().map_or(OrNull(None), |(_, ending)| ending.anthropic());
    format!(
        "{{\"id\":\"{id}\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":{text}}}],\
         \"model\":{model},\"stop_reason\":{reason},\"usage\":{{\"input_tokens\":{prompt},\"output_tokens\":{output}}}}}"
    )
}
