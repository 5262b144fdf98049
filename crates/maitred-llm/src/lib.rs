//! Dialects: reading calls, relaying streams, usage and error bodies.
