"""The rooms that know torch: reading diffusers, and tiny pipelines to run on a laptop.

Everything here imports torch and diffusers lazily; `diffusers_api` is the only module that touches their private names.
"""
