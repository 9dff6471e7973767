//! What is known of each plugin, with the field names that published comparisons use.
