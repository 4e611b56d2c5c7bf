//! The compiled replay plan: the memory-mapped contract between replay and player.
