"""Program → {path: text}: a pure function. Build writes the map, `--check` diffs it, the tests compare it."""
