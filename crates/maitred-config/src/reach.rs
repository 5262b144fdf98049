//! Which addresses the gateway may connect to. A name may resolve to anything, so what counts is the address that it resolves to, at
//! the moment of connecting.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a destination of the configuration may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Public addresses only.
    Public,
    /// Private and loopback addresses too.
    Private,
}

/// What kind of address it is, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Zone {
    Public,
    /// Loopback, private networks, those of carriers, tests and documents.
    Private,
    /// Never a destination: link-local addresses, where clouds serve the machine's own credentials, other places where they do so,
    /// groups of machines, none at all, and what is reserved.
    Never,
}

/// Where clouds serve credentials beside 169.254.169.254, and what else they do for the machine itself.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),
];

impl Reach {
    /// That of a destination whose configuration says whether private addresses will do.
    #[must_use]
    pub const fn of(allow_private: bool) -> Self {
        if allow_private { Self::Private } else { Self::Public }
    }

    /// Whether the gateway may connect to `address`.
    #[must_use]
    pub fn allows(self, address: IpAddr) -> bool {
        match zone(address) {
            Zone::Public => true,
            Zone::Private => self == Self::Private,
            Zone::Never => false,
        }
    }
}

fn zone(address: IpAddr) -> Zone {
    match address {
        IpAddr::V4(address) => zone_v4(address),
        IpAddr::V6(address) => zone_v6(address),
    }
}

fn zone_v4(address: Ipv4Addr) -> Zone {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (0 | 224.., _, _) | (169, 254, _) | (192, 0, 0) => Zone::Never,
        _ if METADATA_V4.contains(&address) => Zone::Never,
        (10 | 127, _, _)
        | (172, 16..=31, _)
        | (192, 168, _)
        | (100, 64..=127, _)
        | (198, 18 | 19, _)
        | (192, 0, 2)
        | (198, 51, 100)
        | (203, 0, 113) => Zone::Private,
        _ => Zone::Public,
    }
}

fn zone_v6(address: Ipv6Addr) -> Zone {
    if METADATA_V6.contains(&address) {
        return Zone::Never;
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Zone::Private,
        // An IPv4 address in another form leads where that one leads: compatible and mapped, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0 | 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] | [0x2002, a, b, ..] => {
            zone_v4(joined(a, b))
        }
        // A NAT64 of one's own.
        [0x64, 0xff9b, 1, ..] => zone_of_own_nat64(address),
        // Teredo hides an address, and is nothing that servers have.
        [0x2001, 0, ..] => Zone::Never,
        [0x2001, 0xdb8, ..] | [0xfc00..=0xfdff, ..] => Zone::Private,
        [0x2000..=0x3fff, ..] => Zone::Public,
        _ => Zone::Never,
    }
}

/// Where the IPv4 address stands in it is its network's choice; what is never a destination in any of the places is none.
fn zone_of_own_nat64(address: Ipv6Addr) -> Zone {
    let [.., a, b] = address.segments();
    zone_v4(joined(a, b)).max(Zone::Private)
}

const fn joined(high: u16, low: u16) -> Ipv4Addr {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests;
