//! Which endpoint which filter removed, for those who want to know: the pick itself only counts.

use smallvec::SmallVec;

use crate::ask::Ask;
use crate::columns::{Phase, slot_number};
use crate::filter::Filter;
use crate::pool::Pool;
use crate::pool::pick::{Field, is_excluded};
use crate::scorer::{Scene, Subject};
use crate::why::{MAX_REMOVALS, Removal, Removals};

impl Pool {
    /// The endpoints that `field` lost and by which filter, at most [`MAX_REMOVALS`] of them.
    pub(super) fn removals(&self, ask: &Ask<'_>, subject: Subject, field: &Field) -> Removals {
        let mut removals = SmallVec::new();
        if field.removed.total() == 0 {
            return removals;
        }
        let columns = &self.columns;
        let scene = Scene { columns, subject };
        let gates = columns.gates.iter().enumerate();
        for (at, _) in gates.filter(|(_, gate)| gate.phase != Phase::Gone) {
            if self.scratch.candidates.binary_search(&slot_number(at)).is_ok() {
                continue;
            }
            if let Some(filter) = self.removed_by(at, ask, &scene, field) {
                removals.push(Removal {
                    endpoint: columns.id(at),
                    filter,
                    state: self.state(at, self.now),
                });
            }
            if removals.len() >= MAX_REMOVALS {
                break;
            }
        }
        removals
    }

    /// The first filter that refuses the endpoint at `at`, of those that removed anybody: a soft one that stepped back did not.
    fn removed_by(&self, at: usize, ask: &Ask<'_>, scene: &Scene<'_>, field: &Field) -> Option<Filter> {
        let gate = &self.columns.gates[at];
        let freshness = &scene.subject.freshness;
        if gate.phase != Phase::Ready {
            return Some(Filter::Ready);
        }
        if is_excluded(ask, slot_number(at), gate) {
            return Some(Filter::NotExcluded);
        }
        if gate.is_ejected() && field.removed.by(Filter::NotEjected) > 0 {
            return Some(Filter::NotEjected);
        }
        if let Some(filter) = gate.full(freshness) {
            return Some(filter);
        }
        if field.removed.by(Filter::HasRoom) > 0 && !self.has_room(at) {
            return Some(Filter::HasRoom);
        }
        let others = [Filter::NotCooling];
        let mut others = others.iter().chain(self.profile.filters());
        others
            .find(|filter| field.removed.by(**filter) > 0 && !filter.passes(scene, at))
            .copied()
    }
}
