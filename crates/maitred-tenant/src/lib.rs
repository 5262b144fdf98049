//! Who may call: keys, their hashes, and what they grant.
