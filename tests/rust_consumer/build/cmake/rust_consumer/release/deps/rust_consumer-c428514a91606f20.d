/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-c428514a91606f20.d: src/main.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/rust_consumer-c428514a91606f20: src/main.rs

src/main.rs:
