# needs: soffice
# debian: libreoffice-calc-nogui libreoffice-writer-nogui
# about: a spreadsheet and a document converted between six formats
# stresses: small blocks of C++ containers in some threads
# not shown: the start: much of the time is loading of libraries
source "$SUPPORT"
awk 'BEGIN { print "id,name,price,sum"; for (i = 1; i <= 4000; i++) printf "%d,item %d,%.2f,=A%d*C%d+SQRT(A%d)\n", i, i * 7919 % 100003, i * 1.5, i + 1, i + 1, i + 1 }' >table.csv
{
    printf '<html><body><h1>Document</h1>\n'
    words 2500 5 | awk 'NR % 50 == 0 { printf "<h2>Part %d</h2><table border=1><tr><td>%s</td><td><b>%d</b></td></tr></table>\n", NR / 50, $2, NR } { print "<p>" $0 "</p>" }'
    printf '</body></html>\n'
} >text.html
# work:
source "$SUPPORT"
office() { soffice "-env:UserInstallation=file://$PWD/profile" --headless --norestore "$@" >>log 2>&1; }
office --convert-to ods table.csv
office --convert-to csv:'Text - txt - csv (StarCalc)':44,34,76 --outdir out table.ods
sha256sum <out/table.csv
tail -n 1 out/table.csv
office --convert-to odt:writer8 --writer text.html
office --convert-to txt:Text --outdir out text.odt
sha256sum <out/text.txt
office --convert-to docx --outdir out text.odt
office --convert-to pdf --outdir out text.odt
unzip -p out/text.docx word/document.xml | sed 's/rsid[A-Za-z]*="[^"]*"//g' | sha256sum
grep -a -c '/Type */Page$\|/Type/Page/' out/text.pdf
grep -a -o '/Count [0-9]*' out/text.pdf | sed -n 1p
