/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-901e996c2cfe05d5.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-901e996c2cfe05d5: src/main.rs

src/main.rs:
