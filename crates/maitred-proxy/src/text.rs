//! What a call asked and was answered, word for word, where its tenant wants that kept. Of everybody else nothing is.

use maitred_config::Settings;
use maitred_runtime::{Said, Text};

use crate::account::Account;

/// A call's text so far.
#[derive(Debug)]
pub(crate) struct Talk {
    request: Said,
    answer: Said,
}

impl Account {
    /// The body has been read. From here on its text is kept, if the tenant wants it.
    pub(crate) fn hear_request(&mut self, settings: &Settings, body: &[u8]) {
        let Some(principal) = &self.principal else { return };
        let wanted = settings.texts.get(&principal.tenant);
        let Some(wanted) = wanted.filter(|_| self.gate.runtime.texts().is_some()) else {
            return;
        };
        let most = wanted.max_call.as_usize();
        let mut talk = Box::new(Talk {
            request: Said::up_to(most),
            answer: Said::up_to(most),
        });
        talk.request.hear(body);
        self.talk = Some(talk);
    }

    /// These bytes of the answer go to the client.
    pub(crate) fn passed(&mut self, bytes: &[u8]) {
        self.response_bytes += bytes.len() as u64;
        if let Some(talk) = &mut self.talk {
            talk.answer.hear(bytes);
        }
    }

    /// The call is over: its text goes where texts are kept.
    pub(crate) fn leave_text(&mut self) {
        let (Some(talk), Some(texts), Some(principal)) = (self.talk.take(), self.gate.runtime.texts(), &self.principal)
        else {
            return;
        };
        texts.offer(Text {
            request_id: self.request_id.as_str().to_owned(),
            arrived: self.arrived_unix,
            tenant: principal.tenant.as_str().to_owned(),
            user: principal.user().map(str::to_owned),
            key: principal.key.as_ref().map(|key| key.as_str().to_owned()),
            path: self.path.to_string(),
            status: self.status_shown(),
            request: talk.request,
            answer: talk.answer,
        });
    }
}
