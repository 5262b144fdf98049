//! The whole program: every test runs the real binary, with simulated or scripted endpoints behind it and real clients
//! in front.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "whatever is not as expected fails the test"
)]
#![expect(
    clippy::print_stdout,
    reason = "`--nocapture` shows the figures that a test is about"
)]
#![expect(clippy::float_cmp, reason = "counts on a page of metrics are whole numbers")]

mod answers;
mod audit;
mod bad_input;
mod balance;
mod certificates;
mod config_cli;
mod drain;
mod drill;
mod explain;
mod fallback;
mod faults;
mod hours;
mod keys;
mod kills;
mod kv_events;
mod laboratory;
mod ledger;
mod life;
mod prefix;
mod protocol;
mod providers;
mod quota;
mod readme;
mod recording;
mod release;
mod roles;
mod routing;
mod sdk;
mod secrets;
mod shared_quota;
mod sharing;
mod table;
mod tenants;
mod texts;
mod tls;
mod tokens;
mod traffic;
mod waiting;
