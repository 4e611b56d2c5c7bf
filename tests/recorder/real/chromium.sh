# optional: chromium
# A browser of many processes in its sandboxes. Its own malloc is its own; what comes by the C library's is recorded.
cat >page.html <<'HTML'
<title>page</title><body><script>
let text = "";
for (let i = 0; i < 20000; i++) text += String.fromCharCode(97 + i * 7 % 26);
document.body.textContent = text.length + " " + [...text].sort().join("").slice(9990, 10010);
</script>
HTML
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/page.html" 2>/dev/null
