# needs: ffmpeg
# debian: ffmpeg
# about: encodes and decodes mpeg4, H.264, FFV1, FLAC and PNG, with filters and threads
# stresses: frames of some hundred KB that pass between threads
# not shown: small blocks: they are few beside the arithmetic
source "$SUPPORT"
run() { ffmpeg -hide_banner -nostdin -loglevel error "$@"; }
video='testsrc2=size=640x360:rate=25:duration=6' sound='sine=frequency=440:duration=6:sample_rate=44100'
run -f lavfi -i "$video" -f lavfi -i "$sound" -c:v mpeg4 -q:v 4 -threads 2 -c:a flac -bitexact -y a.mkv
run -f lavfi -i "$video" -c:v libx264 -preset fast -x264-params threads=2:lookahead-threads=1 -bitexact -y b.mp4
sha256sum <a.mkv
sha256sum <b.mp4
run -i a.mkv -f framemd5 - | sha256sum
run -threads 2 -i b.mp4 -vf 'scale=320:180,hue=s=0,split[x][y];[x]hflip[z];[z][y]hstack' -f framemd5 - | sha256sum
run -i a.mkv -vn -af 'aresample=22050,atempo=1.3,volume=0.5' -c:a pcm_s16le -bitexact -f wav - | sha256sum
run -i b.mp4 -vf fps=5 -c:v png -bitexact frame%03d.png
cat frame*.png | sha256sum
run -framerate 5 -i frame%03d.png -c:v ffv1 -bitexact -y c.mkv
sha256sum <c.mkv
