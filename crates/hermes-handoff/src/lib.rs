//! The handoff: how a session ends with a capsule that the next one in its conversation starts
//! with.
