//! The snippets of integrations/, each with its client if this machine has it: a kept budget
//! passes, and a broken one fails.

#![allow(clippy::print_stderr, reason = "a skipped test prints why")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use common::{prefix_with_recorder, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Three allocations.
const PROGRAM: &str = "#include <stdlib.h>\nvoid* volatile kept;\nint main(void) {\n    \
                       for (int i = 0; i < 3; i++) kept = malloc(8);\n    return 0;\n}\n";

fn snippet(name: &str) -> PathBuf {
    root().join("integrations").join(name)
}

/// A folder with the program's source.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
    folder
}

fn budget(folder: &Path, allocations: u32) {
    let text = format!("[[call_site]]\nfunction = \"main\"\nallocations = {allocations}\n");
    std::fs::write(folder.join("budget.toml"), text).unwrap();
}

/// A command that finds the tested `keel` first; None if the client is not here.
fn client(name: &str) -> Option<Command> {
    let found = Command::new(name).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {name} is not here");
        return None;
    }
    let keel = Path::new(env!("CARGO_BIN_EXE_keel")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.env("PATH", format!("{}:{path}", keel.display()));
    command.env("KEEL_PREFIX", prefix_with_recorder()).env_remove("LD_PRELOAD");
    Some(command)
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

fn compile(folder: &Path) {
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-fno-builtin", "-o", "program", "program.c"]);
    assert!(compiler.current_dir(folder).status().unwrap().success());
}

#[test]
fn ctest() {
    let (Some(mut cmake), Some(_)) = (client("cmake"), client("ctest")) else { return };
    let folder = folder();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(test C)\nenable_testing()\n\
         set(CMAKE_C_FLAGS \"-O1 -g -fno-builtin\")\nadd_executable(program program.c)\n\
         include({})\nkeel_add_check(budget TARGET program BUDGET budget.toml)\n",
        snippet("ctest/KeelCheck.cmake").display()
    );
    std::fs::write(folder.path().join("CMakeLists.txt"), lists).unwrap();
    let output = cmake.current_dir(folder.path()).args(["-S", ".", "-B", "out"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let mut build = Command::new("cmake");
    let output = build.current_dir(folder.path()).args(["--build", "out"]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    for (allocations, passes) in [(3, true), (2, false)] {
        budget(folder.path(), allocations);
        let mut ctest = client("ctest").unwrap();
        let arguments = ["--test-dir", "out", "--output-on-failure"];
        let output = ctest.current_dir(folder.path()).args(arguments).output().unwrap();
        assert_eq!(output.status.success(), passes, "{}", text(&output));
        assert_eq!(text(&output).contains("3, the limit is 2: 1 too many"), !passes);
    }
}

#[test]
fn pytest() {
    let Some(_) = client("pytest") else { return };
    let folder = folder();
    compile(folder.path());
    std::fs::copy(snippet("pytest/conftest.py"), folder.path().join("conftest.py")).unwrap();
    let test =
        "def test_budget(keel_check):\n    keel_check(\"./program\", budget=\"budget.toml\")\n";
    std::fs::write(folder.path().join("test_budget.py"), test).unwrap();
    for (allocations, passes) in [(3, true), (2, false)] {
        budget(folder.path(), allocations);
        let mut pytest = client("pytest").unwrap();
        let output = pytest.current_dir(folder.path()).arg("-q").output().unwrap();
        assert_eq!(output.status.success(), passes, "{}", text(&output));
        assert_eq!(text(&output).contains("3, the limit is 2: 1 too many"), !passes);
    }
}

#[test]
fn cargo() {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path();
    std::fs::create_dir_all(package.join("src")).unwrap();
    std::fs::create_dir_all(package.join("tests")).unwrap();
    let manifest =
        "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(package.join("Cargo.toml"), manifest).unwrap();
    let program = "fn main() {\n    for size in 1..=3 {\n        \
                   std::hint::black_box(Box::new([size; 100]));\n    }\n}\n";
    std::fs::write(package.join("src/main.rs"), program).unwrap();
    std::fs::copy(snippet("cargo/keel_check.rs"), package.join("tests/keel_check.rs")).unwrap();
    for (allocations, passes) in [(3, true), (2, false)] {
        let text_of =
            format!("[[call_site]]\nfunction = \"program::main\"\nallocations = {allocations}\n");
        std::fs::write(package.join("budget.toml"), text_of).unwrap();
        let mut cargo = client("cargo").unwrap();
        let arguments = ["test", "--offline", "--target-dir", "out", "--test", "keel_check"];
        let output = cargo.current_dir(package).args(arguments).output().unwrap();
        assert_eq!(output.status.success(), passes, "{}", text(&output));
        assert_eq!(text(&output).contains("3, the limit is 2: 1 too many"), !passes);
    }
}

#[test]
fn catch2() {
    let has_header = ["/usr/include/catch2", "/usr/local/include/catch2"];
    if !has_header.iter().any(|folder| Path::new(folder).join("catch.hpp").exists()) {
        eprintln!("SKIPPED: catch2/catch.hpp is not here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = format!(
        "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n#include \"{}\"\n\
         #include <cstdlib>\nvoid* volatile kept;\n\
         TEST_CASE(\"mixer\") {{ for (int i = 0; i < 100; i++) kept = malloc(8); }}\n",
        snippet("catch2/keel_marks.hpp").display()
    );
    std::fs::write(folder.path().join("tests.cpp"), test).unwrap();
    let mut compiler = Command::new("c++");
    compiler.args(["-std=c++17", "-O0", "-g", "-fno-builtin", "-o", "tests", "tests.cpp"]);
    assert!(compiler.current_dir(folder.path()).status().unwrap().success());
    let check = |allocations: u32| {
        let budget = format!(
            "[[between]]\nfrom = \"begin: mixer\"\nto = \"end: mixer\"\n\
             allocations = {allocations}\n"
        );
        std::fs::write(folder.path().join("budget.toml"), budget).unwrap();
        let mut keel = Command::new(env!("CARGO_BIN_EXE_keel"));
        keel.env("KEEL_PREFIX", prefix_with_recorder()).current_dir(folder.path());
        keel.args(["check", "--budget", "budget.toml", "--", "./tests"]).output().unwrap()
    };
    // Catch2 itself allocates a little in each test case.
    let (kept, broken) = (check(200), check(99));
    assert_eq!(kept.status.code(), Some(0), "{}", text(&kept));
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken));
}

#[test]
fn the_files_of_the_services_are_yaml_that_calls_keel() {
    let Some(mut python) = client("python3") else { return };
    let names = ["github/keel-check.yml", "gitlab/keel-check.gitlab-ci.yml"];
    let program = "import sys\ntry:\n    import yaml\nexcept ImportError:\n    sys.exit(77)\n\
                   for name in sys.argv[1:]:\n    print(yaml.safe_load(open(name)))\n";
    let output = python.args(["-c", program]).args(names.map(snippet)).output().unwrap();
    if output.status.code() == Some(77) {
        eprintln!("SKIPPED: PyYAML is not here");
        return;
    }
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output).matches("keel check --budget budget.toml").count(), 2);
}
