#!/usr/bin/env python3
"""Checks that the libraries export exactly the functions that the headers declare, and the malloc
family where a library replaces it.

    symbols.py SOURCES LIBRARIES

SOURCES is the project's root, LIBRARIES the folder of libkeel.so and the other libraries. For
shared libraries the dynamic symbols count, for objects and archives the global ones.
"""
import re
import subprocess
import sys
from pathlib import Path

sources, libraries = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(sources / "scripts"))
import headers  # noqa: E402

FAMILY = set("""malloc calloc realloc reallocarray free cfree free_sized free_aligned_sized
    aligned_alloc memalign posix_memalign valloc pvalloc
    malloc_usable_size malloc_trim mallopt""".split())
NEW = {"_Zn" + form + "m" + rest for form in "wa"
       for rest in ("", "RKSt9nothrow_t", "St11align_val_t", "St11align_val_tRKSt9nothrow_t")}
DELETE = {"_Zd" + form + "Pv" + rest for form in "la"
          for rest in ("", "m", "RKSt9nothrow_t", "St11align_val_t", "mSt11align_val_t",
                       "St11align_val_tRKSt9nothrow_t")}
# What a program calls that is compiled with -fsanitize=alloc-token.
TOKENS = {"__alloc_token_" + fast + name for fast in ("", "0_", "1_", "2_", "3_")
          for name in {"malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "memalign",
                       "posix_memalign", "valloc", "pvalloc"} | NEW}
RECORD = set(headers.exported(headers.PUBLIC / "recorder.h"))
API = {name for path in headers.PUBLIC.glob("*.h") for name in headers.exported(path)} - RECORD
# Every mimalloc function that keel/mimalloc.h defines in C, without the header's helpers.
MIMALLOC = {name for listed in ("names-1.6.3.txt", "names-later.txt")
            for name in (sources / "tests/mimalloc" / listed).read_text().split()
            for part in headers.PUBLIC.glob("mimalloc*.h")
            if name in headers.declared(part, "function")}

API |= {"kl_system_call"}  # for observers of system calls (os/call.h), not for programs
FILTER = {"prctl", "syscall"}  # what sets a filter of system calls passes through them
WHOLE = API | FAMILY | NEW | DELETE | TOKENS | FILTER
EXPECTED = {
    "libkeel.so": WHOLE,
    "keel.o": WHOLE,
    "libkeel.a": WHOLE,
    "libkeel_api.so": API,
    "libkeel_api.a": API,
    "libkeel_mimalloc.a": MIMALLOC,
    "libkeel_record.so": RECORD | {"kl_record_gate"},
    "libkeel_record.a": RECORD | {"kl_record_gate"},
}


def shown(path):
    how = ["--dynamic"] if ".so" in path.name else ["--extern-only"]
    lines = subprocess.run(["nm", *how, "--defined-only", "--format=posix", path], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines if len(line.split()) >= 2}


# What the allocator may use of other libraries: a preloaded library can replace each of these, and
# the keeper has less of a thread than theirs expect. System calls go through kl_system_call.
USED = set("""environ __environ __errno_location abort raise getauxval sigaction sigemptyset
    memchr memrchr memcmp memcpy memmove memset strchr strrchr strcmp strncmp strlen strnlen strstr
    strcspn realpath dl_iterate_phdr dlopen dlsym __register_atfork pthread_create pthread_join
    pthread_key_create __pthread_key_create pthread_setspecific pthread_attr_init
    pthread_attr_destroy pthread_attr_setstacksize
    pthread_mutex_lock pthread_mutex_unlock pthread_once __chk_fail __cxa_finalize __gmon_start__
    _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable _Unwind_Backtrace _Unwind_GetCFA
    _Unwind_GetGR _Unwind_GetIPInfo _ZSt15get_new_handlerv _ZSt17__throw_bad_allocv
    __asan_poison_memory_region __asan_unpoison_memory_region
    __asan_shadow_memory_dynamic_address""".split())


# libkeel_api has its variables of threads in another way (CMakeLists.txt says why).
USED_OF_API = USED | {"__tls_get_addr"}


def not_listed(path, used):
    """The functions and variables that the library uses, but the list does not have."""
    lines = subprocess.run(["nm", "--dynamic", "--undefined-only", "--format=posix", path],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted({line.split()[0].partition("@")[0] for line in lines} - used)


def calls(path):
    """Which function calls which one, by name."""
    lines = subprocess.run(["objdump", "--disassemble", "--no-show-raw-insn", path], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    caller, found = "", set()
    for line in lines:
        if begin := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            caller = begin.group(1)
        elif call := re.search(r"\b(?:callq?|jmpq?|bl?)\s.*<([^>+]+)", line):
            found.add((caller, call.group(1).partition("@")[0]))
    return found


# The debug flavour contains libgcc's unwinder, which uses the program's malloc for tables of
# frames that somebody has registered with this copy of it. Nobody can: only these functions
# register frames, they are not exported, and nothing else calls them.
REGISTERS = {"__register_frame", "__register_frame_info", "__register_frame_info_bases",
             "__register_frame_info_table", "__register_frame_info_table_bases",
             "__register_frame_table"}
OF_FRAMES = REGISTERS | {name.replace("__", "__de", 1) for name in REGISTERS} | {"search_object"}


def uses_of_malloc(path):
    """The functions that may call the program's malloc or free."""
    found = calls(path)
    return sorted({caller for caller, name in found
                   if name in ("malloc", "free") and not caller.endswith("@plt")
                  and caller not in OF_FRAMES} |
                  {caller for caller, name in found
                   if name in REGISTERS and caller not in OF_FRAMES} |
                  (shown(path) & OF_FRAMES))


OLDEST = (2, 17)


def too_new(path):
    """The symbols that the library needs of a later version of glibc."""
    lines = subprocess.run(["objdump", "-T", path], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    needed = [(line, re.search(r"GLIBC_(\d+)\.(\d+)", line)) for line in lines if "*UND*" in line]
    return [line.split()[-1] for line, version in needed
            if version is not None and tuple(map(int, version.groups())) > OLDEST]


# Each more library takes 30 µs of every process that starts with Keel (os/linux_optional.h).
NEEDED = re.compile(r"libc\.so\.6|ld-linux.*")


def needed(path):
    """The other libraries that the library makes each process load."""
    lines = subprocess.run(["readelf", "--dynamic", "--wide", path], check=True,
                           capture_output=True, text=True).stdout
    return [name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", lines)
            if not NEEDED.fullmatch(name)]


passed = failed = 0
for path in sorted([*libraries.glob("*.so"), *libraries.glob("keel/*.so")]):
    if names := too_new(path):
        failed += 1
        print(f"FAIL {path.name}: needs symbols newer than glibc 2.17: {names}")
    else:
        passed += 1
for path in sorted(libraries.glob("libkeel*.so")):
    used = USED
    if path.name.startswith("libkeel_api"):
        used = USED_OF_API
    elif "_" in path.name:
        continue  # no allocator
    if path.name == "libkeel_api-debug.so":
        used = used | {"malloc", "free"}
        if names := uses_of_malloc(path):
            failed += 1
            print(f"FAIL {path.name}: the program's malloc is used by {names}")
    may_load = "-debug" in path.name  # cmake/old-glibc.cmake says why
    if names := [] if may_load else needed(path):
        failed += 1
        print(f"FAIL {path.name}: loads other libraries: {names}")
    else:
        passed += 1
    if names := not_listed(path, used):
        failed += 1
        print(f"FAIL {path.name}: uses what the list does not have: {names}")
    else:
        passed += 1
for name, expected in EXPECTED.items():
    found = shown(libraries / name)
    extra, missing = sorted(found - expected), sorted(expected - found)
    if extra or missing:
        failed += 1
        print(f"FAIL {name}: unexpected: {extra or 'none'}; missing: {missing or 'none'}")
    else:
        passed += 1
        print(f"{name}: {len(found)} names")
assert len(API) > 90 and len(MIMALLOC) > 110, "the headers were not read"
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
