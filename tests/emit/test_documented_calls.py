"""The Neuron scripts do, call for call, what diffusers' page on AWS Trainium shows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROCESS_GROUP = [
    "dist.init_process_group(backend='neuron', timeout=timedelta(seconds=3600))",
    "torch.neuron.current_device()",
    "DeviceMesh('neuron', list(range(WORLD_SIZE)), mesh_dim_names=('tp',))",
    "dist.get_rank()",
    "dist.barrier()",
]
SHARDED_LOAD = [
    "TensorParallelConfig(mesh=mesh)",
    "Flux2Transformer2DModel.from_pretrained(args.checkpoint, subfolder='transformer', dtype=dtype, "
    "parallel_config=TensorParallelConfig(mesh=mesh))",
    "Flux2KleinPipeline.from_pretrained(args.checkpoint, transformer=transformer, dtype=dtype)",
    "pipe.text_encoder.to(device)",
    "pipe.vae.to(device)",
]
PLAIN_LOAD = [
    "torch.neuron.current_device()",
    "Flux2KleinPipeline.from_pretrained(args.checkpoint, dtype=dtype)",
    "pipe.to(device)",
]
COMPILE = ["pipe.transformer.compile(backend='neuron', fullgraph=True, dynamic=False)"]
BLOCKS = ["pipe.transformer.compile_repeated_blocks(backend='neuron', fullgraph=True, dynamic=False)"]
WARM_UP = ["generate(pipe, {**warm_request, 'num_inference_steps': 1}, args.seed)"]


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ("eager", [*PLAIN_LOAD, *WARM_UP]),
        ("compiled", [*PLAIN_LOAD, *COMPILE, *WARM_UP]),
        ("blocks", [*PLAIN_LOAD, *BLOCKS, *WARM_UP]),
        ("tp8", [*PROCESS_GROUP, *SHARDED_LOAD, *WARM_UP, "dist.destroy_process_group()"]),
        ("tp8_compiled", [*PROCESS_GROUP, *SHARDED_LOAD, *COMPILE, *WARM_UP, "dist.destroy_process_group()"]),
    ],
)
def test_a_neuron_script_makes_the_documented_calls(root: Path, script: str, calls: list[str]) -> None:
    """Device, process group, mesh, sharded load, compile flags and warm-up are the documented ones."""
    tree = ast.parse((root / "generated/flux2" / f"{script}.py").read_text(encoding="utf-8"))
    made = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not [call for call in calls if call not in made]


def test_eight_ranks_are_started_by_torchrun(root: Path) -> None:
    """The launch command of tp8 starts one process a NeuronCore and passes its options on."""
    command = (root / "generated/flux2/tp8.sh").read_text(encoding="utf-8").splitlines()[-1]
    assert command == 'exec torchrun --standalone --nproc_per_node=8 "$(dirname -- "$0")/tp8.py" "$@"'


def test_torch_neuronx_is_imported_only_where_autoload_is_off(root: Path) -> None:
    """TorchNeuron registers itself; a script imports it only when TORCH_DEVICE_BACKEND_AUTOLOAD is 0."""
    tree = ast.parse((root / "generated/flux2/tp8.py").read_text(encoding="utf-8"))
    guards = [node for node in tree.body if isinstance(node, ast.If) and "torch_neuronx" in ast.unparse(node)]
    assert [ast.unparse(guard.test) for guard in guards] == ["os.environ.get('TORCH_DEVICE_BACKEND_AUTOLOAD') == '0'"]
    assert "import torch_neuronx" not in [ast.unparse(node) for node in tree.body]


def test_the_neuron_compile_flags_never_ask_for_dynamic_shapes(root: Path) -> None:
    """No generated Neuron script compiles with dynamic=True."""
    for path in sorted((root / "generated").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert not ('backend="neuron"' in text and "dynamic=True" in text), path
