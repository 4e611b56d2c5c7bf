//! Clocks, calibration, machine facts and statistics.
