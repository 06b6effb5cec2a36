# SPDX-License-Identifier: GPL-2.0-or-later
# An nginx server with two workers, and eight connections of one client that fetch a page of 4 kB.

. "$(dirname "$0")/lib.sh"

names="nginx ab"
folder=/tmp/wakelab-truth-nginx
port=5996
check() { needs nginx ab taskset; }
prepare() {
    rm -rf "$folder"
    mkdir "$folder"
    head -c 4000 /dev/zero > "$folder/page.html"
    cat > "$folder/conf" <<EOF
user root;
worker_processes 2;
pid $folder/pid;
error_log $folder/errors;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:$port; root $folder; } }
EOF
    taskset -c "$TRUTH_CPUS" nginx -c "$folder/conf"
    sleep 0.3
    ab -q -k -n 500 -c 8 http://127.0.0.1:$port/page.html > /dev/null
}
run() { exec ab -q -k -n 10000 -c 8 http://127.0.0.1:$port/page.html > /dev/null; }
finish() {
    kill "$(cat "$folder/pid")"
    sleep 0.2
    rm -rf "$folder"
}

"$1"
