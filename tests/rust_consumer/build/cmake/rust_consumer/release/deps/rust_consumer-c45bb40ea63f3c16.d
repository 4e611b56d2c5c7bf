/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-c45bb40ea63f3c16.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-c45bb40ea63f3c16: src/main.rs

src/main.rs:
