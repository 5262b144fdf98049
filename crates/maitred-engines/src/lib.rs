//! What maitred knows of model servers: metric names and pages, readiness, and how each engine fails.
