"""LTXPipeline on 2 processes, tensor parallel, eager.

Written by planc from the target `cpu` of ltx.yaml:
change the plan and build it again.

    torchrun --standalone --nproc_per_node=2 cpu.py --prompt "a lighthouse at dusk"

Each rank holds 0.94 GB of sharded weights, and 1.97 GB of the transformer whole. A CPU
mesh shows that the program is right, not how fast it is.
"""

import argparse
import os
import resource
import sys
import time
from datetime import timedelta
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from diffusers import LTXPipeline, LTXVideoTransformer3DModel, TensorParallelConfig
from diffusers.hooks import tensor_parallel
from diffusers.utils import export_to_gif, export_to_video
from diffusers.utils import logging as diffusers_logging
from PIL import Image
from torch.distributed.device_mesh import DeviceMesh
from transformers.utils import logging as transformers_logging

CHECKPOINT = "Lightricks/LTX-Video"
WORLD_SIZE = 2
SHAPES: list[dict[str, int]] = [
    {"height": 512, "width": 704, "num_frames": 161, "max_sequence_length": 128},
]
FILE_TYPES = (".mp4", ".gif", ".npy")
FRAMES_PER_SECOND = 25
TRANSFORMER_TP_PLAN: dict[str, Any] = {
    "transformer_blocks.*.ff.net.0.proj": "colwise",
    "transformer_blocks.*.ff.net.2": "rowwise",
}


def parse_args() -> argparse.Namespace:
    """Read the options; their defaults are the plan's."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument(
        "--prompt",
        default="a golden retriever surfing a wave, photorealistic",
    )
    prompts.add_argument("--prompt-file", type=Path, help="one prompt a line")
    parser.add_argument(
        "--negative-prompt",
        type=str,
        default="worst quality, inconsistent motion, blurry",
    )
    parser.add_argument("--num-inference-steps", type=int, default=50)
    parser.add_argument("--frame-rate", type=int, default=25)
    parser.add_argument("--guidance-scale", type=float, default=3.0)
    # The first shape that has all that is asked for is taken.
    parser.add_argument("--height", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--num-frames", type=int)
    parser.add_argument("--max-sequence-length", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", default=CHECKPOINT, help="hub id or folder")
    parser.add_argument(
        "--dtype",
        choices=("bfloat16", "float16", "float32"),
        default="bfloat16",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("ltx-cpu.mp4"),
        help="video file, or .npy for the float array",
    )
    parser.add_argument(
        "--fps",
        type=int,
        default=FRAMES_PER_SECOND,
        help="frames a second of the file",
    )
    args = parser.parse_args()
    if args.output.suffix not in FILE_TYPES:
        fail(f"--output {args.output} must end in one of {', '.join(FILE_TYPES)}")
    if args.output.suffix == ".mp4" and find_spec("imageio") is None:
        fail("a .mp4 file needs the packages imageio and imageio-ffmpeg; .gif does not")
    return args


def fail(message: str) -> NoReturn:
    """Stop; of all ranks only the first says why."""
    sys.exit(f"error: {message}" if os.environ.get("RANK", "0") == "0" else 1)


def chosen_shape(args: argparse.Namespace) -> dict[str, int]:
    """Keywords of the pipeline's call for the shape that was asked for."""
    options = {key: getattr(args, key) for key in SHAPES[0]}
    asked = {key: value for key, value in options.items() if value is not None}
    for shape in SHAPES:
        if asked.items() <= shape.items():
            return shape
    return {**SHAPES[0], **asked}


def read_prompts(args: argparse.Namespace) -> list[str]:
    """The prompts to run, one or a file of them."""
    if args.prompt_file is None:
        return [args.prompt]
    try:
        lines = args.prompt_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        fail(f"cannot read {args.prompt_file}: {error}")
    prompts = [line.strip() for line in lines if line.strip()]
    return prompts or fail(f"{args.prompt_file} holds no prompt")


def allow_cpu_mesh() -> None:
    """Let diffusers' parallel code, made for accelerators, run on CPU ranks.

    Seen in diffusers 0.42.1 and torch 2.13: a CPU mesh is refused by name, and the
    rank's device is computed from the number of accelerators.
    """
    hooks: Any = tensor_parallel
    core: Any = torch._C
    accelerator: Any = torch.accelerator
    hooks._SUPPORTED_TP_DEVICES = (*hooks._SUPPORTED_TP_DEVICES, "cpu")
    core._get_accelerator = lambda: torch.device("cpu")
    accelerator.device_count = lambda: 1


def fetch(checkpoint: str) -> None:
    """Download the checkpoint into the cache of the Hugging Face hub."""
    if not Path(checkpoint).is_dir():
        LTXPipeline.download(checkpoint)


def load(args: argparse.Namespace, device: Any, mesh: DeviceMesh) -> Any:
    """Load the pipeline and place its components."""
    dtype = getattr(torch, args.dtype)
    # Each rank reads only its own slice of the planned weights.
    LTXVideoTransformer3DModel._tp_plan = TRANSFORMER_TP_PLAN  # type: ignore[attr-defined]
    transformer = LTXVideoTransformer3DModel.from_pretrained(
        args.checkpoint,
        subfolder="transformer",
        dtype=dtype,
        parallel_config=TensorParallelConfig(mesh=mesh),
    )
    pipe = LTXPipeline.from_pretrained(
        args.checkpoint,
        transformer=transformer,
        dtype=dtype,
    )
    pipe.text_encoder.to(device)
    pipe.vae.to(device)
    return pipe


def request(
    prompt: str, shape: dict[str, int], args: argparse.Namespace
) -> dict[str, Any]:
    """Keywords of the pipeline's call for one prompt."""
    return {
        "prompt": prompt,
        "negative_prompt": args.negative_prompt,
        "num_inference_steps": args.num_inference_steps,
        "frame_rate": args.frame_rate,
        "guidance_scale": args.guidance_scale,
        **shape,
    }


def generate(pipe: Any, keywords: dict[str, Any], seed: int) -> tuple[Any, list[float]]:
    """Run the pipeline once.

    Returns the videos as floats from 0 to 1, (batch, frames, height, width, channels),
    and the seconds of each step; the first includes the text encoder.
    """
    marks = [time.perf_counter()]

    def mark(_: Any, step: int, timestep: Any, tensors: Any) -> Any:
        marks.append(time.perf_counter())
        return tensors

    videos = pipe(
        **keywords,
        generator=torch.Generator().manual_seed(seed),
        callback_on_step_end=mark,
        output_type="np",
    ).frames
    return videos, [after - before for before, after in pairwise(marks)]


def save(videos: Any, path: Path, fps: int) -> None:
    """Write the float array to a .npy file, or each video to a file of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, videos)
        print(f"saved {path}")
        return
    for index, video in enumerate(videos):
        file = path if len(videos) == 1 else path.with_stem(f"{path.stem}-{index}")
        if path.suffix == ".gif":
            frames = (video * 255).round().astype(np.uint8)
            export_to_gif([Image.fromarray(frame) for frame in frames], str(file), fps)
        else:
            export_to_video(list(video), str(file), fps=fps)
        print(f"saved {file}")


def report(steps: list[float]) -> None:
    """Print what a step took, and the peak memory."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB
    print(
        f"{len(steps)} steps, {median(steps):.3f} s a step (median); "
        f"peak host memory {peak / 2**30:.2f} GiB"
    )


def main() -> None:
    """Load, run and save."""
    args = parse_args()
    shape, prompts = chosen_shape(args), read_prompts(args)
    if os.environ.get("WORLD_SIZE") != str(WORLD_SIZE):
        fail(
            "start one process a rank: torchrun --standalone --nproc_per_node=2 cpu.py",
        )

    # The process group, this rank's device, and the mesh.
    allow_cpu_mesh()
    dist.init_process_group(backend="gloo", timeout=timedelta(seconds=3600))
    device = torch.device("cpu")
    rank = dist.get_rank()
    mesh = DeviceMesh("cpu", list(range(WORLD_SIZE)), mesh_dim_names=("tp",))
    if rank != 0:
        diffusers_logging.set_verbosity_error()
        diffusers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()

    # Rank 0 fetches the checkpoint; the others wait, and find it in the cache.
    if rank == 0:
        fetch(args.checkpoint)
    dist.barrier()
    pipe = load(args, device, mesh)
    pipe.set_progress_bar_config(disable=rank != 0)

    videos, steps = [], []
    for prompt in prompts:
        keywords = request(prompt, shape, args)
        made, seconds = generate(pipe, keywords, args.seed)
        videos.append(made)
        steps += seconds
    if rank == 0:
        save(np.concatenate(videos), args.output, args.fps)
        report(steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
