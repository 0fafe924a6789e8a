"""Instance types: what one rank gets of them. A figure that was not seen in its maker's own pages says UNCONFIRMED."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

DEFAULT_LNC = 2
"""Physical cores a logical core where nothing is said. logical-neuroncore-config.rst, aws-neuron-sdk@81ce03ae."""


@dataclass(frozen=True, kw_only=True)
class Chip:
    """An accelerator, and how it is shared out to ranks."""

    name: str
    """What people call it."""
    device: str | None
    """The plan's word for what runs on it; None: nothing that planc writes scripts for."""
    units: Mapping[int, int]
    """Units that a rank runs on, a chip, by physical cores a logical core; a GPU has 1 whatever is asked."""
    memory: Mapping[int, float]
    """GiB of memory that one unit can have at most, likewise."""
    refusal: str = ""
    """Why `device` is None."""
    source: str
    """Where these facts were seen."""


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A machine with several equal chips."""

    name: str
    """The instance type."""
    chip: Chip
    """What its chips are."""
    chips: int
    """How many there are."""
    source: str
    """Where this was seen."""

    def runs(self, device: str) -> bool:
        """Whether a target of that device runs here; every machine has a host."""
        return device in ("cpu", self.chip.device)

    def units(self, lnc: int | None) -> int:
        """How many ranks it can run, one a unit."""
        return self.chips * self.chip.units[lnc or DEFAULT_LNC]

    def memory(self, lnc: int | None, world_size: int) -> float:
        """GiB that one rank's unit can have at most; a bank that two ranks share is halved."""
        whole = self.chip.memory[lnc or DEFAULT_LNC]
        is_shared = self.chip.device == "neuron" and lnc == 1 and world_size > 1
        return whole / 2 if is_shared else whole


_SDK = "aws-neuron/aws-neuron-sdk@81ce03ae, about-neuron/arch"
_NO_TORCHNEURON = "TorchNeuron is for Trainium2 and Trainium3 (AWS Neuron docs torch/index.html, 2026-10)"
_ALIKE = {1: 1, 2: 1}

TRAINIUM1 = Chip(
    name="Trainium1",
    device=None,
    units={1: 2, 2: 2},
    memory={1: 16.0, 2: 16.0},
    refusal=_NO_TORCHNEURON,
    source=f"{_SDK}: trainium.rst, 32 GiB and 2 cores a chip",
)
INFERENTIA2 = Chip(
    name="Inferentia2",
    device=None,
    units={1: 2, 2: 2},
    memory={1: 16.0, 2: 16.0},
    refusal=_NO_TORCHNEURON,
    source=f"{_SDK}: inf2-arch.rst, 32 GiB and 2 cores a chip",
)
TRAINIUM2 = Chip(
    name="Trainium2",
    device="neuron",
    units={1: 8, 2: 4},
    # Four banks of 24 GiB a chip, each shared by two physical cores: a logical core of two has a bank for itself.
    memory={1: 24.0, 2: 24.0},
    source=f"{_SDK}: trainium2.rst, logical-neuroncore-config.rst; 24 GiB before the runtime's own: docs training/best-practices.html",
)


def _gpu(name: str, gib: float) -> Chip:
    # The number in a product's name bounds its GiB from above.
    return Chip(
        name=name,
        device="cuda",
        units=_ALIKE,
        memory={1: gib, 2: gib},
        source="memory as in the product's name; what a driver reports is a little less",
    )


A100_40 = _gpu("A100 40 GB", 40.0)
A100_80 = _gpu("A100 80 GB", 80.0)
H100 = _gpu("H100", 80.0)
H200 = _gpu("H200", 141.0)

_TRN1 = f"{_SDK}: trn1-arch.rst"
_INF2 = f"{_SDK}: inf2-arch.rst"
_TRN2 = f"{_SDK}: trn2-arch.rst"
_EC2 = "tables of GPU counts in public repositories, which agree; AWS's own page was not seen: UNCONFIRMED"

_ROWS = (
    Instance(name="trn1.2xlarge", chip=TRAINIUM1, chips=1, source=_TRN1),
    Instance(name="trn1.32xlarge", chip=TRAINIUM1, chips=16, source=_TRN1),
    Instance(name="trn1n.32xlarge", chip=TRAINIUM1, chips=16, source=_TRN1),
    Instance(name="inf2.xlarge", chip=INFERENTIA2, chips=1, source=_INF2),
    Instance(name="inf2.8xlarge", chip=INFERENTIA2, chips=1, source=_INF2),
    Instance(name="inf2.24xlarge", chip=INFERENTIA2, chips=6, source=_INF2),
    Instance(name="inf2.48xlarge", chip=INFERENTIA2, chips=12, source=_INF2),
    Instance(name="trn2.3xlarge", chip=TRAINIUM2, chips=1, source="ai-dynamo/nixl PR #1994"),
    Instance(name="trn2.48xlarge", chip=TRAINIUM2, chips=16, source=_TRN2),
    Instance(name="trn2u.48xlarge", chip=TRAINIUM2, chips=16, source=_TRN2),
    Instance(name="p4d.24xlarge", chip=A100_40, chips=8, source=_EC2),
    Instance(name="p4de.24xlarge", chip=A100_80, chips=8, source=_EC2),
    Instance(name="p5.48xlarge", chip=H100, chips=8, source=_EC2),
    Instance(name="p5e.48xlarge", chip=H200, chips=8, source=_EC2),
    Instance(name="p5en.48xlarge", chip=H200, chips=8, source=_EC2),
)

INSTANCES: Mapping[str, Instance] = MappingProxyType({row.name: row for row in _ROWS})
"""The instance types that planc knows. No EC2 name of a Trainium3 machine was seen."""
