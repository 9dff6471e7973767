//! Behaviour of the handoff through its public face.
#![expect(
    clippy::unwrap_used,
    reason = "tests; the in-test exemption does not reach what they share"
)]

mod building;
mod confidential;
mod delivery;
mod hostile;
mod killed;
mod lanes;
mod nights;
mod properties;
mod support;
mod writers;
