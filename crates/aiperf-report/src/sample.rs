//! A small run for the tests.
