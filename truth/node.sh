# SPDX-License-Identifier: GPL-2.0-or-later
# An HTTP server and its client, each of them a Node.js process with one event loop.

. "$(dirname "$0")/lib.sh"

names="node"
port=5995
check() { needs node taskset; }
prepare() {
    taskset -c "$TRUTH_CPUS" node -e "require('http').createServer((_, answer) => answer.end('x')).listen($port, '127.0.0.1')" &
    echo $! > /tmp/wakelab-truth-node
    sleep 0.5
}
run() { exec node "$(dirname "$0")/ask.js" $port 2000; }
finish() {
    kill "$(cat /tmp/wakelab-truth-node)"
    rm -f /tmp/wakelab-truth-node
}

"$1"
