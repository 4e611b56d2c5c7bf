# needs: doxygen
# debian: doxygen
# about: documentation of 30 files as HTML, LaTeX and XML
# stresses: strings and trees of small blocks, in two threads
# not shown: large blocks
source "$SUPPORT"
mkdir source
for i in $(seq 1 30); do templates $((i * 5)) | sed "s/struct \(T[0-9]*\)/\/** Class \1 of part $i. *\/ namespace part$i { struct \1/; s/return s + Chain.*; } };/& }/" >"source/f$i.cpp"; done
cat >Doxyfile <<'DOX'
PROJECT_NAME = work
INPUT = source
EXTRACT_ALL = YES
SOURCE_BROWSER = YES
REFERENCED_BY_RELATION = YES
GENERATE_LATEX = YES
GENERATE_XML = YES
HAVE_DOT = NO
QUIET = YES
WARNINGS = NO
TIMESTAMP = NO
HTML_TIMESTAMP = NO
NUM_PROC_THREADS = 1
DOX
# work:
source "$SUPPORT"
doxygen >log 2>&1
find html latex xml -type f | wc -l
cat xml/*.xml | sha256sum
find html -name '*.html' | sort | xargs cat | sed '/Generated/d' | sha256sum
