//! Where sessions fall. A session is known by a hash only, and its place never changes while a rollout lasts.

/// The hash of who is kept together: of a session, else of a user, else of a single call. Stable over restarts and machines, since a
/// session must fall to the same side afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionHash(u64);

impl SessionHash {
    /// Of a name, within a tenant: two tenants' sessions of one name are two sessions.
    #[must_use]
    pub fn of(tenant: &str, name: &str) -> Self {
        let hash = fnv(fnv(OFFSET, tenant.as_bytes()), &[0]);
        Self(fnv(hash, name.as_bytes()))
    }

    /// The place in a rollout of this name.
    pub(super) fn place(self, rollout: &str) -> Place {
        let mixed = mix(self.0 ^ fnv(OFFSET, rollout.as_bytes()));
        let [a, b, c, d, cell, ..] = mixed.to_be_bytes();
        let high = u64::from(u32::from_be_bytes([a, b, c, d]));
        let point = (high * 1_000_000) >> 32;
        Place {
            point: u32::try_from(point).unwrap_or(u32::MAX),
            cell,
        }
    }
}

/// A place among all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From 0 to 999,999. The candidate's are those below its portion, so that a session that is there stays there when it grows.
    pub(super) point: u32,
    /// A cell that has nothing to do with the point.
    pub(super) cell: u8,
}

/// FNV-1a: its constants.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// The finaliser of SplitMix64: FNV alone leaves the high bits of short names alike.
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_even_and_cells_tell_nothing_of_points() {
        let places = (0..100_000).map(|number| SessionHash::of("acme", &format!("s{number}")).place("spring"));
        let (mut below, mut cells) = (0, [0_u32; 2]);
        for place in places {
            if place.point < 50_000 {
                below += 1;
                cells[usize::from(place.cell % 2)] += 1;
            }
        }
        assert!((4_800..5_200).contains(&below), "{below}");
        assert!(cells[0].abs_diff(cells[1]) < 300, "{cells:?}");
    }

    #[test]
    fn a_place_is_the_same_on_every_machine_and_another_in_every_rollout() {
        let place = SessionHash::of("acme", "s1").place("spring");
        assert_eq!((place.point, place.cell), PLACE_OF_S1);
        assert_ne!(place, SessionHash::of("acme", "s1").place("autumn"));
        assert_ne!(place, SessionHash::of("umbrella", "s1").place("spring"));
    }

    /// Written down once; sessions would change sides in a running rollout if it were another.
    const PLACE_OF_S1: (u32, u8) = (895_546, 192);
}
