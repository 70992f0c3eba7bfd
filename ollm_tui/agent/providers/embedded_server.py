"""llama.cpp as a process of its own: MODEL WINDOW THREADS, the key on stdin; prints its address, ends with stdin."""

from __future__ import annotations

import os
import sys

CACHE_MIB = 256
"""Prompts that are kept in memory; without a bound they took over a gigabyte in an hour."""


def main(model: str, window: int, threads: int) -> None:
    """Serve a model on loopback until stdin ends, as it does with the process that started it."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [sys.stdin.readline().strip()]
    params.n_ctx = window
    params.n_parallel = 1
    # with a thread for each processor a busy machine makes it twenty times as slow
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = CACHE_MIB
    params.use_jinja = True
    params.ui = params.endpoint_slots = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
