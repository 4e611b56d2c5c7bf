/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-0c96ca8a89d501be.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-0c96ca8a89d501be: src/main.rs

src/main.rs:
