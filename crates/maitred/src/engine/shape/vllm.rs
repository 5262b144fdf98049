//! vLLM's OpenAI answers.

use super::{Ending, OrNull, Piece, Quoted, Shape, Totals};
use crate::engine::ask::Api;

/// Usage in the middle of a stream.
fn running(totals: Option<Totals>) -> String {
    totals.map_or_else(String::new, |totals| {
        let Totals { prompt, output, .. } = totals;
        let total = totals.total();
        format!(
            r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{output},"completion_tokens_details":null}}"#
        )
    })
}

pub(super) fn role(shape: &Shape, out: &mut String, index: usize, so_far: Option<Totals>) {
    let (head, usage) = (&shape.event_head, running(so_far));
    out.push_str(&format!(
        "{head}{{\"index\":{index},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\
         \"finish_reason\":null}}]{usage},\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n"
    ));
}

pub(super) fn piece(shape: &Shape, out: &mut String, piece: &Piece<'_>) {
    let Piece { index, .. } = *piece;
    let (head, usage) = (&shape.event_head, running(piece.so_far));
    let text = Quoted(piece.text);
    let ending = piece.end.map(|reason| Ending {
        reason,
        choice: piece.choice,
    });
    let reason = OrNull(ending.map(|ending| format!("\"{}\"", ending.openai())));
    let fingerprint = match ending {
        Some(_) if !shape.include_usage => format!(r#","system_fingerprint":"{}""#, shape.fingerprint),
        _ => String::new(),
    };
    let stop = ending.as_ref().map_or(OrNull(None), Ending::stop);
    if shape.api != Api::Chat {
        out.push_str(&format!(
            "{head}{{\"index\":{index},\"text\":{text},\"logprobs\":null,\"finish_reason\":{reason},\"stop_reason\":{stop},\
             \"prompt_token_ids\":null,\"token_ids\":null}}]{usage}{fingerprint}}}\n\n"
        ));
        return;
    }
    let stop = if ending.is_some() {
        format!(r#","stop_reason":{stop}"#)
    } else {
        String::new()
    };
    let delta = match &piece.choice.tool {
        None => format!(r#""content":{text}"#),
        Some(tool) => {
            if piece.is_first {
                let (id, name) = (&tool.0, Quoted(&tool.1));
                out.push_str(&format!(
                    "{head}{{\"index\":{index},\"delta\":{{\"content\":null,\"tool_calls\":[{{\"id\":\"{id}\",\"type\":\
                     \"function\",\"index\":0,\"function\":{{\"name\":{name}}}}}]}},\"logprobs\":null,\"finish_reason\":null,\
                     \"token_ids\":null}}]{usage}}}\n\n"
                ));
            }
            format!(r#""content":null,"tool_calls":[{{"index":0,"function":{{"arguments":{text}}}}}]"#)
        }
    };
    out.push_str(&format!(
        "{head}{{\"index\":{index},\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{reason}{stop},\
         \"token_ids\":null}}]{usage}{fingerprint}}}\n\n"
    ));
}

pub(super) fn usage(shape: &Shape, out: &mut String, totals: Totals) {
    let Totals { prompt, output, cached } = totals;
    let (head, total) = (&shape.event_head, totals.total());
    let details = match cached {
        Some(_) => format!(r#","prompt_tokens_details":{}"#, totals.details()),
        None => String::new(),
    };
    out.push_str(&format!(
        "{head}],\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{output}{details}}},\
         \"system_fingerprint\":\"{}\"}}\n\n",
        shape.fingerprint
    ));
}

pub(super) fn whole(shape: &Shape, texts: &[(String, Ending<'_>)], totals: Totals) -> String {
    let choices: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(index, (text, ending))| {
            if shape.api == Api::Chat {
                message(index, text, ending)
            } else {
                completion(index, text, ending)
            }
        })
        .collect();
    let Shape {
        id,
        created,
        fingerprint,
        ..
    } = shape;
    let (model, choices) = (Quoted(&shape.model), choices.join(","));
    let Totals { prompt, output, .. } = totals;
    let (total, details) = (totals.total(), totals.details());
    let (object, extra) = if shape.api == Api::Chat {
        (
            "chat.completion",
            r#""prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"#,
        )
    } else {
        ("text_completion", "")
    };
    format!(
        "{{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":[{choices}],\
         \"service_tier\":null,\"system_fingerprint\":\"{fingerprint}\",\"usage\":{{\"prompt_tokens\":{prompt},\
         \"total_tokens\":{total},\"completion_tokens\":{output},\"prompt_tokens_details\":{details},\
         \"completion_tokens_details\":null}},{extra}\"kv_transfer_params\":null,\"ec_transfer_params\":null,\"metrics\":null}}"
    )
}

fn message(index: usize, text: &str, ending: &Ending<'_>) -> String {
    let (content, calls) = match &ending.choice.tool {
        None => (OrNull(Some(Quoted(text))), String::new()),
        Some((id, name)) => {
            let (name, arguments) = (Quoted(name), Quoted(text));
            let calls = format!(
                r#""tool_calls":[{{"id":"{id}","type":"function","function":{{"name":{name},"arguments":{arguments}}}}}],"#
            );
            (OrNull(None), calls)
        }
    };
    let (reason, stop) = (ending.openai(), ending.stop());
    format!(
        "{{\"index\":{index},\"message\":{{\"role\":\"assistant\",\"content\":{content},\"refusal\":null,\"annotations\":null,\
         \"audio\":null,\"function_call\":null,{calls}\"reasoning\":null}},\"logprobs\":null,\"finish_reason\":\"{reason}\",\
         \"stop_reason\":{stop},\"token_ids\":null,\"routed_experts\":null}}"
    )
}

fn completion(index: usize, text: &str, ending: &Ending<'_>) -> String {
    let (text, reason, stop) = (Quoted(text), ending.openai(), ending.stop());
    format!(
        "{{\"index\":{index},\"text\":{text},\"logprobs\":null,\"finish_reason\":\"{reason}\",\"stop_reason\":{stop},\
         \"token_ids\":null,\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"routed_experts\":null}}"
    )
}
