//! One table of options; command line, environment and YAML merged into a validated Plan.
