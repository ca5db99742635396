"""Clients of Flower's former interface, `NumPyClient` and `Client`, for strategies of the present one.

Their messages have records of other names, arrays without names, and one metric "num_examples" beside those that the
client gives. The mod below translates in both directions, inside of the client: nothing more travels.
"""

from __future__ import annotations

from typing import Any

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)

from sparseagg.errors import InvalidUpdateError, SparseAggError
from sparseagg.flower._records import KEY, only, only_key

# What a message is called there, and its reply.
_NAMES = {
    MessageType.TRAIN: ("fitins", "fitres"),
    MessageType.EVALUATE: ("evaluateins", "evaluateres"),
}
# Flower's own name of the weight, where the strategy is not ours and names none.
_WEIGHT_KEY = "num-examples"
# What an error of Flower says where such a client gets a message that nobody has translated.
_UNTRANSLATED = tuple(f"{asked}.parameters" for asked, _ in _NAMES.values())


def numpy_client_mod(message: Message, context: Any, call_next: Any) -> Message:
    """A mod for `ClientApp(client_fn, mods=[SparseUpload(), numpy_client_mod])`, which `sparseagg.flower.ClientApp` has.

    The client gets the arrays in the order of the strategy's ArrayRecord and returns as many; its `config` is the
    strategy's ConfigRecord. Numbers among its metrics become metrics of the reply, beside the weight and, in an
    evaluation, "loss". Messages of Flower's former strategies pass unchanged.

    Raises InvalidUpdateError where the client returns more or fewer arrays than it got.
    """
    asked, answered = _NAMES.get(message.metadata.message_type, ("", ""))
    if not asked or f"{asked}.parameters" in message.content:
        return call_next(message, context)
    given = message.content
    key = only_key(given.array_records, "ArrayRecord")
    order = given.config_records.get(KEY, {})
    message.content = RecordDict(
        {f"{asked}.parameters": given[key], f"{asked}.config": _config_of(given)}
    )
    try:
        reply = call_next(message, context)
    finally:
        message.content = given
    if not reply.has_error():
        records = _records_of(reply.content, answered, order.get("weight-key", _WEIGHT_KEY))
        if message.metadata.message_type == MessageType.TRAIN:
            records[key] = _named(reply.content[f"{answered}.parameters"], list(given[key]))
        reply.content = RecordDict(records)
    return reply


def hint_for(reason: str) -> str:
    """What to change where `reason` is the error of such a client that nobody translates for; else nothing."""
    if not any(name in reason for name in _UNTRANSLATED):
        return ""
    return "; its ClientApp has a client_fn (NumPyClient): write `from sparseagg.flower import ClientApp`"


def _config_of(content: RecordDict) -> ConfigRecord:
    others = {name: record for name, record in content.config_records.items() if name != KEY}
    return only(others, "ConfigRecord") if others else ConfigRecord()


def _records_of(content: RecordDict, answered: str, weight_key: str) -> dict[str, Any]:
    """The records of a reply without its arrays."""
    status = content.config_records.get(f"{answered}.status", {})
    if status.get("code"):
        raise SparseAggError(f"the client replies {status['message']!r} (code {status['code']})")
    given = content.config_records.get(f"{answered}.metrics", {})
    metrics = {name: value for name, value in given.items() if type(value) in (int, float)}
    if answered == "evaluateres":
        metrics["loss"] = content[f"{answered}.loss"]["loss"]
    metrics[weight_key] = content[f"{answered}.num_examples"]["num_examples"]
    # The second has texts, bytes and truth values, too, which no MetricRecord takes.
    return {"metrics": MetricRecord(metrics), f"{answered}.metrics": ConfigRecord(dict(given))}


def _named(record: ArrayRecord, names: list[str]) -> ArrayRecord:
    """The arrays of a reply, under the names that they were sent with."""
    arrays = [array.numpy() for array in record.values() if array.data]
    if len(arrays) != len(names):
        raise InvalidUpdateError(
            f"the client returns {len(arrays)} arrays, and was sent {len(names)}: {', '.join(names)}"
        )
    return ArrayRecord({name: Array(array) for name, array in zip(names, arrays)})
