/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/keel-70404f3dab2b85d4.d: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-70404f3dab2b85d4.rlib: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/tests/rust_consumer/build/cmake/rust_consumer/release/deps/libkeel-70404f3dab2b85d4.rmeta: /work/wt/api/bindings/rust/src/lib.rs /work/wt/api/bindings/rust/src/sys.rs

/work/wt/api/bindings/rust/src/lib.rs:
/work/wt/api/bindings/rust/src/sys.rs:
