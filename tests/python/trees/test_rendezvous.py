"""Who belongs to which leaf: the same as in C++."""

from __future__ import annotations

import json

from conftest import ROOT
from sparseagg._net.rendezvous import choose_leaf, weight


def test_weights_are_those_of_the_vectors():
    cases = json.loads((ROOT / "tests/vectors/rendezvous.json").read_text())
    assert len(cases) >= 20
    for case in cases:
        names = (case["round"], case["contributor"])
        weights = [format(weight(*names, leaf), "016x") for leaf in case["leaves"]]
        assert weights == case["weights"]
        assert case["leaves"][choose_leaf(*names, case["leaves"])] == case["leaf"]
