# SPDX-License-Identifier: GPL-2.0-or-later
"""A server process and four client processes over TCP on this machine; each client asks 1,500 times and waits."""

import os
import select
import socket

CLIENTS, QUESTIONS = 4, 1500

listener = socket.create_server(("127.0.0.1", 0))
for client in range(CLIENTS):
    if os.fork() == 0:
        with socket.create_connection(listener.getsockname()) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for question in range(QUESTIONS):
                server.sendall(b"q" * 64)
                server.recv(4096)
        os._exit(0)
poll = select.epoll()
connections = {}
for client in range(CLIENTS):
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connections[connection.fileno()] = connection
    poll.register(connection.fileno(), select.EPOLLIN)
while connections:
    for number, _ in poll.poll():
        question = connections[number].recv(4096)
        if question:
            sum(range(500))
            connections[number].sendall(b"a" * 256)
        else:
            poll.unregister(number)
            connections.pop(number).close()
for client in range(CLIENTS):
    os.wait()
