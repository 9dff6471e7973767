//! Plugins, shell hooks and webhooks in real turns: small plugins in a home of their own, a
//! rehearsed model, the built-in tools.

mod rig;
mod turn;
