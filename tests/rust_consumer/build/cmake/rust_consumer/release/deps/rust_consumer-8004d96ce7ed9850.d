/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-8004d96ce7ed9850.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-8004d96ce7ed9850: src/main.rs

src/main.rs:
