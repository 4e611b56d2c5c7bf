# needs: pdflatex
# debian: texlive-latex-base
# about: a paper in three passes
# stresses: one large array at the start
# not shown: small blocks: TeX manages its own memory
source "$SUPPORT"
{
    printf '%s\n' '\documentclass{article}\begin{document}\tableofcontents'
    words 3000 6 | awk '{ gsub(/[^a-z0-9 .]/, " ") } NR % 40 == 1 { printf "\\section{Part %d}\\label{s%d}\n", NR, NR }
        { print $0 " " } NR % 40 == 20 { printf "\n\\begin{equation}\\sum_{i=0}^{%d} \\frac{x_i^{%d}}{\\sqrt{1 + y_i}}\\end{equation}\nSee \\ref{s%d}.\\footnote{Note %d}\n", NR, NR % 9, NR - 19, NR }'
    printf '%s\n' '\end{document}'
} >paper.tex
# work:
source "$SUPPORT"
export SOURCE_DATE_EPOCH=0 FORCE_SOURCE_DATE=1
for _ in 1 2 3; do pdflatex -interaction=batchmode paper.tex >/dev/null; done
sha256sum <paper.pdf
wc -l <paper.toc
