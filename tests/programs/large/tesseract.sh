# needs: tesseract gs
# debian: tesseract-ocr tesseract-ocr-eng ghostscript
# about: text recognition of a page
# stresses: matrices, and small blocks of C++ containers
# not shown: frees by other threads
source "$SUPPORT"
{
    printf '%%!PS\n/Times-Roman findfont 13 scalefont setfont\n'
    words 36 8 | awk '{ gsub(/[0-9-]+/, "some word"); printf "40 %d moveto (%s) show\n", 790 - NR * 20, $0 }'
    printf 'showpage\n'
} >page.ps
gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pnggray -r120 -sOutputFile=page.png page.ps
# work:
source "$SUPPORT"
OMP_THREAD_LIMIT=2 tesseract page.png - --psm 6 2>/dev/null | sha256sum
OMP_THREAD_LIMIT=1 tesseract page.png - --psm 6 tsv 2>/dev/null | cut -f 1-10,12 | sha256sum
