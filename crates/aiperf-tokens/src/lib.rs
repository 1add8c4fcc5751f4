//! Tokenizer back ends behind one trait, chat templates and counting.
