"""Exact retrieval scores: every image is a query for the other images of its class, or queries search a database.

`retrieval_scores` works in blocks, each a matrix product and a topk; the N x N matrix is never held. On one core 4,000
images x 64 dimensions take about 0.1 s, 60,502 x 128 about 20 s, 60,502 x 512 about 80 s with 0.25 GB beside the
embeddings. `revisited_map` is the protocol of revisited Oxford and Paris.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from trainables.datasets.ground_truth import LISTS, checked_positions

Labels = Tensor | np.ndarray | Sequence[int] | Sequence[str]

SCORES = ("r_map", "map_at_r", "precision_at_1", "r_precision")

# A rank key is one integer: the cosine in steps of 2^-35 (finer than float32 computes it), then the position among
# 2^26 images. Keys of one query are all different, so topk has no ties to break, on any device.
COSINE_STEPS = 2**35
POSITIONS = 2**26

# a CPU's cache wants small blocks (a quarter faster than 64 MB), a GPU large ones
BLOCK_BYTES = {"cpu": 16 * 2**20, "gpu": 256 * 2**20}

LEVELS = {"easy": ["easy"], "medium": ["easy", "hard"], "hard": ["hard"]}
"""Level of revisited Oxford and Paris -> the lists that count as positive. The others are taken out of the ranking."""


@torch.no_grad()
def retrieval_scores(
    embeddings: Tensor | np.ndarray, labels: Labels, *, recall_at: Sequence[int] = ()
) -> dict[str, float]:
    """Mean retrieval scores over all images that have another image of their class; neighbours ranked by cosine.

    Equal cosines (to 2^-35) are ranked in the order of the rows, the earlier first. A zero embedding has no direction:
    its cosine with everything is 0.
    embeddings: [N, d] floating point, a tensor on any device or an array; normalised here, half precision in float32.
    labels: [N] integers or strings (tensor, array or list).  recall_at: numbers of neighbours k, 1 <= k < N, each of
    which adds a score.
    Returns floats in [0, 1]: "r_map" (the paper's R-mAP, the mean of AP-topR), "map_at_r" (Musgrave's MAP@R),
    "precision_at_1", "r_precision", and "recall_at_<k>", the share of queries with an image of their class among the k
    nearest others. Raises ValueError for other shapes or kinds, embeddings that are not finite, no two equal labels, k
    that is not an integer of 1 to N - 1."""
    embeddings = torch.as_tensor(embeddings)
    _check_embeddings(embeddings)
    retrieval = Retrieval(labels, len(embeddings), embeddings.device, recall_at=recall_at)
    return dict(zip(retrieval.names, retrieval.scores(embeddings).tolist(), strict=True))


class Retrieval:
    """`retrieval_scores` for several networks' embeddings of the same images, without waiting for any of them.

    Everything that depends on the labels alone is computed once, by the constructor.
    labels, recall_at: as in `retrieval_scores`, with the same errors.  images: N.  device: that of the embeddings.
    names: the scores' names, in order.
    """

    def __init__(self, labels: Labels, images: int, device: torch.device, *, recall_at: Sequence[int] = ()):
        self._block_bytes = BLOCK_BYTES["cpu" if device.type == "cpu" else "gpu"]
        self._classes, self._relevant = _classes(labels, images, device)
        for k in recall_at:
            if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k < images:
                raise ValueError(f"recall_at has {k!r}; integers from 1 to {images - 1} are allowed here")
        # Ascending number of relevant images R: a block looks only as deep as its own classes need.
        queries = self._relevant.argsort(stable=True)
        self._queries = queries[(self._relevant == 0).sum() :]
        if not len(self._queries):
            raise ValueError(
                f"no two of the {images} images have the same label; a query needs another image of its class"
            )
        self._recall_at = torch.tensor(recall_at, device=device)
        self._depths = self._relevant[self._queries].tolist()
        self._by_class = self._classes.argsort(stable=True)
        self._starts = torch.searchsorted(self._classes[self._by_class], self._classes)  # of each class, in these
        self.names = (*SCORES, *(f"recall_at_{k}" for k in recall_at))

    @torch.no_grad()
    def scores(self, embeddings: Tensor) -> Tensor:
        """Scores, float64 [names], on the device of embeddings [N, d], which must be finite (not checked)."""
        z = _unit_rows(embeddings)
        totals = torch.zeros(len(self.names), dtype=torch.float64, device=z.device)
        with _full_precision(z.device):
            for block, keys, depth in _ranked(z, self._queries, self._depths, self._block_bytes):
                hits = self._classes[keys.topk(depth).indices] == self._classes[block, None]
                totals[: len(SCORES)] += scores_per_query(hits, self._relevant[block]).sum(0)
                if len(self._recall_at):
                    totals[len(SCORES) :] += (self._first_hits(block, keys, depth) < self._recall_at).sum(0)
        return totals / len(self._queries)

    def _first_hits(self, block: Tensor, keys: Tensor, depth: int) -> Tensor:
        """The rank from 0 of each query's nearest image of its class, [n, 1]. A count: topk(1000) would take longer."""
        ranks = torch.arange(depth + 1, device=keys.device)
        of_class = self._by_class[self._starts[block, None] + ranks.minimum(self._relevant[block, None])]
        return (keys > keys.gather(1, of_class).amax(1, keepdim=True)).sum(1, keepdim=True)


def scores_per_query(hits: Tensor, relevant: Tensor) -> Tensor:
    """The four scores of single queries, float64 [n, 4] in the order of `SCORES` (appendix "R-mAP vs mAP@R").

    hits: [n, K] booleans, rel(k) at ranks k = 1 ... K; ranks beyond a query's R are ignored.  relevant: [n] integers, R
    of every query, 1 <= R <= K. AP-topR divides the sum of P(k) rel(k) over k <= R by the hits among those ranks (it is
    0 without any), AP@R by R; so AP@R = AP-topR x R-precision."""
    ranks = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64, device=hits.device)
    relevant = relevant.double()
    hits = hits & (ranks <= relevant[:, None])
    found = hits.cumsum(1)  # [n, K], hits up to rank k
    precisions = (hits * found / ranks).sum(1)  # [n], sum of P(k) rel(k)
    total = found[:, -1]
    return torch.stack(
        [precisions / total.clamp(min=1), precisions / relevant, hits[:, 0].double(), total / relevant], dim=1
    )


@torch.no_grad()
def revisited_map(similarities: Tensor, ground_truth: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, float]:
    """Mean average precision by the protocol of revisited Oxford and Paris (Radenović et al., CVPR 2018).

    The database is ranked by similarity, with ties in the order of positions. Junk is removed from the ranking.
    AP is the area below the precision-recall curve by trapezoids: the positive number j = 0, 1, ... at rank r (from 0)
    adds ((j / r, or 1 at r = 0) + (j + 1) / (r + 1)) / 2 / positives. A query without positives at a level is left out
    of that level.
    similarities: [queries, database] floating point, larger is nearer.  ground_truth: for every query the positions of
    its "easy", "hard" and "junk" images in the database (arrays or lists, possibly empty; other keys are ignored).
    Returns floats in [0, 1]: "easy_map" (positive: easy; junk: hard too), "medium_map" (positive: easy and hard) and
    "hard_map" (positive: hard; junk: easy too). Raises ValueError for other shapes or kinds, similarities that are not
    finite, a position outside of the database or in two lists of a query, a level at which no query has a positive."""
    if similarities.ndim != 2 or not similarities.is_floating_point() or len(similarities) != len(ground_truth):
        raise ValueError(
            f"similarities are {similarities.dtype} of shape {tuple(similarities.shape)}; "
            f"floating point of shape [{len(ground_truth)} queries, database] is expected"
        )
    if not bool(similarities.isfinite().all()):
        raise ValueError("similarities are not finite")
    scores: dict[str, list[float]] = {level: [] for level in LEVELS}
    for query, (row, lists) in enumerate(zip(similarities, ground_truth)):
        checked = checked_positions(lists, len(row), f"query {query}")
        positions = {name: torch.from_numpy(listed) for name, listed in checked.items()}
        ranking = row.sort(descending=True, stable=True).indices.cpu()
        for level, positive in LEVELS.items():
            junk = torch.cat([positions[name] for name in LISTS if name not in positive])
            wanted = torch.isin(ranking[~torch.isin(ranking, junk)], torch.cat([positions[name] for name in positive]))
            if wanted.any():
                scores[level].append(_revisited_ap(wanted))
    if empty := [level for level, found in scores.items() if not found]:
        raise ValueError(f"no query has a positive at the level {empty[0]!r}")
    return {f"{level}_map": sum(found) / len(found) for level, found in scores.items()}


def _revisited_ap(wanted: Tensor) -> float:
    """AP of a query; wanted: whether each rank has a positive, [database without junk]."""
    ranks = wanted.nonzero()[:, 0].double()  # from 0
    found = torch.arange(len(ranks), dtype=torch.float64)  # positives before each of them
    before = torch.where(ranks > 0, found / ranks, 1.0)
    return ((before + (found + 1) / (ranks + 1)) / 2).mean().item()


def _check_embeddings(embeddings: Tensor) -> None:
    if embeddings.ndim != 2 or not embeddings.is_floating_point():
        raise ValueError(
            f"embeddings are {embeddings.dtype} of shape {tuple(embeddings.shape)}; "
            "floating point of shape [N, d] is expected"
        )
    finite = embeddings.isfinite().all(1)
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise ValueError(f"{int((~finite).sum())} of {len(finite)} embeddings are not finite, the first is row {first}")


def _unit_rows(embeddings: Tensor) -> Tensor:
    """Embeddings [N, d] as rows of length 1 (or 0), in float32 at least."""
    z = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
    # In float64 because squares of float32 overflow from 1e19 on, which a network about to diverge does reach.
    norms = torch.linalg.vector_norm(z, dim=1, keepdim=True, dtype=torch.float64)
    return z / norms.to(z.dtype).clamp(min=torch.finfo(z.dtype).tiny)


def _classes(labels: Labels, images: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Class numbers [N] from 0 on, and the number R of relevant images [N], both on the device."""
    [labels] = as_numbers(labels)
    labels = labels.to(device)
    if labels.shape != (images,) or labels.is_floating_point() or labels.is_complex():
        raise ValueError(
            f"labels are {labels.dtype} of shape {tuple(labels.shape)}; "
            f"integers or strings of shape [{images}] are expected"
        )
    _, classes, sizes = labels.unique(return_inverse=True, return_counts=True)
    return classes, sizes[classes] - 1


def as_numbers(*several: Labels) -> list[Tensor]:
    """Labels as tensors. Strings are numbered from 0 on, alike in all, as they appear. Raises ValueError for labels of
    several kinds."""
    arrays = (np.asarray(labels) for labels in several if not isinstance(labels, Tensor))
    named = [labels for labels in arrays if labels.dtype.kind in "USO"]
    if not named:
        return [torch.as_tensor(labels) for labels in several]
    if len(named) < len(several) or not all(isinstance(one, (str, bytes)) for labels in named for one in labels.flat):
        raise ValueError("labels are of several kinds; integers or strings are expected")
    names, first = np.unique(np.concatenate([labels.ravel() for labels in named]), return_index=True)
    numbers = first.argsort().argsort()
    return [torch.as_tensor(numbers[np.searchsorted(names, labels)]) for labels in named]


def _ranked(z: Tensor, queries: Tensor, depths: list[int], block_bytes: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Yield (queries [n], the rank keys [n, N] of all images, the number of neighbours needed), block by block.

    z: [N, d], rows of length 1.  queries: [Q] positions, sorted by depth.  depths: Q numbers of neighbours needed.
    block_bytes: bounds the two [n, N] buffers and results of as many columns as neighbours (about 40 bytes each)."""
    images = len(z)
    rows = max(1, block_bytes // (images * (z.element_size() + 8) + depths[-1] * 40))
    rows = min(rows, len(queries))
    minus_positions = -torch.arange(images, device=z.device)
    # Two buffers for all blocks: on the CPU, fresh memory for every block costs more than the arithmetic in it.
    similarities = torch.empty(rows, images, dtype=z.dtype, device=z.device)
    keys = torch.empty(rows, images, dtype=torch.int64, device=z.device)
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows]
        steps = torch.mm(z[block] * COSINE_STEPS, z.T, out=similarities[: len(block)])  # a power of 2: exact
        steps.scatter_(1, block[:, None], -2.0 * COSINE_STEPS)  # a query never finds itself: below every cosine
        block_keys = keys[: len(block)].copy_(steps)
        torch.add(minus_positions, block_keys, alpha=POSITIONS, out=block_keys)
        yield block, block_keys, depths[start + len(block) - 1]


@contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    """Context of plain float32 products: bfloat16 and TensorFloat32 keep 8 and 11 bits, which swaps neighbours."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
