//! Telling a frozen metrics page from a quiet endpoint, and a restarted engine from a slow one.
//!
//! The age of a scrape says nothing about a page that is served promptly with old figures. Engines write their gauges while
//! they step, so an idle engine's page stands still rightly. It stands still wrongly when all of this holds:
//!
//! 1. this gateway has had at least one lease on the endpoint without a break for `frozen_after`,
//! 2. the page's progress has not changed for `frozen_after`, which every engine step must move; where it reports none, no figure
//!    (queued, running, KV) has,
//! 3. the page reports progress, or its own figures contradict what we see: fewer requests
//!    than must be generating output for us by now.
//!
//! Such a page counts as stale. A hung engine looks the same and deserves the same. The verdict ends with the first figure
//! that changes. Gauges that change without progress prove nothing: noise, or requests that arrive where nothing is done.
//!
//! Short of that verdict such a page is *still*: what it says is of the moment at which it last moved, so it is no news of now.
//!
//! The verdict also ends when the endpoint has had no lease of ours for `frozen_after`: then the page may be
//! rightly still, and only a new call can tell. A frozen page is thus tried again at intervals, never for good.

use std::time::Duration;

use maitred_types::Time;

/// The figures whose standing still matters. The KV fraction is compared by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) queued: u32,
    pub(crate) running: u32,
    pub(crate) kv_bits: Option<u64>,
    pub(crate) progress: Option<u64>,
}

/// What this gateway itself has on the endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    pub(crate) in_flight: u32,
    pub(crate) decoding: u32,
    /// Since when `in_flight` has been zero, or has not been.
    pub(crate) since: Time,
}

/// What one reading of a page says about the page itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageVerdict {
    Moving,
    /// Nothing moved since the reading before, though the page or this gateway knows of requests.
    Still,
    Frozen,
    /// The progress figure went backwards.
    Restarted,
}

/// Watches one endpoint's page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageWatch {
    last: Option<Figures>,
    changed_at: Time,
    frozen: bool,
}

impl PageWatch {
    pub(crate) fn read(
        &mut self,
        figures: Figures,
        presence: &Presence,
        sampled_at: Time,
        frozen_after: Duration,
    ) -> PageVerdict {
        let before = self.last.and_then(|last| last.progress);
        if figures.progress.zip(before).is_some_and(|(now, before)| now < before) {
            return PageVerdict::Restarted;
        }
        let is_still = match figures.progress {
            // Every step moves it. Gauges may tremble.
            Some(_) => figures.progress == before,
            None => self.last == Some(figures),
        };
        if !is_still {
            self.last = Some(figures);
            self.changed_at = sampled_at;
            self.frozen = false;
            return PageVerdict::Moving;
        }
        let long_present = sampled_at.since(presence.since) >= frozen_after;
        let long_still = sampled_at.since(self.changed_at) >= frozen_after;
        if presence.in_flight > 0 {
            self.frozen |= long_present && long_still && is_wrong(&figures, presence);
        } else if long_present {
            self.frozen = false;
        }
        let shows_work = presence.in_flight > 0 || figures.queued.saturating_add(figures.running) > 0;
        if self.frozen {
            PageVerdict::Frozen
        } else if figures.progress.is_some() && shows_work {
            PageVerdict::Still
        } else {
            PageVerdict::Moving
        }
    }
}

const fn is_wrong(figures: &Figures, presence: &Presence) -> bool {
    figures.progress.is_some() || figures.queued.saturating_add(figures.running) < presence.decoding
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(10);

    fn figures(running: u32, progress: Option<u64>) -> Figures {
        Figures {
            queued: 0,
            running,
            kv_bits: None,
            progress,
        }
    }

    fn at(secs: u64) -> Time {
        Time::from_millis(secs * 1000)
    }

    fn busy(decoding: u32, since: u64) -> Presence {
        Presence {
            in_flight: 1,
            decoding,
            since: at(since),
        }
    }

    const fn idle(since: Time) -> Presence {
        Presence {
            in_flight: 0,
            decoding: 0,
            since,
        }
    }

    #[test]
    fn a_page_is_frozen_only_when_it_stands_still_wrongly() {
        let check = |page: Figures, presence: Presence, second: u64, expected: PageVerdict| {
            let mut watch = PageWatch::default();
            watch.read(page, &presence, at(0), AFTER);
            let verdict = watch.read(page, &presence, at(second), AFTER);
            assert_eq!(verdict, expected, "{page:?} {presence:?} at {second}");
        };
        check(figures(1, Some(5)), busy(1, 0), 9, PageVerdict::Still);
        check(figures(1, Some(5)), busy(1, 0), 10, PageVerdict::Frozen);
        check(figures(1, Some(5)), busy(0, 0), 10, PageVerdict::Frozen);
        check(figures(1, Some(5)), busy(1, 5), 10, PageVerdict::Still);
        check(figures(0, Some(5)), idle(at(0)), 60, PageVerdict::Moving);
        // Without progress only a contradiction counts.
        check(figures(1, None), busy(1, 0), 60, PageVerdict::Moving);
        check(figures(0, None), busy(0, 0), 60, PageVerdict::Moving);
        check(figures(0, None), busy(1, 0), 60, PageVerdict::Frozen);
    }

    #[test]
    fn gauges_that_tremble_do_not_hide_that_nothing_moves() {
        let mut watch = PageWatch::default();
        for second in 0..10 {
            let page = figures(8 + u32::try_from(second % 3).unwrap(), Some(5));
            let expected = if second == 0 {
                PageVerdict::Moving
            } else {
                PageVerdict::Still
            };
            assert_eq!(watch.read(page, &busy(1, 0), at(second), AFTER), expected);
        }
        assert_eq!(
            watch.read(figures(9, Some(5)), &busy(1, 0), at(10), AFTER),
            PageVerdict::Frozen
        );
        // An engine that has nothing to do is not still, but at rest.
        let mut watch = PageWatch::default();
        watch.read(figures(0, Some(5)), &idle(at(0)), at(0), AFTER);
        assert_eq!(
            watch.read(figures(0, Some(5)), &idle(at(0)), at(1), AFTER),
            PageVerdict::Moving
        );
    }

    #[test]
    fn the_verdict_ends_with_a_change_or_after_a_rest() {
        let mut watch = PageWatch::default();
        let page = figures(1, Some(5));
        watch.read(page, &busy(1, 0), at(0), AFTER);
        assert_eq!(watch.read(page, &busy(1, 0), at(10), AFTER), PageVerdict::Frozen);
        // The lease ends; a rest shorter than the limit proves nothing.
        assert_eq!(watch.read(page, &idle(at(11)), at(12), AFTER), PageVerdict::Frozen);
        assert_eq!(watch.read(page, &idle(at(11)), at(21), AFTER), PageVerdict::Still);
        assert_eq!(watch.read(page, &busy(1, 22), at(32), AFTER), PageVerdict::Frozen);
        assert_eq!(
            watch.read(figures(1, Some(6)), &busy(1, 22), at(33), AFTER),
            PageVerdict::Moving
        );
    }

    #[test]
    fn progress_that_goes_backwards_is_a_restart() {
        let mut watch = PageWatch::default();
        watch.read(figures(1, Some(5)), &idle(at(0)), at(0), AFTER);
        let verdict = watch.read(figures(0, Some(4)), &idle(at(0)), at(1), AFTER);
        assert_eq!(verdict, PageVerdict::Restarted);
        // It is said again until somebody acts on it.
        let verdict = watch.read(figures(0, Some(4)), &idle(at(0)), at(2), AFTER);
        assert_eq!(verdict, PageVerdict::Restarted);
    }
}
