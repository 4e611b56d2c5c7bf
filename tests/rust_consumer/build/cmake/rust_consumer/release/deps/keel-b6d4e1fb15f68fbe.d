/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/keel-b6d4e1fb15f68fbe.d: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-b6d4e1fb15f68fbe.rlib: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-b6d4e1fb15f68fbe.rmeta: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/bindings/rust/src/lib.rs:
/work/wt/api/bindings/rust/src/sys.rs:
