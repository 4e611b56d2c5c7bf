# needs: gs
# debian: ghostscript
# about: PostScript to PDF, text and pictures
# stresses: chunks of some KB that the interpreter cuts itself
# not shown: small blocks: its own pools hide them
source "$SUPPORT"
{
    printf '%%!PS\n/Times-Roman findfont 11 scalefont setfont\n'
    words 1800 8 | awk '{ gsub(/[()\\]/, ""); y = 800 - NR % 60 * 13; printf "30 %d moveto (%s) show\n", y, $0
        if (NR % 12 == 0) printf "gsave %d %d translate %d rotate 0 0 120 0 360 arc 0.%d 0.5 0.3 setrgbcolor stroke grestore\n", NR % 500, y, NR, NR % 9
        if (NR % 60 == 59) print "showpage" }'
    printf '/table 20000 dict def 0 1 19999 { dup dup 10 string cvs cvn exch table 3 1 roll put } for\n'
    printf '0 table { exch pop add } forall 10 string cvs 30 30 moveto show showpage\n'
} >input.ps
# work:
source "$SUPPORT"
ghost() { gs -q -dNOPAUSE -dBATCH -dSAFER "$@"; }
ghost -sDEVICE=pdfwrite -o out.pdf input.ps
ghost -sDEVICE=ppmraw -r50 -o - input.ps | sha256sum
ghost -sDEVICE=pnggray -dTextAlphaBits=4 -dGraphicsAlphaBits=4 -r60 -o page%02d.png out.pdf
cat page*.png | sha256sum
ghost -sDEVICE=txtwrite -o - out.pdf | sha256sum
ghost -sDEVICE=ps2write -o again.ps out.pdf
ghost -sDEVICE=bbox -o - again.ps 2>&1 | sha256sum
ghost -dNODISPLAY -c '0 1 200000 { dup 2 array astore pop 100 string pop } for (done) = quit' 2>&1 | tail -n 1
