"""What one can say of a picture without learning to say anything: the captions any captioner must beat.

constant     the training caption that fits best to all training pictures, said of every picture
neighbour    a caption of the training picture whose mean region looks most alike (Devlin et al. 2015 call the choice
             among several captions by what they have in common a consensus)
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.tasks.caption_scores import ORDERS, Cider, References

CANDIDATES, JUDGED = 50, 500  # captions scored exactly, and pictures they are scored on


def best_constant(references: References, seed: int = 0) -> str:
    """Of all captions of the (training) pictures the one with the best CIDEr-D over all of them.

    A product with the mean of all weighted and normalised n-gram vectors, which is CIDEr-D but for its clipping and its
    length term, finds the candidates; these are then scored exactly on a sample of the pictures.
    """
    judge = Cider(references)
    means: list[dict[tuple[str, ...], float]] = [defaultdict(float) for _ in ORDERS]
    texts = sorted({text for known in references for text in known})
    unit = {text: [_unit(judge.vector(text, order)) for order in ORDERS] for text in texts}
    for known in references:
        for text in known:
            for mean, vector in zip(means, unit[text], strict=True):
                for gram, weight in vector.items():
                    mean[gram] += weight / len(known)
    rough = {
        text: sum(
            sum(weight * mean[gram] for gram, weight in vector.items())
            for mean, vector in zip(means, vectors, strict=True)
        )
        for text, vectors in unit.items()
    }
    candidates = sorted(texts, key=lambda text: -rough[text])[:CANDIDATES]
    draw = np.random.default_rng(seed)
    judged = [references[row] for row in draw.permutation(len(references))[:JUDGED]]
    return max(candidates, key=lambda text: sum(judge.score(text, known) for known in judged))


def _unit(vector: dict[tuple[str, ...], float]) -> dict[tuple[str, ...], float]:
    length = sum(weight * weight for weight in vector.values()) ** 0.5
    return {gram: weight / length for gram, weight in vector.items()} if length else {}


def neighbour_captions(
    known: NDArray[np.floating],
    references: References,
    asked: NDArray[np.floating],
    neighbours: int = 1,
) -> list[str]:
    """For each row of `asked` [pictures, size] a caption of its nearest neighbours (cosine) among `known`.

    Of the neighbours' captions it is the one with the best mean CIDEr-D against the others.
    """
    judge = Cider(references)
    nearest = np.argsort(-(_rows(asked) @ _rows(known).T), axis=1, kind="stable")[:, :neighbours]
    return [_consensus([text for row in rows for text in references[row]], judge) for rows in nearest]


def _rows(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float64) / np.maximum(lengths, np.finfo(np.float64).tiny)


def _consensus(texts: Sequence[str], judge: Cider) -> str:
    if len(texts) == 1:
        return texts[0]
    others = [[*texts[:place], *texts[place + 1 :]] for place in range(len(texts))]
    return texts[int(np.argmax([judge.score(text, rest) for text, rest in zip(texts, others, strict=True)]))]
