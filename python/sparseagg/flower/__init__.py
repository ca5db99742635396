"""Flower: federated averaging through a sparseagg server. Import it where flwr is installed (tested
with 1.42 and 1.23). docs/flower.md begins at `pip install`.

    server_app.py   from sparseagg.flower import SparseFedAvg              was: from flwr.serverapp.strategy import FedAvg
                    strategy = SparseFedAvg(0.5, sparse=["emb.weight"])    was: FedAvg(0.5)
    client_app.py   from sparseagg.flower import ClientApp                 was: from flwr.clientapp import ClientApp

The client's training function stays as it is: it gets all arrays and returns all arrays. For the tables named in
`sparse`, the ClientApp takes the rows that changed; these and the dense arrays go straight to the server, and a receipt
takes their place in the reply. The result is FedAvg's: for a table, arrays + weighted mean of the changes, which is the
weighted mean of the changed tables.

    configure_train   opens a round; a ConfigRecord "sparseagg" tells clients which and what is sparse
    SparseUpload      trains, uploads, replies with metrics and a receipt
    start             collects the replies until all are there, or the round's policy has closed it
    aggregate_train   seals the round, fetches the aggregate, adds the changes to the arrays of the round

With `direct=False` the arrays travel in Flower's messages (indices, values and dense_shape of each table as three
arrays) and the strategy submits them as they arrive: for clients that cannot reach the sparseagg server.

Flower waits for every client, an hour by default. `round_options={"goal": 40, "grace": 10, "deadline": 600}` ends a round
10 s after 40 updates, or after 600 s, even if other clients have not replied; an update that arrives later is refused,
which Flower reports as the failure of its client.

Without Flower's SuperLink: `client_worker` makes a ClientApp the function of a worker (`sparseagg.worker`), which comes for
its work to the sparseagg server.

The round has the types of the arrays that were sent out. A reply of another type is rounded to them once, to nearest, which
is logged; whole numbers and truth values are averaged in float64, as by FedAvg; arrays without values stay as they are.
"""

from __future__ import annotations

from sparseagg.flower._client_app import ClientApp, SparseUpload
from sparseagg.flower._model import apply_result, specs_of_arrays
from sparseagg.flower._numpy_client import numpy_client_mod
from sparseagg.flower._records import sparse_record, tensors_of
from sparseagg.flower._strategies import (
    SparseFedAdagrad,
    SparseFedAdam,
    SparseFedAvg,
    SparseFedAvgM,
    SparseFedProx,
    SparseFedYogi,
)
from sparseagg.flower._worker import client_worker, train_payload

__all__ = [
    "ClientApp",
    "SparseFedAdagrad",
    "SparseFedAdam",
    "SparseFedAvg",
    "SparseFedAvgM",
    "SparseFedProx",
    "SparseFedYogi",
    "SparseUpload",
    "apply_result",
    "client_worker",
    "numpy_client_mod",
    "sparse_record",
    "specs_of_arrays",
    "tensors_of",
    "train_payload",
]
