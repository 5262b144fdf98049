//! A harness for tests that run real programs: children, ports, fixtures, streams.
