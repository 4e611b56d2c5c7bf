//! Journal to plan; schedules players; pairs and interleaves runs.
