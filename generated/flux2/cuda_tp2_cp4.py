"""Flux2KleinPipeline on 8 GPUs, tensor parallel, context parallel, compiled.

Written by planc from the target `cuda-tp2-cp4` of flux2.yaml:
change the plan and build it again.

    torchrun --standalone --nproc_per_node=8 cuda_tp2_cp4.py --prompt "a lighthouse at dusk"

Each rank holds 3.68 GB of sharded weights, and 0.39 GB of the transformer whole.
"""

import argparse
import os
import sys
import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from diffusers import (
    ContextParallelConfig,
    Flux2KleinPipeline,
    Flux2Transformer2DModel,
    TensorParallelConfig,
)
from diffusers.utils import logging as diffusers_logging
from PIL import Image
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from transformers.utils import logging as transformers_logging

CHECKPOINT = "black-forest-labs/FLUX.2-klein-4B"
WORLD_SIZE = 8
# Static shapes: one compiled graph each.
SHAPES: list[dict[str, int]] = [
    {"height": 1024, "width": 1024, "max_sequence_length": 512},
]
FILE_TYPES = (".png", ".jpg", ".webp", ".npy")


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
    parser.add_argument("--num-inference-steps", type=int, default=4)
    # The first shape that has all that is asked for is taken.
    parser.add_argument("--height", type=int)
    parser.add_argument("--width", type=int)
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
        default=Path("flux2-cuda-tp2-cp4.png"),
        help="image file, or .npy for the float array",
    )
    args = parser.parse_args()
    if args.output.suffix not in FILE_TYPES:
        fail(f"--output {args.output} must end in one of {', '.join(FILE_TYPES)}")
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
        Flux2KleinPipeline.download(checkpoint)


def load(args: argparse.Namespace, device: Any, mesh: DeviceMesh) -> Any:
    """Load the pipeline and place its components."""
    dtype = getattr(torch, args.dtype)
    # Each rank reads only its own slice of the planned weights.
    transformer = Flux2Transformer2DModel.from_pretrained(
        args.checkpoint,
        subfolder="transformer",
        dtype=dtype,
        parallel_config=TensorParallelConfig(mesh=mesh["tp"]),
    )
    pipe = Flux2KleinPipeline.from_pretrained(
        args.checkpoint,
        transformer=transformer,
        dtype=dtype,
    )
    pipe.text_encoder.to(device)
    pipe.vae.to(device)
    # The weights are shared out; that the sequence is too, diffusers refuses to a model
    # which still bears the mark of the first.
    pipe.transformer._parallel_config = None
    pipe.transformer.enable_parallelism(
        config=ContextParallelConfig(ulysses_degree=4, mesh=mesh["ring", "ulysses"]),
    )
    return pipe


def request(
    prompt: str, shape: dict[str, int], args: argparse.Namespace
) -> dict[str, Any]:
    """Keywords of the pipeline's call for one prompt."""
    return {
        "prompt": prompt,
        "num_inference_steps": args.num_inference_steps,
        **shape,
    }


def generate(pipe: Any, keywords: dict[str, Any], seed: int) -> tuple[Any, list[float]]:
    """Run the pipeline once.

    Returns the images as floats from 0 to 1, (batch, height, width, channels), and
    the seconds of each step; the first includes the text encoder.
    """
    marks = [time.perf_counter()]

    def mark(_: Any, step: int, timestep: Any, tensors: Any) -> Any:
        torch.cuda.synchronize()
        marks.append(time.perf_counter())
        return tensors

    images = pipe(
        **keywords,
        generator=torch.Generator().manual_seed(seed),
        callback_on_step_end=mark,
        output_type="np",
    ).images
    return images, [after - before for before, after in pairwise(marks)]


def save(images: Any, path: Path) -> None:
    """Write the float array to a .npy file, or each image to a file of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, images)
        print(f"saved {path}")
        return
    for index, image in enumerate(images):
        file = path if len(images) == 1 else path.with_stem(f"{path.stem}-{index}")
        Image.fromarray((image * 255).round().astype(np.uint8)).save(file)
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
            "start one process a rank: torchrun --standalone --nproc_per_node=8 cuda_tp2_cp4.py",
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
    mesh = init_device_mesh("cuda", (1, 4, 2), mesh_dim_names=("ring", "ulysses", "tp"))
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

    # Warm up: compile a graph for every declared shape.
    for warm in SHAPES if shape in SHAPES else [shape]:
        start = time.perf_counter()
        warm_request = request(prompts[0], warm, args)
        generate(pipe, {**warm_request, "num_inference_steps": 1}, args.seed)
        if rank == 0:
            print(f"warmed up {warm} in {time.perf_counter() - start:.1f} s")

    images, steps = [], []
    for prompt in prompts:
        keywords = request(prompt, shape, args)
        made, seconds = generate(pipe, keywords, args.seed)
        images.append(made)
        steps += seconds
    if rank == 0:
        save(np.concatenate(images), args.output)
        report(steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
