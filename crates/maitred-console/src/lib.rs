//! The administrative listener: metrics, health, drain and what the endpoints look like.
