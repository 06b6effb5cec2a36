# SPDX-License-Identifier: GPL-2.0-or-later
# A Redis server, and 20 connections of one client that read.

. "$(dirname "$0")/lib.sh"

names="redis-server redis-benchmar*"
port=5997
check() { needs redis-server redis-benchmark redis-cli taskset; }
prepare() {
    taskset -c "$TRUTH_CPUS" redis-server --port $port --save "" --dir /tmp --daemonize yes > /dev/null
    sleep 0.5
    redis-benchmark -p $port -n 2000 -c 20 -t get -q > /dev/null
}
run() { exec redis-benchmark -p $port -n 30000 -c 20 -t get -q > /dev/null; }
finish() {
    redis-cli -p $port shutdown nosave
    sleep 0.2
}

"$1"
