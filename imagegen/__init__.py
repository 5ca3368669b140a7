"""Image generation on VQ tokens: tokenizer, class-conditional generator, and MTAR's training aids.

The generator is the decoder of :mod:`docvision` on an image grid; everything is reached from the ``imagegen`` command.
"""
