//! Owns the cores: clock, locks, settings snapshot, scraping, probes and discovery.
