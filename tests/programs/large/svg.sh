# needs: rsvg-convert inkscape
# debian: librsvg2-bin inkscape
# about: librsvg and inkscape draw and convert a picture of 2,500 paths
# stresses: small blocks of trees and paths, and pictures of some MB
# not shown: threads: there are few
source "$SUPPORT"
awk 'BEGIN { print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"600\"><defs><filter id=\"f\"><feGaussianBlur stdDeviation=\"3\"/></filter>"
    print "<linearGradient id=\"l\"><stop offset=\"0\" stop-color=\"red\"/><stop offset=\"1\" stop-color=\"blue\"/></linearGradient></defs>"
    for (i = 0; i < 2500; i++) { x = i * 7919 % 600; y = i * 104729 % 600
        printf "<g transform=\"rotate(%d %d %d)\"><path d=\"M%d %d q 20 30 40 0 t 20 -9 z\" fill=\"url(#l)\" stroke=\"#%06x\" opacity=\"0.%d\"/>", i, x, y, x, y, i * 999983 % 16777216, i % 9 + 1
        if (i % 50 == 0) printf "<circle cx=\"%d\" cy=\"%d\" r=\"20\" filter=\"url(#f)\"/><text x=\"%d\" y=\"%d\">text %d</text>", x, y, x, y, i
        print "</g>" } print "</svg>" }' >image.svg
# work:
source "$SUPPORT"
rsvg-convert image.svg | sha256sum
rsvg-convert -z 2 -f svg image.svg | wc -l
inkscape --export-type=png --export-filename=a.png --export-dpi=60 image.svg 2>/dev/null
sha256sum <a.png
inkscape --export-plain-svg --export-filename=b.svg --actions='select-all;object-to-path' image.svg 2>/dev/null
sha256sum <b.svg
inkscape --query-all image.svg 2>/dev/null | sha256sum
