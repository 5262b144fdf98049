//! SGLang's OpenAI answers.

use std::borrow::Cow;

use maitred_sim::FinishReason;

use super::{Ending, OrNull, Piece, Quoted, Shape, Totals};
use crate::engine::ask::Api;

/// Each choice of a streamed chat has an id of its own.
fn head(shape: &Shape, index: usize) -> Cow<'_, str> {
    match shape.id.get(2..) {
        Some(rest) if shape.api == Api::Chat && index > 0 => {
            Cow::Owned(shape.event_head.replacen(&shape.id, &format!("{index:02x}{rest}"), 1))
        }
        _ => Cow::Borrowed(&shape.event_head),
    }
}

fn usage_object(totals: Totals) -> String {
    let Totals { prompt, output, .. } = totals;
    let (total, details) = (totals.total(), totals.details());
    format!(
        "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{output},\"prompt_tokens_details\":\
         {details},\"reasoning_tokens\":0,\"completion_tokens_details\":null}}"
    )
}

pub(super) fn role(shape: &Shape, out: &mut String, index: usize) {
    let head = head(shape, index);
    out.push_str(&format!(
        "{head}{{\"index\":{index},\"delta\":{{\"reasoning_content\":null,\"role\":\"assistant\",\"content\":\"\"}},\
         \"logprobs\":null,\"finish_reason\":null,\"matched_stop\":null}}]}}\n\n"
    ));
}

pub(super) fn piece(shape: &Shape, out: &mut String, piece: &Piece<'_>) {
    let (index, text, head) = (piece.index, Quoted(piece.text), head(shape, piece.index));
    let ending = piece.end.map(|reason| Ending {
        reason,
        choice: piece.choice,
    });
    if shape.api != Api::Chat {
        let reason = OrNull(ending.map(|ending| format!("\"{}\"", ending.openai())));
        let stop = ending.as_ref().map_or_else(|| "null".to_owned(), matched_stop);
        out.push_str(&format!(
            "{head}{{\"index\":{index},\"text\":{text},\"logprobs\":null,\"finish_reason\":{reason},\"matched_stop\":{stop}}}],\
             \"usage\":null}}\n\n"
        ));
        return;
    }
    let usage = piece
        .so_far
        .map_or_else(String::new, |totals| format!(r#","usage":{}"#, usage_object(totals)));
    let delta = match &piece.choice.tool {
        None => format!(r#""content":{text}"#),
        Some((id, name)) => {
            let named = if piece.is_first {
                (OrNull(Some(Quoted(id))), OrNull(Some(Quoted(name))))
            } else {
                (OrNull(None), OrNull(None))
            };
            let (id, name) = named;
            format!(
                "\"content\":null,\"tool_calls\":[{{\"id\":{id},\"index\":0,\"type\":\"function\",\"function\":{{\"name\":\
                 {name},\"arguments\":{text}}}}}]"
            )
        }
    };
    if !piece.text.is_empty() {
        out.push_str(&format!(
            "{head}{{\"index\":{index},\"delta\":{{\"reasoning_content\":null,{delta}}},\"logprobs\":null,\
             \"finish_reason\":null,\"matched_stop\":null}}]{usage}}}\n\n"
        ));
    }
    if let Some(ending) = ending {
        let (reason, stop) = (ending.openai(), matched_stop(&ending));
        out.push_str(&format!(
            "{head}{{\"index\":{index},\"delta\":{{\"reasoning_content\":null}},\"logprobs\":null,\"finish_reason\":\
             \"{reason}\",\"matched_stop\":{stop}}}]}}\n\n"
        ));
    }
}

/// The stop string, or the token that ends every answer of the model.
fn matched_stop(ending: &Ending<'_>) -> String {
    const END_OF_SEQUENCE: &str = "2";
    match (ending.reason, &ending.choice.stop) {
        (FinishReason::Stop, Some(stop)) => Quoted(stop).to_string(),
        (FinishReason::Stop, None) => END_OF_SEQUENCE.to_owned(),
        _ => "null".to_owned(),
    }
}

pub(super) fn usage(shape: &Shape, out: &mut String, totals: Totals) {
    let head = head(shape, 0);
    let usage = if shape.api == Api::Chat {
        usage_object(totals)
    } else {
        let Totals { prompt, output, .. } = totals;
        let total = totals.total();
        let details = match totals.cached {
            Some(_) => format!(r#""prompt_tokens_details":{},"#, totals.details()),
            None => String::new(),
        };
        format!(
            "{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{output},{details}\
             \"reasoning_tokens\":0}}"
        )
    };
    out.push_str(&format!("{head}],\"usage\":{usage}}}\n\n"));
}

pub(super) fn whole(shape: &Shape, texts: &[(String, Ending<'_>)], totals: Totals) -> String {
    let choices: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(index, (text, ending))| {
            let (reason, stop, content) = (ending.openai(), matched_stop(ending), content(shape, text, ending));
            format!(
                "{{\"index\":{index},{content},\"logprobs\":null,\"finish_reason\":\"{reason}\",\"matched_stop\":{stop}}}"
            )
        })
        .collect();
    let Shape { id, created, .. } = shape;
    let (model, choices, usage) = (Quoted(&shape.model), choices.join(","), usage_object(totals));
    let object = if shape.api == Api::Chat {
        "chat.completion"
    } else {
        "text_completion"
    };
    let end = totals.output / u32::try_from(texts.len()).unwrap_or(1).max(1);
    format!(
        "{{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{model},\"choices\":[{choices}],\"usage\":\
         {usage},\"metadata\":{{\"weight_version\":\"default\",\"weight_versions\":[{{\"version\":\"default\",\"start\":0,\
         \"end\":{end}}}]}}}}"
    )
}

fn content(shape: &Shape, text: &str, ending: &Ending<'_>) -> String {
    let text = Quoted(text);
    match &ending.choice.tool {
        _ if shape.api != Api::Chat => format!(r#""text":{text}"#),
        None => format!(r#""message":{{"role":"assistant","content":{text},"reasoning_content":null}}"#),
        Some((id, name)) => {
            let name = Quoted(name);
            format!(
                "\"message\":{{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":null,\"tool_calls\":[{{\"id\":\
                 \"{id}\",\"index\":0,\"type\":\"function\",\"function\":{{\"name\":{name},\"arguments\":{text}}}}}]}}"
            )
        }
    }
}
