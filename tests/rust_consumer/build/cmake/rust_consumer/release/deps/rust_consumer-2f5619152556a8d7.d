/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-2f5619152556a8d7.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-2f5619152556a8d7: src/main.rs

src/main.rs:
