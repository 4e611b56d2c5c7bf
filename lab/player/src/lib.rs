//! Executes a compiled plan under one allocator in a process of its own.
