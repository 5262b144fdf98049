//! What is sent.

/// The model that every system serves.
pub(crate) const MODEL: &str = "bench";

/// One kind of call at one number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// How the report calls it.
    pub(crate) name: &'static str,
    /// About how large the request's body is.
    pub(crate) body_bytes: usize,
    /// Connections in closed loop.
    pub(crate) connections: usize,
}

/// Every case of calls; streams are measured apart.
pub(crate) const CASES: &[Case] = &[
    case("1 KB chat", 1 << 10, 1),
    case("1 KB chat", 1 << 10, 16),
    case("32 KB prompt", 32 << 10, 1),
    case("32 KB prompt", 32 << 10, 16),
    case("256 KB prompt", 256 << 10, 1),
    case("256 KB prompt", 256 << 10, 16),
];

const fn case(name: &'static str, body_bytes: usize, connections: usize) -> Case {
    Case {
        name,
        body_bytes,
        connections,
    }
}

/// The body of a chat call of about `bytes` bytes: prose with a line break now and then, and the small fields after it, where a
/// reader that wants them has to pass the whole prompt.
pub(crate) fn chat_body(bytes: usize, stream: bool) -> String {
    const PROSE: &str = "The quick brown fox asks what the weather will be, and \\\"nobody\\\" in the room can say.\\n";
    let head = format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":""#);
    let tail = format!(r#""}}],"max_tokens":64,"temperature":0.7,"stream":{stream}}}"#);
    let mut body = head;
    while body.len() + PROSE.len() + tail.len() <= bytes {
        body.push_str(PROSE);
    }
    body + &tail
}

/// A whole request with its head.
pub(crate) fn request(body: &str, key: Option<&str>) -> Vec<u8> {
    let key = key.map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench.test\r\nuser-agent: maitred-bench\r\naccept: application/json\r\n\
         content-type: application/json\r\n{key}content-length: {}\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body.as_bytes());
    bytes
}
