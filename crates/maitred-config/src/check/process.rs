//! Checks of `timeouts`, `limits`, `decisions`, `log` and `recording`.

use std::num::NonZeroU32;
use std::time::Duration;

use maitred_types::ByteSize;

use super::Checker;
use crate::forms::{Size, TimeSpan};
use crate::path::Path;
use crate::raw;
use crate::settings::{ArchiveSettings, DecisionSettings, Limits, LogSettings, RecordingSettings, Timeouts};

impl Checker<'_> {
    pub(super) fn timeouts(&mut self, raw: &raw::Timeouts) -> Timeouts {
        let top = Path::top("timeouts");
        let positive = [
            ("connect", raw.connect),
            ("first_token", raw.first_token),
            ("idle", raw.idle),
            ("total", raw.total),
            ("header_read", raw.header_read),
        ];
        for (name, span) in positive {
            self.positive(span, &top.key(name));
        }
        for (name, span) in [("first_token", raw.first_token), ("idle", raw.idle)] {
            if span > raw.total {
                self.error(
                    &top.key(name),
                    format!(
                        "`{name}` ({span}) is longer than `total` ({}), so it can never run out",
                        raw.total
                    ),
                    format!("shorten `{name}` or lengthen `total`"),
                );
            }
        }
        if raw.connect > raw.first_token {
            self.error(
                &top.key("connect"),
                format!(
                    "`connect` ({}) is longer than `first_token` ({})",
                    raw.connect, raw.first_token
                ),
                "shorten `connect` or lengthen `first_token`",
            );
        }
        Timeouts {
            connect: raw.connect.get(),
            first_token: raw.first_token.get(),
            idle: raw.idle.get(),
            total: raw.total.get(),
            header_read: raw.header_read.get(),
            drain: raw.drain.get(),
        }
    }

    pub(super) fn limits(&mut self, raw: &raw::Limits) -> Limits {
        let top = Path::top("limits");
        self.at_least(raw.body, 1 << 10, &top.key("body"));
        self.at_least(raw.event, 1 << 10, &top.key("event"));
        self.at_least(raw.headers.size, 1 << 10, &top.key("headers").key("size"));
        Limits {
            body: raw.body.get(),
            header_size: raw.headers.size.get(),
            header_count: NonZeroU32::new(raw.headers.count).unwrap_or(NonZeroU32::MIN),
            event: raw.event.get(),
            output: raw.output,
            connections: NonZeroU32::new(raw.connections).unwrap_or(NonZeroU32::MIN),
        }
    }

    pub(super) fn decisions(&mut self, raw: &raw::Decisions) -> DecisionSettings {
        self.at_least(raw.size, 64 << 10, &Path::top("decisions").key("size"));
        let archive = raw.archive.as_ref().map(|archive| {
            let path = Path::top("decisions").key("archive");
            self.positive(archive.keep, &path.key("keep"));
            self.at_least(archive.max_size, 64 << 20, &path.key("max_size"));
            ArchiveSettings {
                folder: archive.folder.as_str().to_owned(),
                keep: archive.keep.get(),
                max_size: archive.max_size.get(),
            }
        });
        DecisionSettings {
            keep: raw.keep,
            size: raw.size.get(),
            detail: raw.detail,
            archive,
        }
    }

    pub(super) fn recording(&mut self, raw: Option<&raw::Recording>) -> Option<RecordingSettings> {
        let raw = raw?;
        self.at_least(raw.max_size, 1 << 10, &Path::top("recording").key("max_size"));
        Some(RecordingSettings {
            path: raw.path.as_str().to_owned(),
            max_size: raw.max_size.get(),
        })
    }

    /// Reports a duration of zero.
    pub(super) fn positive(&mut self, span: TimeSpan, path: &Path) {
        if span.get() == Duration::ZERO {
            self.error(path, "this duration cannot be zero", "write a duration such as `5s`");
        }
    }

    pub(super) fn at_least(&mut self, size: Size, least: u64, path: &Path) {
        let least = ByteSize::new(least);
        if size.get() < least {
            self.error(
                path,
                format!("{size} is too small to be useful"),
                format!("write at least {least}"),
            );
        }
    }
}

pub(super) const fn log(raw: raw::Log) -> LogSettings {
    LogSettings {
        format: raw.format,
        level: raw.level,
    }
}
