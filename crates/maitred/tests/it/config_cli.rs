//! The commands that look at configurations and make keys; secrets stay secret.
