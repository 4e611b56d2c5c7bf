/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-b23a5501cba04ea6.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-b23a5501cba04ea6: src/main.rs

src/main.rs:
