/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/keel-2420744127123305.d: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-2420744127123305.rlib: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-2420744127123305.rmeta: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/bindings/rust/src/lib.rs:
/work/wt/api/bindings/rust/src/sys.rs:
