"""How far a transfer is: functions that are told, and tqdm's bar where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from sparseagg import TensorSpec, Update
from sparseagg._progress import Meter

ROWS = 100_000


def test_a_large_update_and_its_result_tell_how_far_they_are(client):
    round = client.create_round([TensorSpec("emb", [ROWS, 64])])
    sent, received = [], []
    update = (np.arange(ROWS), np.ones((ROWS, 64), np.float32), [ROWS, 64])
    round.submit(
        {"emb": update},
        contributor="a",
        encoding="coo.raw",  # packed, ones are too few bytes for chunks
        progress=lambda done, total: sent.append((done, total)),
    )
    round.seal()
    round.result(progress=lambda done, total: received.append((done, total)))
    round.delete()
    for steps in (sent, received):
        assert len(steps) > 10
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1] > ROWS * 64 * 4


def test_many_updates_count_bytes_of_an_unknown_total(client):
    round = client.create_round([TensorSpec("one", [100])])
    sent = []
    updates = [Update({"one": ([n], np.float32([1]), [100])}, f"c{n}") for n in range(5)]
    round.submit_many(updates, progress=lambda done, total: sent.append((done, total)))
    assert sent == [(8 * n, None) for n in range(1, 6)]


def test_what_is_sent_again_does_not_pass_the_total():
    seen = []
    meter = Meter(lambda done, total: seen.append(done), 10, "sending")
    for _ in range(3):
        meter.advance(4)
    assert seen == [4, 8, 10]


def test_true_shows_a_bar_where_tqdm_is_installed(capsys):
    pytest.importorskip("tqdm")
    with Meter(True, 10, "sending") as meter:
        meter.advance(10)
    assert "sending: 100%" in capsys.readouterr().err
