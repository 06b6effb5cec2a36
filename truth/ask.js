// SPDX-License-Identifier: GPL-2.0-or-later
// Asks an HTTP server for N pages, over four connections that stay open: node ask.js PORT N
const http = require('http');
const [port, pages] = process.argv.slice(2).map(Number);
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
let begun = 0;

function ask() {
    if (begun++ >= pages) return;
    http.get({ host: '127.0.0.1', port, agent }, answer => answer.resume().on('end', ask));
}

for (let connection = 0; connection < 4; connection++) ask();
