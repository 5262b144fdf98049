//! What is seen from outside: events, metrics and access records.
