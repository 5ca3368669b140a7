"""Any document model of Hugging Face transformers, several times faster with its answers unchanged.

>>> accelerated = docvision.accelerate("some/document-vlm", method="textlayer")  # doctest: +SKIP
>>> accelerated.generate(**inputs, max_new_tokens=1024)  # doctest: +SKIP
"""

try:
    from docvision.hf_vlm.accelerated import Accelerated
    from docvision.hf_vlm.decoder import VlmError
    from docvision.hf_vlm.loading import accelerate
except ImportError as error:
    raise ImportError(
        f"models of Hugging Face need transformers 5.24 or newer ({error}): pip install 'docvision[vlm]'"
    ) from error

__all__ = ["Accelerated", "VlmError", "accelerate"]
