//! Keyed counter random numbers: draw(seed, purpose, index).
