//! The home folder and what lies in it: settings, secrets, locks, and safe reading and writing of
//! files.
//!
//! Invariants: a home of the Python program is never written to; a settings file that cannot be
//! understood stops the start and is never overwritten; a rule about what may run is never lost
//! silently; secrets appear in no message and no `Debug` output.

mod config;
mod dotenv;
mod error;
pub mod fsio;
mod home;
mod load;
mod lock;
mod profile;
pub mod redact;
mod routes;
mod secrets;
mod settings;

mod system_env;
mod vars;
pub mod yaml;

pub use config::{
    AgentConfig, ApprovalMode, ApprovalsConfig, AuxiliaryConfig, AuxiliaryTask, CompressionConfig,
    Config, ContextConfig, DelegationConfig, DisplayConfig, FallbackConfig, HandoffConfig, Kind,
    MemoryConfig, ModelConfig, PluginHostConfig, PluginsConfig, PromptCachingConfig,
    ProviderConfig, SecurityConfig, SessionsConfig, Setting, SkillsConfig, TerminalConfig,
    ToolOutputConfig, UnknownKey,
};
pub use dotenv::{DotEnv, EnvEntry, EnvProblem};
pub use error::{ConfigError, HomeError, Place, Problem};
pub use home::{
    Home, HomeChoice, HomeReason, ProcessVars, STORE_APPLICATION_ID, is_python_store, process_vars,
};
pub use load::{ConfigReport, Loaded, Overrides, SettingSource, Shadowed, load};
pub use lock::FileLock;
pub use profile::{DEFAULT_PROFILE, is_profile_name};
pub use routes::{
    AuxiliaryCandidate, AuxiliaryRoutes, BUILTIN_PROVIDERS, BuiltinProvider, EndpointConfig,
    KeySource, Route, RouteLine, Routes, auxiliary_routes, chain, route_for, routes, routes_told,
};
pub use secrecy::{ExposeSecret, SecretString};

pub use secrets::Secrets;
pub use settings::{Check, ConfigReceipt, ShownSetting, check, get, set, set_env, show};
pub use system_env::SystemEnv;
pub use vars::{VarSource, Vars, says_off, says_on};
