//! Arrival schedules, phases and stop rules: pure machines fed with time.
