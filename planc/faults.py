"""The findings of every phase but the rules: codes, names and documentation. A rule carries its own.

Code ranges: P0 source, P1 schema, P2 device and execution, P3 tensor parallel, P4 context parallel, P5 compile and
shapes, P6 memory and cost, P7 launch and components, P8 emitted output, P9 proof. A code is never used again for
something else.
"""

from __future__ import annotations

from planc.diagnostics import Fault, Severity

MAX_BYTES = 1 << 20
"""The largest plan that is read, in bytes."""
MAX_DEPTH = 32
"""How deep values may be nested."""
MAX_NODES = 20_000
"""How many values a plan may have, aliases expanded."""

_PLAN = """
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager"""

UNREADABLE = Fault(
    "P001",
    "unreadable-file",
    Severity.ERROR,
    """
    What it does
        Reports a plan that cannot be read: it does not exist, is a folder without plans, or may not be opened.

    Why is this bad
        Nothing can be said of a plan that planc cannot see.
    """,
)
NOT_UTF8 = Fault(
    "P002",
    "not-utf8",
    Severity.ERROR,
    """
    What it does
        Reports bytes that are not UTF-8, and characters that YAML does not allow.

    Why is this bad
        A prompt in another encoding would reach the text encoder as other letters.
    """,
)
EMPTY_PLAN = Fault(
    "P003",
    "empty-plan",
    Severity.ERROR,
    """
    What it does
        Reports a file that holds no YAML value.

    Why is this bad
        A plan without targets builds nothing. `planc init` writes a first one.
    """,
)
SEVERAL_DOCUMENTS = Fault(
    "P004",
    "several-documents",
    Severity.ERROR,
    f"""
    What it does
        Reports a second document after `---` in one file.

    Why is this bad
        A plan is one file; a reader that takes only the first document would drop the rest silently.

    Example{_PLAN}
        ---  # error: P004
        version: 1

    Use instead{_PLAN}
    """,
)
TOO_LARGE = Fault(
    "P005",
    "too-large",
    Severity.ERROR,
    f"""
    What it does
        Reports a plan of more than {MAX_BYTES:,} bytes, or one whose aliases expand to more than {MAX_NODES:,} values.

    Why is this bad
        No plan is that large. A few aliases of aliases can fill all memory.
    """,
)
TOO_DEEP = Fault(
    "P006",
    "too-deep",
    Severity.ERROR,
    f"""
    What it does
        Reports values nested more than {MAX_DEPTH} deep, or an alias inside its own anchor.

    Why is this bad
        No plan is that deep; the reader would run out of stack.
    """,
)
SYNTAX = Fault(
    "P007",
    "yaml-syntax",
    Severity.ERROR,
    f"""
    What it does
        Reports text that is not YAML, at the place where the parser gave up.

    Why is this bad
        The rest of the file cannot be read.

    Example{_PLAN}
          tp: {{device: cuda, mode: eager
        seed: 1  # error: P007

    Use instead{_PLAN}
          tp: {{device: cuda, mode: eager}}
        seed: 1
    """,
)
TAB = Fault(
    "P008",
    "tab-indentation",
    Severity.ERROR,
    f"""
    What it does
        Reports a tab in the indentation.

    Why is this bad
        YAML indents with spaces only: how wide a tab is depends on who looks.

    Example{_PLAN}
        \tseed: 1  # error: P008

    Use instead{_PLAN}
        seed: 1
    """,
)
DUPLICATE_KEY = Fault(
    "P009",
    "duplicate-key",
    Severity.ERROR,
    """
    What it does
        Reports a key that stands twice in one mapping.

    Why is this bad
        Most YAML readers keep the last value and drop the first without a word.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
            device: cpu  # error: P009

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cpu
            mode: eager
    """,
)
MERGE_KEY = Fault(
    "P010",
    "merge-key",
    Severity.ERROR,
    """
    What it does
        Reports YAML's merge key `<<`.

    Why is this bad
        YAML 1.2 has no merge keys, and readers differ in which value wins. `extends` says it plainly.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager: &eager
            device: cuda
            mode: eager
          compiled:
            <<: *eager  # error: P010
            mode: compiled

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          eager:
            device: cuda
            mode: eager
          compiled:
            extends: eager
            mode: compiled
    """,
)
AMBIGUOUS_SCALAR = Fault(
    "P011",
    "ambiguous-scalar",
    Severity.ERROR,
    """
    What it does
        Reports an unquoted value that YAML 1.1 and 1.2 read differently: `off`, `yes`, `1:30`, `017`, `1_000`, a date.

    Why is this bad
        `off` is false to one reader and text to the next; `1:30` is text or 90.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            compile: {fullgraph: off}  # error: P011

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        shapes: [{height: 1024, width: 1024, text_tokens: 512}]
        targets:
          compiled:
            device: cuda
            mode: compiled
            compile: {fullgraph: false}
    """,
)
UNUSABLE_NODE = Fault(
    "P012",
    "unusable-node",
    Severity.ERROR,
    """
    What it does
        Reports a key that is itself a list or mapping, an explicit tag such as `!!python/object`, and an alias without anchor.

    Why is this bad
        A plan holds plain values only: text, numbers, true, false, null, lists and mappings with text keys.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        seed: !!int "7"  # error: P012
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        seed: 7
        targets:
          eager: {device: cuda, mode: eager}
    """,
)
UNKNOWN_KEY = Fault(
    "P101",
    "unknown-key",
    Severity.ERROR,
    """
    What it does
        Reports a key that the plan format does not have at this place.

    Why is this bad
        A misspelt key would be ignored, and its default used, without a word.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_paralel: {degree: 2, plan: class}  # error: P101

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 2, plan: class}
    """,
)
MISSING_KEY = Fault(
    "P102",
    "missing-key",
    Severity.ERROR,
    """
    What it does
        Reports a mapping that lacks a key it needs. A target may take keys from the plan and from the target it extends.

    Why is this bad
        planc guesses nothing silently.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:  # error: P102
            device: cuda

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
    """,
)
WRONG_TYPE = Fault(
    "P103",
    "wrong-type",
    Severity.ERROR,
    """
    What it does
        Reports a value of another kind than its key takes: text where a number is needed, a list where a mapping is.

    Why is this bad
        Nothing is converted silently.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        seed: "7"  # error: P103
        targets:
          eager: {device: cuda, mode: eager}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        seed: 7
        targets:
          eager: {device: cuda, mode: eager}
    """,
)
WRONG_VALUE = Fault(
    "P104",
    "wrong-value",
    Severity.ERROR,
    """
    What it does
        Reports a value that is not among those that its key takes.

    Why is this bad
        The script could not be written.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: gpu  # error: P104
            mode: eager

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
    """,
)
OUT_OF_RANGE = Fault(
    "P105",
    "out-of-range",
    Severity.ERROR,
    """
    What it does
        Reports a number below its least or above its greatest value, and a list, mapping or text that must not be empty.

    Why is this bad
        A degree of 0 or a plan without targets has no meaning.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 0, plan: class}  # error: P105

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp:
            device: cuda
            mode: eager
            tensor_parallel: {degree: 2, plan: class}
    """,
)
BAD_NAME = Fault(
    "P106",
    "bad-name",
    Severity.ERROR,
    """
    What it does
        Reports a target or plan name that is not small letters, digits and dashes: `[a-z0-9][a-z0-9-]*`.

    Why is this bad
        The name becomes a file name; a slash or dots would leave the output folder.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          ../eager: {device: cuda, mode: eager}  # error: P106

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager: {device: cuda, mode: eager}
    """,
)
UNKNOWN_TARGET = Fault(
    "P107",
    "unknown-target",
    Severity.ERROR,
    """
    What it does
        Reports an `extends` that names no target of this file.

    Why is this bad
        The target would lack what it meant to start from.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp8: {device: cuda, mode: eager, tensor_parallel: {degree: 8, plan: class}}
          tp4:
            extends: tp88  # error: P107
            tensor_parallel: {degree: 4}

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          tp8: {device: cuda, mode: eager, tensor_parallel: {degree: 8, plan: class}}
          tp4:
            extends: tp8
            tensor_parallel: {degree: 4}
    """,
)
EXTENDS_CYCLE = Fault(
    "P108",
    "extends-cycle",
    Severity.ERROR,
    """
    What it does
        Reports targets that extend each other in a circle, or one that extends itself.

    Why is this bad
        There is no target to start from.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            extends: eager  # error: P108
            device: cuda
            mode: eager

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager:
            device: cuda
            mode: eager
    """,
)
SHADOWING_NAME = Fault(
    "P109",
    "shadowing-name",
    Severity.ERROR,
    """
    What it does
        Reports a target whose script would have the name of a Python module, or of another file that planc writes.

    Why is this bad
        Python looks for imports beside the script first: a target `json` would replace the standard library's module.

    Example
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          torch: {device: cuda, mode: eager}  # error: P109

    Use instead
        version: 1
        model: {pipeline: Flux2KleinPipeline, checkpoint: black-forest-labs/FLUX.2-klein-4B}
        targets:
          eager: {device: cuda, mode: eager}
    """,
)
EDITED_BY_HAND = Fault(
    "P802",
    "edited-by-hand",
    Severity.ERROR,
    """
    What it does
        Reports a generated file that someone changed since planc wrote it, or a file of another origin in its place.

    Why is this bad
        Writing over it would lose that change. Move the change into the plan, or say `--force`.
    """,
)
STALE_OUTPUT = Fault(
    "P803",
    "stale-output",
    Severity.ERROR,
    """
    What it does
        Reports, under `planc build --check`, generated files that differ from what the plan gives now.

    Why is this bad
        What runs is not what the plan says. `planc build` writes them anew.
    """,
)

FAULTS: tuple[Fault, ...] = (
    UNREADABLE,
    NOT_UTF8,
    EMPTY_PLAN,
    SEVERAL_DOCUMENTS,
    TOO_LARGE,
    TOO_DEEP,
    SYNTAX,
    TAB,
    DUPLICATE_KEY,
    MERGE_KEY,
    AMBIGUOUS_SCALAR,
    UNUSABLE_NODE,
    UNKNOWN_KEY,
    MISSING_KEY,
    WRONG_TYPE,
    WRONG_VALUE,
    OUT_OF_RANGE,
    BAD_NAME,
    UNKNOWN_TARGET,
    EXTENDS_CYCLE,
    SHADOWING_NAME,
    EDITED_BY_HAND,
    STALE_OUTPUT,
)
"""All of them, in order of code."""
