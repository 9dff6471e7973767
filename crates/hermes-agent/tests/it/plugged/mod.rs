//! Plugins, shell hooks and webhooks in real turns: small plugins in a home of their own, a
//! rehearsed model, the built-in tools.

mod api;
mod guard;
mod harm;
mod heard;
mod rig;
mod serves;
mod turn;
mod wrapped;
