"""Runs programs in forks of this one process, which has imported torch and diffusers and run no operation.

Importing them takes a core ten seconds; a fork of a process that has them, none. A request is a JSON line on standard
input, its answer a JSON line on standard output. Each rank gets the environment that torchrun would give it, and files
for its output; ranks that take longer than the request's timeout are killed.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

PRELOADED = {
    "diffusers": ("Flux2KleinPipeline", "Flux2Pipeline", "AutoencoderKLFlux2", "TensorParallelConfig"),
    "diffusers.hooks.tensor_parallel": ("apply_tensor_parallel",),
    "torch.distributed.tensor.parallel": ("parallelize_module",),
    "transformers": ("Qwen3ForCausalLM", "Mistral3ForConditionalGeneration", "PreTrainedTokenizerFast"),
    "PIL.Image": ("fromarray",),
    "planc.cli": ("main",),
}
TIMED_OUT = 124
"""Code of a rank that was killed, as the `timeout` of the coreutils has it."""


def preload() -> None:
    """Import what the programs will need, by name: diffusers and transformers import on first use."""
    for module, names in PRELOADED.items():
        imported = importlib.import_module(module)
        for name in names:
            getattr(imported, name)
    # A thousand regular expressions that every load of a text encoder would compile (transformers 5.24, cached).
    mapping = importlib.import_module("transformers.conversion_mapping")
    mapping.get_checkpoint_conversion_mapping("qwen3")


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def environment(request: dict[str, Any], rank: int, port: int) -> dict[str, str]:
    """What torchrun tells rank `rank`; nothing of it where the request is for a plain process."""
    if not request["ranks"]:
        return dict(request["env"])
    size = str(request["ranks"])
    told = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    return {**told, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **request["env"]}


def be_rank(request: dict[str, Any], rank: int, port: int) -> NoReturn:
    """Run the request's program as rank `rank`, and end this process as Python would."""
    for stream, name in ((1, "out"), (2, "err")):
        file = os.open(Path(request["logs"], f"{rank}.{name}"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["cwd"])
    os.environ.update(environment(request, rank, port))
    sys.argv = [request["program"], *request["arguments"]]
    code = 0
    try:
        if request["program"].endswith(".py"):
            runpy.run_path(request["program"], run_name="__main__")
        else:
            runpy.run_module(request["program"], run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def wait(pids: list[int], timeout: float) -> list[int]:
    """The ranks' exit codes; what still runs after `timeout` seconds is killed."""
    codes: dict[int, int] = {}
    end = time.monotonic() + timeout
    while len(codes) < len(pids):
        for pid in [pid for pid in pids if pid not in codes]:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                codes[pid] = TIMED_OUT
                continue
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                codes[pid] = os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return [codes[pid] for pid in pids]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run a request's ranks to their end."""
    port = free_port()
    pids = []
    for rank in range(max(request["ranks"], 1)):
        pid = os.fork()
        if pid == 0:
            be_rank(request, rank, port)
        pids.append(pid)
    return {"pids": pids, "codes": wait(pids, request["timeout"])}


def main() -> None:
    """Answer requests until standard input ends."""
    preload()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
