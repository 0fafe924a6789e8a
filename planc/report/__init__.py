"""Diagnostics → text for people, json for programs."""
