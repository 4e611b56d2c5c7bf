//! Foreign trace formats to journals, one file each.
