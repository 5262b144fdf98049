//! The engine model in virtual time: batching, KV blocks, prefix cache, preemption.
