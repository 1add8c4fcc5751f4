//! Corpora, prompt synthesis and dataset loaders: a workload is a function of (plan, seed, index).
