//! x
mod slab;
mod tree;
