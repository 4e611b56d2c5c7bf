/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-3a56f7bcccfe7e38.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-3a56f7bcccfe7e38: src/main.rs

src/main.rs:
