"""A llama.cpp server as a process of its own: `llama_child.py MODEL LONGEST_REPLY WINDOW`; prints its address."""

from __future__ import annotations

import os
import sys

import xllamacpp


def main(model: str, longest_reply: int, window: int) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = window
    params.n_parallel = 1
    params.n_predict = longest_reply
    # more threads than free cores slow it down twentyfold
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 32
    params.use_jinja = True
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    # ends with the process that started it, however that ends
    sys.stdin.read()
    os._exit(0)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
