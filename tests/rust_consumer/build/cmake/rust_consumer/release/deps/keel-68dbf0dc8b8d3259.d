/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/keel-68dbf0dc8b8d3259.d: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-68dbf0dc8b8d3259.rlib: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-68dbf0dc8b8d3259.rmeta: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/bindings/rust/src/lib.rs:
/work/wt/api/bindings/rust/src/sys.rs:
