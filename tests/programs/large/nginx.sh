# needs: nginx ab curl
# debian: nginx-light apache2-utils curl
# about: a proxy with cache and gzip, 16,000 requests, restarts of its workers
# stresses: pools of a few KB for each request
# not shown: small blocks: the pools hide them
source "$SUPPORT"
mkdir files
for i in $(seq 1 40); do words $((i * 40)) "$i" >"files/f$i.txt"; done
cat >nginx.conf <<'CONF'
worker_processes 2;
pid nginx.pid;
error_log error.log info;
events { worker_connections 128; }
http {
    access_log access.log;
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
    gzip on; gzip_types *; gzip_min_length 1; gzip_comp_level 6; gzip_proxied any;
    proxy_cache_path cache keys_zone=cache:1m;
    upstream self { server unix:plain.sock; keepalive 4; }
    server { listen unix:plain.sock; root files; gzip off; autoindex on; ssi on; ssi_types *; }
    server {
        listen unix:front.sock;
        location / { proxy_pass http://self; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_cache cache; proxy_cache_valid 1m; }
        location /direct/ { rewrite ^/direct/(.*)$ /$1 break; root files; expires 1h; }
        location /words/ { add_header X-Long "$request_uri$request_uri$request_uri"; return 200 "$uri $args $http_user_agent\n"; }
    }
    server { listen 127.0.0.1:PORT; root files; }
}
CONF
# work:
source "$SUPPORT"
chmod -R a+rX . # its workers run as the user `nobody`
port=$(free_port)
sed -i "s/PORT/$port/; s|unix:|unix:$PWD/|" nginx.conf
mkdir cache
give cache
nginx -p "$PWD/" -c "$PWD/nginx.conf" -e error.log -g 'daemon off;' 2>start.log &
server=$!
trap 'kill -QUIT $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ -s nginx.pid ] && [ -S front.sock ] && break; sleep 0.1; done
preloaded "$(cat nginx.pid)"
chmod a+rwx ./*.sock
ask() { curl -s --fail --unix-socket "$PWD/front.sock" "$@"; }
for i in $(seq 1 40); do printf 'http://x/f%d.txt\n' "$i"; done >urls
for way in '' --compressed; do xargs curl -s --fail $way --unix-socket "$PWD/front.sock" <urls | sha256sum; done
sed 's|x/|x/direct/|' urls | xargs curl -s --fail --compressed --unix-socket "$PWD/front.sock" | sha256sum
ask -A agent "http://x/words/$(printf 'a%.0s' $(seq 900))?b=c" | sha256sum
ask -r 100-4000 http://x/direct/f30.txt | sha256sum
ask http://x/ | sed 's/ [0-9][0-9]-.*//' | sha256sum
curl -s -o /dev/null -w '%{http_code}\n' --unix-socket "$PWD/front.sock" http://x/none
ab -q -n 12000 -c 16 -k "http://127.0.0.1:$port/f3.txt" >ab.log
ab -q -n 4000 -c 16 "http://127.0.0.1:$port/f20.txt" >>ab.log
grep -e '^Complete requests' -e '^Failed requests' ab.log
kill -HUP $server # new workers, the old ones end
sleep 0.5
ask http://x/f7.txt | sha256sum
kill -QUIT $server
wait $server || true
wc -l <access.log
grep -c -e '\[alert\]' -e '\[emerg\]' error.log || true
