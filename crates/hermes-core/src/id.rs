//! Typed identifiers.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a text that is known to be such an id.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id! {
    /// A session. New ones have the form `YYYYMMDD_HHMMSS_xxxxxx` (local time, six hexadecimal
    /// digits); imported ones keep whatever form they had.
    SessionId
}

text_id! {
    /// One attempt at a provider call: `r` and 16 hexadecimal digits, the first ten of which grow
    /// with time, so that ids sort by age.
    RequestId
}

impl SessionId {
    /// A new id from the local start time and randomness.
    pub fn generate(env: &dyn crate::Env) -> Self {
        let now = env.now();
        let mut random = [0; 3];
        env.random(&mut random);
        let stamp = now.civil(env.utc_offset_seconds(now)).strftime("%Y%m%d_%H%M%S").to_string();
        let [a, b, c] = random;
        Self::new(format!("{stamp}_{a:02x}{b:02x}{c:02x}"))
    }
}

impl RequestId {
    /// A new id from the time in milliseconds and 24 random bits.
    pub fn generate(env: &dyn crate::Env) -> Self {
        let Timestamp(micros) = env.now();
        let mut random = [0; 3];
        env.random(&mut random);
        let [a, b, c] = random;
        let millis = (micros / 1000) & 0xff_ffff_ffff;
        Self::new(format!("r{millis:010x}{a:02x}{b:02x}{c:02x}"))
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

number_id! {
    /// Position in a session's one counter, shared by rows and parts, given out by the holder of
    /// the session's lease. The first is 1.
    Seq(u64)
}

number_id! {
    /// A generation of a session's history. The first is 0.
    GenerationNo(u32)
}

number_id! {
    /// A person's turn in a session. The first is 1; rows before any turn have 0.
    TurnNo(u32)
}
