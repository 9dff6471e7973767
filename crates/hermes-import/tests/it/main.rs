//! Imports from every source, and what is written out.

#![expect(clippy::unwrap_used, reason = "tests")]

mod exports;
mod python;
mod rig;
mod transcripts;
