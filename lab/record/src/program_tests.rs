#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use std::os::unix::fs::OpenOptionsExt as _;

fn script(folder: &Path, name: &str, mode: u32, text: &str) -> PathBuf {
    use std::io::Write as _;
    let path = folder.join(name);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

fn message(result: Result<(), Error>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let second = tempfile::tempdir().unwrap();
    script(folder.path(), "tool", 0o644, "#!/bin/sh\n");
    let good = script(second.path(), "tool", 0o755, "#!/bin/sh\n");
    let path = std::env::join_paths([folder.path(), second.path()]).unwrap();
    assert_eq!(find(OsStr::new("tool"), Some(&path)).unwrap(), good);
    assert_eq!(find(good.as_os_str(), None).unwrap(), good);

    let missing = find(OsStr::new("no-such-tool"), Some(&path)).unwrap_err().to_string();
    assert_eq!(
        missing,
        "cannot find the program no-such-tool: give its path, or a name that is in PATH"
    );
    let refused =
        find(OsStr::new("tool"), Some(folder.path().as_os_str())).unwrap_err().to_string();
    assert!(
        refused.ends_with("it is not executable; `chmod +x` it if it is a program"),
        "{refused}"
    );
    let directory = find(folder.path().as_os_str(), None).unwrap_err().to_string();
    assert!(directory.ends_with("it is a directory"), "{directory}");
}

#[test]
fn scripts_are_checked_through_their_interpreters() {
    let folder = tempfile::tempdir().unwrap();
    let inner = script(folder.path(), "inner", 0o755, "#! /bin/sh -e\n");
    let outer = script(folder.path(), "outer", 0o755, &format!("#!{}\n", inner.display()));
    check_recordable(&outer).unwrap();
    let cycle = folder.path().join("cycle");
    script(folder.path(), "cycle", 0o755, &format!("#!{}\n", cycle.display()));
    assert!(message(check_recordable(&cycle)).ends_with("its #! lines form a cycle"));
    let lost = script(folder.path(), "lost", 0o755, "#!/no/such/interpreter\n");
    assert!(message(check_recordable(&lost)).ends_with("its #! interpreter does not exist"));
    let text = script(folder.path(), "text", 0o755, "hello\n");
    assert!(message(check_recordable(&text)).contains("neither an ELF program nor a script"));
}

#[test]
fn damaged_headers_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let shell = std::fs::read("/bin/sh").unwrap();
    for (number, length) in [5, 20, 64, 100, 1000, 5000].into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        std::fs::write(&path, &shell[..length]).unwrap();
        let result = check_elf(&path);
        assert!(result.is_err() || length >= 5000, "{length} bytes passed");
    }
    let mut other = shell;
    other[4] = 1;
    let path = folder.path().join("32");
    std::fs::write(&path, &other).unwrap();
    assert!(message(check_elf(&path)).contains("it is a 32-bit program"));
}

#[test]
fn a_program_that_uses_musl_gets_a_recorder_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libkeel_recorder.so");
    let shell = Path::new("/bin/sh");
    assert_eq!(recorder(&library, shell).unwrap(), library);

    let mut bytes = std::fs::read(shell).unwrap();
    let loader =
        bytes.windows(7).position(|part| part == b"/lib64/" || part == b"/lib/ld").unwrap();
    let musl = b"/lib/ld-musl-x86.so.1\0";
    bytes[loader..loader + musl.len()].copy_from_slice(musl);
    let program = folder.path().join("program");
    std::fs::write(&program, &bytes).unwrap();
    let refused = recorder(&library, &program).unwrap_err().to_string();
    assert!(refused.contains("it uses musl, and "), "{refused}");

    let own = folder.path().join("keel/musl/libkeel_recorder.so");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "").unwrap();
    assert_eq!(recorder(&library, &program).unwrap(), own);
}
