//! Behaviour of the store through its public face.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; the in-test exemption does not reach what they share"
)]

mod basics;
mod branch;
mod capsules;
mod compactions;
mod concurrency;
#[cfg(unix)]
mod crash;
#[cfg(unix)]
mod crash_works;
mod damage;
mod delete;
mod delete_paths;
mod draft;
mod durability;
mod export;
mod find;
mod first_start;
mod lease;
mod ledger;
mod migrate;
mod model;
mod moving;
mod outbox;
mod readers;
mod search;
mod search_texts;
mod spool;
mod support;
mod tail;
