//! From a YAML file to checked settings, with diagnostics that point.
