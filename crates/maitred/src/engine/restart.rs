//! Ending and beginning again at the same address: what a supervisor does for a server that was killed, or for one whose next
//! release is rolled out.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::args::{EngineArgs, LoadMode, parse_duration};

/// How an endpoint ends and what the next one at its address is like. Whatever is not said is as it was at the start; faults are
/// those of the start again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Restart {
    /// How long the next one loads its model, in the engine's time.
    #[serde(deserialize_with = "duration")]
    load_time: Option<Duration>,
    /// What can be seen of it meanwhile.
    load_mode: Option<LoadMode>,
    /// Whether this one first says 503 on the health path and finishes what runs, within some seconds. Otherwise it ends as if killed.
    pub(super) drain: bool,
    /// How long it says so at least, in real time.
    #[serde(deserialize_with = "duration")]
    pub(super) grace: Option<Duration>,
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let parsed = text.map(|text| parse_duration(&text)).transpose();
    parsed.map_err(serde::de::Error::custom)
}

impl Restart {
    /// Reads a JSON object; nothing at all is an empty one.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(super) fn from_json(body: &[u8]) -> anyhow::Result<Self> {
        let body = if body.is_empty() { b"{}" } else { body };
        // By way of a map, since a list would do for a struct otherwise.
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body)?;
        Ok(serde_json::from_value(object.into())?)
    }

    /// Makes of an endpoint's arguments those of the next one at its addresses. KV events at free ports get other ones.
    pub(super) fn change(self, args: &mut EngineArgs, (address, admin): (SocketAddr, Option<SocketAddr>)) {
        args.listen = address;
        args.admin = admin;
        args.load_time = self.load_time.unwrap_or(args.load_time);
        args.load_mode = self.load_mode.unwrap_or(args.load_mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read_and_nothing_else() {
        let json = br#"{"load_time":"3s","load_mode":"closed-port","drain":true,"grace":"300ms"}"#;
        let wanted = Restart {
            load_time: Some(Duration::from_secs(3)),
            load_mode: Some(LoadMode::ClosedPort),
            drain: true,
            grace: Some(Duration::from_millis(300)),
        };
        assert_eq!(Restart::from_json(json).unwrap(), wanted);
        assert_eq!(Restart::from_json(b"").unwrap(), Restart::default());
        for wrong in [
            r#"{"load_time":3}"#,
            r#"{"load_time":"soon"}"#,
            r#"{"kill":true}"#,
            "[]",
        ] {
            assert!(Restart::from_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
