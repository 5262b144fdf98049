//! Bad input: each gets a clear error, and nothing else happens.
