#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]
#[path = "it/table.rs"]
mod table;
#[path = "it/balance.rs"]
mod balance;
#[path = "it/traffic.rs"]
mod traffic;
#[path = "it/life.rs"]
mod life;
