"""Diagnostics → text for people; json, workflow commands and SARIF for programs."""
