#!/usr/bin/env bash
# wheel.sh [FOLDER]: tests the wheel of FOLDER (build/packages) in empty virtual environments. The
# data frames come from PyPI; a Debian root with Python 3.13 shows the names of Python's functions.
source "$(dirname "$0")/steps.sh"
wheel=$(ls "$out/keel_lab-$VERSION"-*"$(uname -m)".whl)
cd "$work" || exit 1
python=$work/env/bin/python
tools=$("$root/packaging/tools.sh")

all() { # everything that a user does first: from nothing to a page
    python3 -m venv env && env/bin/pip install --quiet --no-index "$wheel" &&
        env/bin/keel try --no-open -a keel,glibc -r 2 -o tried -- "$python" script.py &&
        test -s tried/report.html
}
operations() { "$work/env/bin/keel" info --json "$1" | "$python" -c '
import json, sys
print(json.load(sys.stdin)["facts"]["operations"])'; }
sees_objects() { # Python's own objects are operations only with its arenas off
    env/bin/keel record -o arenas.journal.parquet -- "$python" script.py &&
        "$python" -m keel record script.py >recorded 2>&1 && cat recorded &&
        [ "$(operations script.journal.parquet)" -gt $((5 * $(operations arenas.journal.parquet))) ]
}
says_no_names() { # or names them: what this Python can do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then
        "$python" -m keel blame script.journal.parquet | grep make_rows
    else
        grep '3.12 and newer can' recorded
    fi
}
tagged() { # the wheel satisfies the policy of its tag, and needs no library beside those of the tag
    local tag
    tag=$(basename "$wheel" .whl) && tag=${tag##*-none-} &&
        PATH=$tools/bin:$PATH auditwheel repair --only-plat --plat "$tag" -w repaired "$wheel" &&
        ! "$python" -m zipfile -l repaired/*.whl | grep '\.libs/'
}
libraries_tagged() { # the libraries by themselves: for the oldest systems, manylinux2014
    local only="$work/libraries/${wheel##*/}"
    mkdir -p libraries && "$python" - "$wheel" "$only" <<'PYTHON' &&
import sys, zipfile
lab = "keel/prefix/bin/", "keel/prefix/lib/keel/"
whole, part = zipfile.ZipFile(sys.argv[1]), zipfile.ZipFile(sys.argv[2], "w")
for entry in whole.infolist():
    contents = whole.read(entry)
    if entry.filename.endswith("/RECORD"):
        lines = contents.decode().splitlines(keepends=True)
        contents = "".join(line for line in lines if not line.startswith(lab))
    if not entry.filename.startswith(lab):
        part.writestr(entry, contents)
part.close()
PYTHON
        "$python" -m zipfile -l "$only" | grep 'lib/libkeel-secure.so' &&
        "$tools/bin/auditwheel" show "$only" | tee /dev/stderr | tr '\n' ' ' |
        grep "consistent with the following platform tag: \"manylinux_2_17_"
}
engines() {
    for engine in polars pandas arrow; do
        "$python" - "$engine" <<'PYTHON' || return 1
import sys, keel
journal, results = keel.Journal("script.journal.parquet"), keel.Results("tried/results")
engine = sys.argv[1]
for read in journal.frame, journal.live, results.percentiles, results.calls:
    frame = read(engine)
    assert frame.shape[0] > 0 and frame.shape[1] > 1, frame
    assert type(frame).__module__.split(".")[0] == engine.replace("arrow", "pyarrow")
assert results.plot("memory", dark=True)._repr_svg_().startswith("<svg")
PYTHON
    done
}
doctests() {
    "$python" - <<'PYTHON'
import doctest, sys, keel
names = {"sample": "script.journal.parquet", "folder": "tried/results"}
found = doctest.testmod(keel, extraglobs=names)
sys.exit(found.failed or found.attempted < 5)
PYTHON
}
errors() { # an error is a sentence, not a traceback of the programs
    ! "$python" -m keel record >error 2>&1 && grep 'name a script' error &&
        "$python" -c '
import keel
try: keel.Results(".").percentiles("arrow")
except RuntimeError as error: assert str(error).startswith("keel: "), error'
}
upgrades() {
    KEEL_VERSION=$VERSION.post1 "$root/packaging/wheel.py" "$out" &&
        env/bin/pip install --quiet --no-index "${wheel/$VERSION/$VERSION.post1}" &&
        rm "${wheel/$VERSION/$VERSION.post1}" &&
        "$python" -c "import keel; assert keel.__version__ == '$VERSION.post1'" &&
        env/bin/keel --version
}
removed() {
    env/bin/pip uninstall --quiet --yes keel-lab &&
        [ -z "$(find env -path '*keel*' ! -name '*.pyc' ! -type d)" ]
}
names_functions() { # in a Debian root with Python 3.13
    "$root/scripts/root.sh" copy trixie "$work/trixie" python3 python3-venv &&
        cp "$wheel" script.py "$work/trixie/root" &&
        "$root/scripts/root.sh" run "$work/trixie" bash -c '
            cd && python3 -m venv env && env/bin/pip install --quiet --no-index ./keel_lab-*.whl &&
            env/bin/python -m keel record script.py &&
            env/bin/python -m keel blame script.journal.parquet | tee /dev/stderr | grep make_rows'
}

insight all
step "python -m keel record sees Python's objects" sees_objects
step "it names Python's functions, or says why not" says_no_names
step "auditwheel: the policy of the tag" tagged
step "auditwheel: the libraries have that of manylinux2014" libraries_tagged
step "errors are sentences" errors
step "data frames install" env/bin/pip install --quiet polars pandas pyarrow mypy
step "frames of polars, pandas and arrow" engines
step "doctests" doctests
step "types" env/bin/mypy --strict --ignore-missing-imports -p keel
step "upgrade" upgrades
step "remove" removed
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null; then
    step "Python 3.13 of Debian 13: names of functions" names_functions
fi
finish "Python wheel" "$wheel" pip
