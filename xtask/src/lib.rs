//! Rules of the project as tests, and generators of its reference pages.
