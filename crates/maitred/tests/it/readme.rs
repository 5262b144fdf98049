//! The commands of the README, run as they stand there.
