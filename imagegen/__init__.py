"""Image generation: planned for a later release, so this package is empty so far.

Its models will be the decoder of :mod:`docvision` on VQ tokens.
"""
