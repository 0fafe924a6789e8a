"""WanPipeline on 8 GPUs, context parallel, compiled.

Written by planc from the target `cuda-cp8` of wan2-2.yaml:
change the plan and build it again.

    torchrun --standalone --nproc_per_node=8 cuda_cp8.py --prompt "a lighthouse at dusk"
"""

import argparse
import os
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
from diffusers import ContextParallelConfig, WanPipeline
from diffusers.utils import export_to_gif, export_to_video
from diffusers.utils import logging as diffusers_logging
from PIL import Image
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from transformers.utils import logging as transformers_logging

CHECKPOINT = "Wan-AI/Wan2.2-T2V-A14B-Diffusers"
WORLD_SIZE = 8
# Static shapes: one compiled graph each.
SHAPES: list[dict[str, int]] = [
    {"height": 480, "width": 832, "num_frames": 81, "max_sequence_length": 512},
]
FILE_TYPES = (".mp4", ".gif", ".npy")
FRAMES_PER_SECOND = 16


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
        default="static, blurred, low quality",
    )
    parser.add_argument("--num-inference-steps", type=int, default=40)
    parser.add_argument("--guidance-scale", type=float, default=4.0)
    parser.add_argument("--guidance-scale-2", type=float, default=3.0)
    # The first shape that has all that is asked for is taken.
    parser.add_argument("--height", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--num-frames", type=int)
    parser.add_argument("--max-sequence-length", type=int)
    parser.add_argument(
        "--allow-new-shape",
        action="store_true",
        help="compile one more graph for a size that the plan does not declare",
    )
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
        default=Path("wan2-2-cuda-cp8.mp4"),
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
    if not args.allow_new_shape:
        fail(f"no declared shape has {asked}: {SHAPES} (or use --allow-new-shape)")
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


def fetch(checkpoint: str) -> None:
    """Download the checkpoint into the cache of the Hugging Face hub."""
    if not Path(checkpoint).is_dir():
        WanPipeline.download(checkpoint)


def load(args: argparse.Namespace, device: Any, mesh: DeviceMesh) -> Any:
    """Load the pipeline and place its components."""
    dtype = getattr(torch, args.dtype)
    pipe = WanPipeline.from_pretrained(
        args.checkpoint,
        dtype={"default": dtype, "vae": torch.float32},
    )
    pipe.to(device)
    for denoiser in (pipe.transformer, pipe.transformer_2):
        denoiser.enable_parallelism(
            config=ContextParallelConfig(ulysses_degree=8, mesh=mesh),
        )

    # The latents arrive in the transformer's data type; the VAE has its own.
    decode = pipe.vae.decode

    def cast_and_decode(latents: Any, *args: Any, **kwargs: Any) -> Any:
        return decode(latents.to(pipe.vae.dtype), *args, **kwargs)

    pipe.vae.decode = cast_and_decode
    return pipe


def request(
    prompt: str, shape: dict[str, int], args: argparse.Namespace
) -> dict[str, Any]:
    """Keywords of the pipeline's call for one prompt."""
    return {
        "prompt": prompt,
        "negative_prompt": args.negative_prompt,
        "num_inference_steps": args.num_inference_steps,
        "guidance_scale": args.guidance_scale,
        "guidance_scale_2": args.guidance_scale_2,
        **shape,
    }


def generate(pipe: Any, keywords: dict[str, Any], seed: int) -> tuple[Any, list[float]]:
    """Run the pipeline once.

    Returns the videos as floats from 0 to 1, (batch, frames, height, width, channels),
    and the seconds of each step; the first includes the text encoder.
    """
    marks = [time.perf_counter()]

    def mark(_: Any, step: int, timestep: Any, tensors: Any) -> Any:
        torch.cuda.synchronize()
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
    peak = torch.cuda.max_memory_allocated()
    print(
        f"{len(steps)} steps, {median(steps):.3f} s a step (median); "
        f"peak GPU memory {peak / 2**30:.2f} GiB"
    )


def main() -> None:
    """Load, compile, warm up, run and save."""
    args = parse_args()
    shape, prompts = chosen_shape(args), read_prompts(args)
    if os.environ.get("WORLD_SIZE") != str(WORLD_SIZE):
        fail(
            "start one process a rank: torchrun --standalone --nproc_per_node=8 cuda_cp8.py",
        )

    # The process group, this rank's device, and the mesh.
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group(
        backend="nccl",
        timeout=timedelta(seconds=3600),
        device_id=device,
    )
    rank = dist.get_rank()
    mesh = init_device_mesh("cuda", (1, 8), mesh_dim_names=("ring", "ulysses"))
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
    pipe.transformer.compile(backend="inductor", fullgraph=True, dynamic=False)
    pipe.transformer_2.compile(backend="inductor", fullgraph=True, dynamic=False)

    # Warm up: compile every declared shape; in 4 steps each denoiser has its turn.
    for warm in SHAPES if shape in SHAPES else [shape]:
        start = time.perf_counter()
        warm_request = request(prompts[0], warm, args)
        generate(pipe, {**warm_request, "num_inference_steps": 4}, args.seed)
        if rank == 0:
            print(f"warmed up {warm} in {time.perf_counter() - start:.1f} s")

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
