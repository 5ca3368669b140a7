"""What the document model is trained to do: losses of lines, pages and tables, and their held-out figures.

``DocumentTrainer`` is the model with its losses as one forward, the form that DDP and FSDP wrap.  Line crops train the
line head and the decoder, page windows the structure maps, table pictures the maps and the TableSeq stream at once.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docvision.alignment import (
    TEXT_HEAD,
    best_path,
    guide_loss,
    line_places,
    pointed,
    table_places,
    watched,
)
from docvision.batches import LineBatch, PageBatch, PictureBatch, Stream, TableBatch
from docvision.config import LossConfig
from docvision.decoder import PLACE_HEAD
from docvision.encoder import Memory
from docvision.methods.base import run_text
from docvision.metrics import error_rate
from docvision.model import CTC_FRAMES, DocVisionModel
from docvision.tokens import PAD, Vocabulary


class DocumentTrainer(nn.Module):
    """The model with the losses of any batch as one forward.

    Args:
        model: what learns.
        teacher: whose structure maps pictures without truth are to give; needed for these alone.
    """

    def __init__(self, model: DocVisionModel, teacher: DocVisionModel | None = None) -> None:
        super().__init__()
        self.model = model
        self._teacher = (teacher,)  # no module of this one: not trained, not saved, not sent to other processes

    def forward(
        self, batch: LineBatch | PageBatch | TableBatch | PictureBatch, loss: LossConfig, noise: torch.Generator
    ) -> dict[str, Tensor]:
        if isinstance(batch, LineBatch):
            return self._lines(batch, loss, noise)
        if isinstance(batch, TableBatch):
            return self._tables(batch, loss, noise)
        maps = self.model.encoder.structure_maps(batch.pixels_B1HW, batch.size_B2)
        if isinstance(batch, PictureBatch):
            return {"taught": loss.structure * self._taught(maps, batch)}
        return {"structure": loss.structure * structure_loss(maps, batch.targets)}

    def _taught(self, maps: dict[str, Tensor], batch: PictureBatch) -> Tensor:
        (teacher,) = self._teacher
        if teacher is None:
            raise ValueError("pictures without truth need a teacher: loss.teacher=MODEL")
        with torch.no_grad():
            told = teacher.to(batch.pixels_B1HW.device).encoder.structure_maps(batch.pixels_B1HW, batch.size_B2)
        rows_Bh, columns_Bw = (
            torch.arange(count, device=batch.size_B2.device) < (batch.size_B2[:, axis : axis + 1] + 7) // 8
            for axis, count in enumerate(maps["line"].shape[2:])
        )
        return distillation_loss(maps, told, rows_Bh[:, :, None] & columns_Bw[:, None])

    def _lines(self, batch: LineBatch, loss: LossConfig, noise: torch.Generator) -> dict[str, Tensor]:
        model = self.model
        memory = model.encoder(batch.pixels_B1HW, batch.size_B2)
        losses: dict[str, Tensor] = {}
        log_probs = model.line_head(memory).float().log_softmax(-1) if loss.ctc > 0 or loss.alignment > 0 else None
        frames_B = CTC_FRAMES * ((batch.size_B2[:, 1] + 7) // 8)
        if loss.ctc > 0 and log_probs is not None:
            by_frame = log_probs.transpose(0, 1)
            ctc = F.ctc_loss(by_frame, batch.labels_BU, frames_B, batch.label_length_B, zero_infinity=True)
            losses["ctc"] = loss.ctc * ctc
        if loss.decoder > 0 or model.methods:
            places = None
            if loss.alignment > 0 and log_probs is not None:
                reached = best_path(log_probs.detach(), batch.labels_BU, batch.label_length_B, frames_B)
                places = line_places(reached, batch.label_length_B, CTC_FRAMES, batch.tokens_BT.shape[1] - 1)
            logits, targets, extra = self._predict(batch.tokens_BT, memory, loss, noise, places, TEXT_HEAD)
            losses |= {"decoder": loss.decoder * F.cross_entropy(logits, targets)} | extra
        return losses

    def _tables(self, batch: TableBatch, loss: LossConfig, noise: torch.Generator) -> dict[str, Tensor]:
        encoder = self.model.encoder
        with_maps = loss.structure > 0 and bool(batch.targets)
        memory = encoder(batch.pixels_B1HW, batch.size_B2, maps=with_maps or encoder.prior)
        losses: dict[str, Tensor] = {}
        if with_maps:
            losses["table_maps"] = loss.structure * structure_loss(memory.maps, batch.targets)
        if loss.decoder == 0 and not self.model.methods:
            return losses
        places = table_places(batch.tokens_BT[:, 1:], self.model.vocabulary) if loss.alignment > 0 else None
        logits, targets, extra = self._predict(batch.tokens_BT, memory, loss, noise, places, PLACE_HEAD)
        losses |= extra
        if not len(targets):
            return losses or {"table_tags": 0.0 * logits.sum()}
        first = self.model.vocabulary.first_x
        tags = targets < first
        losses["table_tags"] = loss.decoder * F.cross_entropy(logits[tags], targets[tags])
        if not bool(tags.all()):
            boxes = self._coordinates(logits[~tags], targets[~tags])
            losses["table_boxes"] = loss.decoder * loss.coordinates * boxes
        return losses

    def _coordinates(self, logits_NV: Tensor, targets_N: Tensor) -> Tensor:
        return coordinate_loss(logits_NV.float(), targets_N, self.model.vocabulary.first_x, self.model.config.bins)

    def _predict(
        self,
        tokens_BT: Tensor,
        memory: Memory,
        loss: LossConfig,
        noise: torch.Generator,
        places_BT2: Tensor | None,
        head: int,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Logits (N,V) of all N tokens that are to be predicted, those tokens (N,), and the methods' losses.

        ``places_BT2`` and ``head`` are those of :func:`docvision.alignment.guide_loss`.
        """
        model = self.model
        inputs, targets = tokens_BT[:, :-1], tokens_BT[:, 1:]
        inputs = noisy(inputs, loss.input_noise, model.vocabulary, noise)
        known = targets != PAD
        known[:, 0] = False  # the prompt is given, not predicted
        wanted = torch.where(known, targets, PAD)
        if loss.scheduled_sampling > 0:
            inputs = with_own_coordinates(model, memory, inputs, wanted, loss.scheduled_sampling, noise)
        with contextlib.ExitStack() as stack:
            seen = [] if places_BT2 is None else stack.enter_context(watched(model.decoder))
            hidden, extra = run_text(model.decoder, memory, inputs, wanted, dict(model.methods.items()), noise)
        # Names with an underscore are figures without gradient: they are reported as they are.
        extra = {name: value if "_" in name else loss.methods * value for name, value in extra.items()}
        if places_BT2 is not None:
            extra["alignment"] = loss.alignment * guide_loss(seen, memory, places_BT2, head)
            boxes = wanted >= model.vocabulary.first_x
            if model.decoder.coordinates is not None and bool(boxes.any()):
                told = pointed(model.decoder, seen, memory, wanted.shape[1])[boxes]
                extra["alignment_boxes"] = loss.alignment * self._coordinates(model.decoder.logits(told), wanted[boxes])
        return model.decoder.logits(hidden[known]).float(), targets[known], extra


NEAR = 3
"""Bins by which input noise moves a coordinate at most."""


def noisy(tokens_BT: Tensor, share: float, vocabulary: Vocabulary, generator: torch.Generator) -> Tensor:
    """Replace a share of the input tokens by others of their class: characters by characters, coordinates by near ones.

    Tags stay: a wrong tag would ask for the continuation of another table.
    """
    device = tokens_BT.device
    pick = torch.rand(tokens_BT.shape, generator=generator).to(device) < share
    characters = (tokens_BT > 0) & (tokens_BT < vocabulary.ctc_classes)
    other = torch.randint(1, vocabulary.ctc_classes, tokens_BT.shape, generator=generator).to(device)
    tokens_BT = torch.where(pick & characters, other, tokens_BT)
    if not bool((tokens_BT >= vocabulary.first_x).any()):
        return tokens_BT
    step = torch.randint(-NEAR, NEAR + 1, tokens_BT.shape, generator=generator).to(device)
    for first in (vocabulary.first_x, vocabulary.first_y):
        inside = (tokens_BT >= first) & (tokens_BT < first + vocabulary.bins)
        moved = (tokens_BT + step).clamp(first, first + vocabulary.bins - 1)
        tokens_BT = torch.where(pick & inside, moved, tokens_BT)
    return tokens_BT


@torch.no_grad()
def with_own_coordinates(
    model: DocVisionModel,
    memory: Memory,
    inputs_BT: Tensor,
    wanted_BT: Tensor,
    share: float,
    generator: torch.Generator,
) -> Tensor:
    """Inputs in which a share of the coordinates is drawn from what the model says there, behind the true stream.

    Scheduled sampling in two passes (Mihaylova and Martins, arXiv 1906.07651).  A true stream always tells where the
    last row ended; a decoder that has seen no other counts on it, and one wrong row costs it its place.

    Args:
        model: decoder and vocabulary.
        memory: of the pictures.
        inputs_BT: token ids.
        wanted_BT: the tokens behind each of them.
        share: of the coordinates.
        generator: for the choice and the draws.
    """
    first, bins, device = model.vocabulary.first_x, model.vocabulary.bins, inputs_BT.device
    pick_BT = (wanted_BT >= first) & (torch.rand(wanted_BT.shape, generator=generator).to(device) < share)
    pick_BT[:, -1] = False  # is nobody's input
    if not bool(pick_BT.any()):
        return inputs_BT
    hidden_BTD = model.decoder(inputs_BT, torch.arange(inputs_BT.shape[1], device=device), memory)
    start_N = first + (wanted_BT[pick_BT] - first) // bins * bins
    axis_NC = start_N[:, None] + torch.arange(bins, device=device)
    chances_NC = model.decoder.logits(hidden_BTD[pick_BT]).float().gather(1, axis_NC).softmax(-1)
    drawn_N = start_N + torch.multinomial(chances_NC.cpu(), 1, generator=generator)[:, 0].to(device)
    own_BT = inputs_BT.clone()
    own_BT[:, 1:][pick_BT[:, :-1]] = drawn_N
    return own_BT


SMOOTHING = (0.05, 0.2, 0.5, 0.2, 0.05)
"""How a coordinate's target is spread over its bin and the two on either side."""


def coordinate_loss(logits_NV: Tensor, target_N: Tensor, first: int, bins: int) -> Tensor:
    """Cross-entropy of coordinate tokens against targets spread over neighbouring bins of the same axis.

    Args:
        logits_NV: scores over the vocabulary.
        target_N: ids of the true coordinates.
        first: id of the first x bin; the y bins follow the x bins.
        bins: bins of one axis.

    A bin off by one is nearly right and says so; plain cross-entropy calls it as wrong as any other.
    """
    start_N1 = first + (target_N[:, None] - first) // bins * bins
    offsets = torch.arange(-2, 3, device=target_N.device)
    near_N5 = torch.clamp(target_N[:, None] + offsets, start_N1, start_N1 + bins - 1)
    weights = logits_NV.new_tensor(SMOOTHING)
    return -(logits_NV.log_softmax(-1).gather(1, near_N5) * weights).sum(-1).mean()


def structure_loss(maps: dict[str, Tensor], targets: dict[str, Tensor]) -> Tensor:
    """Cross-entropy of the block class and binary cross-entropy of the other maps, over valid cells.

    Separators and corners fill a few cells in a hundred, so their positives weigh 5 times.
    """
    valid = targets["valid"] > 0
    total = F.cross_entropy(maps["block"].permute(0, 2, 3, 1)[valid], targets["block"][valid])
    for name, weight in (("line", 1.0), ("rows", 5.0), ("columns", 5.0), ("corners", 5.0)):
        logits, target = maps[name][:, 0][valid], targets[name][valid]
        total = total + F.binary_cross_entropy_with_logits(logits, target, pos_weight=logits.new_tensor(weight))
    return total


def distillation_loss(maps: dict[str, Tensor], told: dict[str, Tensor], valid_Bhw: Tensor) -> Tensor:
    """Divergence (nats a cell, the sum over maps) of structure maps from those of a teacher; 0 where they are equal.

    Learning without forgetting (Li and Hoiem, arXiv 1606.09282): a new stage may change the features, what another
    model's head said of a picture is still to be said.
    """
    total = valid_Bhw.new_zeros((), dtype=torch.float)
    for name, logits in maps.items():
        if name == "block":
            by_cell = F.kl_div(logits.log_softmax(1), told[name].log_softmax(1), reduction="none", log_target=True)
        else:
            yes = told[name].sigmoid()
            by_cell = F.binary_cross_entropy_with_logits(logits, yes, reduction="none")
            by_cell = by_cell - F.binary_cross_entropy_with_logits(told[name], yes, reduction="none")
        total = total + by_cell.sum(1)[valid_Bhw].mean()
    return total


def validate_document(
    trainer: DocumentTrainer, streams: dict[str, Stream], samples: int, loss: LossConfig
) -> dict[str, float]:
    """CER of the line head, and of greedy decoding where trained, on held-out lines; losses on pages and tables."""
    core = trainer.model
    core.eval()
    loss = replace(loss, input_noise=0.0, scheduled_sampling=0.0)
    report: dict[str, float] = {}
    with torch.inference_mode():
        for name, stream in streams.items():
            batches = [stream.batch(i) for i in range(min(stream.per_epoch, max(1, samples // stream.task.batch)))]
            if stream.task.kind == "lines":
                lines = [batch for batch in batches if isinstance(batch, LineBatch)]
                report |= {f"{name}_{key}": value for key, value in _line_errors(core, lines, loss.decoder > 0).items()}
                continue
            losses: dict[str, list[float]] = {}
            for batch in batches:
                for key, value in trainer(batch, loss, torch.Generator()).items():
                    losses.setdefault(key, []).append(float(value))
            report |= {f"{name}_{key}": float(np.mean(values)) for key, values in losses.items()}
    core.train()
    return report


def _line_errors(core: DocVisionModel, batches: list[LineBatch], decoder: bool) -> dict[str, float]:
    from docvision.decode import generate_text

    truth: list[str] = []
    by_ctc: list[str] = []
    by_decoder: list[str] = []
    for batch in batches:
        memory = core.encoder(batch.pixels_B1HW, batch.size_B2)
        by_ctc += [r.text for r in core.best_paths(core.line_head(memory), batch.size_B2[:, 1])]
        by_decoder += [r.text for r in generate_text(core, memory)] if decoder else []
        truth += batch.texts
    rates = {"cer_ctc": error_rate(by_ctc, truth)}
    return rates | {"cer_decoder": error_rate(by_decoder, truth)} if decoder else rates
