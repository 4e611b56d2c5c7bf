# needs: chromium
# debian: chromium
# about: renders a page with a script and a canvas, headless
# stresses: the start of an allocator in many processes
# not shown: the browser's own objects: most are in its own allocator
# A browser of many processes. Most of its memory comes from its own allocator; its libraries use
# malloc.
source "$SUPPORT"
cat >page.html <<'HTML'
<title>page</title><body><canvas id="c" width="300" height="200"></canvas><div id="out"></div><script>
let text = "";
for (let i = 0; i < 200000; i++) text += String.fromCharCode(97 + i * 7 % 26);
const table = new Map();
for (let i = 0; i < 300000; i++) table.set("key" + i * 7919 % 20011, { i, list: [i, text.slice(i % 500, i % 700)] });
const drawing = document.getElementById("c").getContext("2d");
for (let i = 0; i < 500; i++) { drawing.fillStyle = "#" + (i * 7919 % 4096).toString(16).padStart(3, "0"); drawing.fillRect(i % 300, i % 200, 40, 30); drawing.fillText("text " + i, i % 280, i % 190); }
for (let i = 0; i < 3000; i++) { const e = document.createElement("p"); e.innerHTML = "<b>" + i + "</b> <i>line</i>"; document.getElementById("out").append(e); }
document.body.append(text.length + " " + [...text].sort().join("").slice(9990, 10010) + " " + table.size + " " + document.querySelectorAll("p b").length);
document.getElementById("out").remove();
</script>
HTML
# work:
source "$SUPPORT"
browser() {
    chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --user-data-dir="$PWD/profile" "$@" 2>>log
}
browser --dump-dom "file://$PWD/page.html"
browser --screenshot="$PWD/page.png" --window-size=600,400 "file://$PWD/page.html"
[ -s page.png ] && echo painted
