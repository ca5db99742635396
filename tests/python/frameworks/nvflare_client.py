"""A client of the NVFlare test. It changes the same 1 % of a table's rows for every aggregator."""

from __future__ import annotations

import sys

import numpy as np
import nvflare.client as flare
from nvflare.apis.dxo import MetaKey
from sparseagg.sparsify import changed_rows


def main(kind: str) -> None:
    """kind: what is returned: the "full" table, its dense "diff", or its "sparse" one."""
    flare.init()
    number = int(flare.get_site_name().rpartition("-")[2])
    while flare.is_running():
        model = flare.receive()
        before = np.asarray(model.params["numpy_key"])
        generator = np.random.default_rng([number, model.current_round])
        rows = generator.choice(len(before), len(before) // 100, replace=False)
        after = before.copy()
        after[rows] += generator.normal(size=(len(rows), before.shape[1])).astype(np.float32)
        params = {
            "full": after,
            "diff": after - before,
            "sparse": changed_rows(after, before).to_dict(),
        }[kind]
        flare.send(
            flare.FLModel(
                params_type="FULL" if kind == "full" else "DIFF",
                params={"numpy_key": params},
                metrics={"accuracy": number / 10},
                meta={MetaKey.NUM_STEPS_CURRENT_ROUND: 10 + number},
            )
        )


main(sys.argv[1])
