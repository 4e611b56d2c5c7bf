# needs: xz zstd gzip tar
# debian: xz-utils zstd
# about: xz, zstd, gzip and tar pack and unpack a text, some with threads
# stresses: large buffers: mappings and page faults
# not shown: small blocks: there are few
source "$SUPPORT"
words 90000 21 >text
# work:
source "$SUPPORT"
xz -T2 -4 --block-size=2MiB -k text
xz -dc -T2 text.xz | sha256sum
zstd -q -T2 -9 text -o text.zst
zstd -q -T2 -13 --long=24 text -o long.zst
sha256sum <text.xz
sha256sum <text.zst
zstd -dc text.zst | sha256sum
zstd -dc --long=24 long.zst | sha256sum
tar --mtime=@0 -cf - text | gzip -9 | gzip -d | sha256sum
zstd -q -b1 -e3 -i0 text >/dev/null 2>&1 && echo benchmarked
