//! The scheduling core: endpoints, signals, health, leases, filters, scorers and pickers.
