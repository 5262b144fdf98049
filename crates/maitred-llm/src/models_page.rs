//! The answers to `GET /v1/models` and `GET /v1/models/{id}`.

use bytes::Bytes;
use maitred_types::UnixMillis;
use serde::Serialize;

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

impl<'a> Entry<'a> {
    const fn new(id: &'a str, created: UnixMillis) -> Self {
        Self {
            id,
            object: "model",
            created: created.get() / 1000,
            owned_by: "maitred",
        }
    }
}

/// The list of models that a client may use, in OpenAI's form.
#[derive(Clone, Debug)]
pub struct ModelsPage<'a> {
    names: Vec<&'a str>,
    created: UnixMillis,
}

#[derive(Serialize)]
struct Page<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
}

impl<'a> ModelsPage<'a> {
    /// A page of `names`, in their order. `created` is when the gateway came to know them; clients get it in seconds.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = &'a str>, created: UnixMillis) -> Self {
        Self {
            names: names.into_iter().collect(),
            created,
        }
    }

    /// The page as the body of an answer.
    #[must_use]
    pub fn to_body(&self) -> Bytes {
        let entry = |&name| Entry::new(name, self.created);
        body(&Page {
            object: "list",
            data: self.names.iter().map(entry).collect(),
        })
    }
}

/// One model, in OpenAI's form, as the body of an answer.
#[must_use]
pub fn model_entry(name: &str, created: UnixMillis) -> Bytes {
    body(&Entry::new(name, created))
}

fn body(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_openais_form() {
        let page = ModelsPage::new(["tiny", "acme/\"8b\""], UnixMillis::new(1_796_069_914_999));
        assert_eq!(
            page.to_body(),
            concat!(
                r#"{"object":"list","data":["#,
                r#"{"id":"tiny","object":"model","created":1796069914,"owned_by":"maitred"},"#,
                r#"{"id":"acme/\"8b\"","object":"model","created":1796069914,"owned_by":"maitred"}]}"#
            )
        );
        let nobody = ModelsPage::new([], UnixMillis::default());
        assert_eq!(nobody.to_body(), r#"{"object":"list","data":[]}"#);
    }

    #[test]
    fn one_model_is_an_entry_of_the_page() {
        assert_eq!(
            model_entry("tiny", UnixMillis::new(2_000)),
            r#"{"id":"tiny","object":"model","created":2,"owned_by":"maitred"}"#
        );
    }
}
