"""One file a verb. Each adds its options to a parser and returns an exit code; only `cli.main` exits."""

CLEAN = 0
"""Nothing to report."""
FINDINGS = 1
"""Findings, stale output or a failed run."""
USAGE = 2
"""Wrong usage, or input that cannot be read."""
