"""The process that works for the demo: ``python -m apps.demo_worker MODEL``, see demo_process.py.

A job is ``{"kind": ...}`` with what that kind needs: ``read`` a document (demo_reading.py), say what the ``model``
can do, ``watch`` its decoder write (demo_tokens.py), ``draw`` images (demo_drawing.py).  What needs torch is imported
by the first job that needs it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from apps.demo_process import Tell
from docvision.parse import DEFAULT_MODEL, DocumentParser, ParseOptions, load_reader
from docvision.scan import ModelUnavailable, Reader
from docvision.steps import one_line

LINE_HEAD = "line"
"""Scanned lines are read by the line head in one pass; any other way is a method of the decoder."""
MAX_PIXELS = 120_000_000
"""Of one image file: a page of A3 at 600 dpi is 70 million."""


class Models:
    """What is loaded once and kept: the document model, its parsers, the image generator."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._reader: Any = None
        self._failure = ""
        self._parsers: dict[tuple[str, str], DocumentParser] = {}
        self._generator: Any = None

    def reader(self) -> Any:
        """The document model as docvision.reader.ModelReader.

        Raises:
            ModelUnavailable: why there is none.
        """
        if self._failure:
            raise ModelUnavailable(self._failure)
        if self._reader is None:
            try:
                self._reader = load_reader(self.name, "cpu")
            except ModelUnavailable as error:
                self._failure = str(error)
                raise
        return self._reader

    def parser(self, text: str, decoding: str) -> DocumentParser:
        """A parser of one text policy and one way to read scanned lines; all share the model.

        Raises:
            ValueError: no such policy.
        """
        if (text, decoding) not in self._parsers:
            self._parsers[text, decoding] = _Parser(ParseOptions(text=text, model=self.name), self, decoding)
        return self._parsers[text, decoding]

    def generator(self) -> Any:
        """The packaged image generator and its tokenizer."""
        if self._generator is None:
            from apps.demo_drawing import GENERATOR
            from imagegen.generate import load_pair

            self._generator = load_pair(GENERATOR)
        return self._generator


class _Parser(DocumentParser):
    def __init__(self, options: ParseOptions, models: Models, decoding: str) -> None:
        super().__init__(options)
        self._models, self._decoding = models, decoding

    def reader(self) -> Reader:
        reader = self._models.reader()
        if self._decoding == LINE_HEAD:
            return reader
        from apps.demo_tokens import DecoderReader

        return DecoderReader(reader.model, self._decoding)


def serve(requests: IO[str], answers: IO[str], model: str = DEFAULT_MODEL) -> None:
    """Do one job after another until the other side closes."""

    def tell(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    models = Models(model)
    for line in requests:
        job = json.loads(line)
        try:
            _do(job.pop("kind"), job, models, tell)
            tell(end=True)
        except ValueError as error:
            # Where uploads lie on the server is nobody's business.
            path = job.get("path", "")
            tell(error=one_line(error).replace(path, Path(path).name) if path else one_line(error))
        except MemoryError:
            tell(error="not enough memory for this: choose fewer pages")
        except Exception as error:
            tell(error=f"internal error, please report it: {type(error).__name__}: {one_line(error)}")


def _do(kind: str, job: dict[str, Any], models: Models, tell: Tell) -> None:
    if kind == "read":
        from apps.demo_reading import Job, read_job

        asked = Job(**job)
        read_job(asked, models.parser(asked.text, asked.decoding), tell)
    elif kind == "draw":
        from apps.demo_drawing import Order, draw_job

        generator, tokenizer = models.generator()
        draw_job(Order(**job), generator, tokenizer, tell)
    else:
        from apps import demo_tokens

        if kind == "model":
            tell(model=demo_tokens.describe(models.reader().model, models.name))
        else:
            demo_tokens.watch_job(models.reader().model, job, tell)


def end_with_parent(parent: int, every: float = 1.0) -> None:
    """End this process, whatever it is at, once the one that started it is gone: it gets no signal of its terminal."""
    while os.getppid() == parent:
        time.sleep(every)
    os._exit(1)


def main() -> None:
    """Serve on standard input and output; what else is printed goes to standard error."""
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from docvision import pdf

    pdf.MAX_IMAGE_PIXELS = min(pdf.MAX_IMAGE_PIXELS, MAX_PIXELS)
    serve(sys.stdin, answers, *sys.argv[1:2])


if __name__ == "__main__":
    main()
