//! Skills.
pub mod frontmatter;
