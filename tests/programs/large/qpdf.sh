# needs: qpdf gs pdftotext pdftoppm
# debian: qpdf ghostscript poppler-utils
# about: splits and merges a PDF of 100 pages
# stresses: one small block for each PDF object
# not shown: threads: there is one
source "$SUPPORT"
{
    printf '%%!PS\n/Times-Roman findfont 11 scalefont setfont\n'
    words 6000 8 | awk '{ gsub(/[()\\]/, ""); printf "30 %d moveto (%s) show\n", 800 - NR % 60 * 13, $0; if (NR % 60 == 59) print "showpage" }'
} >input.ps
gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=pdfwrite -o input.pdf input.ps
# work:
source "$SUPPORT"
qpdf --deterministic-id --object-streams=generate --recompress-flate --compression-level=9 input.pdf a.pdf
qpdf --deterministic-id --qdf --object-streams=disable input.pdf b.pdf
qpdf --deterministic-id --linearize --pages input.pdf 1-50 a.pdf z-1 -- input.pdf c.pdf
for i in $(seq 1 12); do qpdf --deterministic-id --empty --pages c.pdf "$i-$((i * 8))" -- "part$i.pdf"; done
cat a.pdf b.pdf c.pdf part*.pdf | sha256sum
qpdf --check c.pdf | tail -n 1
qpdf --json c.pdf | sha256sum
pdftotext -layout c.pdf - | sha256sum
pdftoppm -r 30 -l 60 c.pdf | sha256sum
