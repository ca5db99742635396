"""The asyncio client: the same calls as `sparseagg.Client`, awaited. A client belongs to one event loop, that of its first
call.

    from sparseagg.aio import Client

    async with Client("127.0.0.1:50061") as client:
        round = await client.create_round([TensorSpec("emb", [50000, 64])])
        await round.submit({"emb": SparseTensor(rows, values, [50000, 64])}, contributor="phone-17", weight=128)
        await round.seal()
        aggregate = (await round.result())["emb"]

Errors, arguments and results are those of the blocking client.
"""

from sparseagg.aio.client import Client
from sparseagg.aio.pipeline import Pipeline
from sparseagg.aio.round import Round
from sparseagg.aio.tasks import Tasks

__all__ = ["Client", "Pipeline", "Round", "Tasks"]
