"""Lets clients of Flower's former interface, `NumPyClient` and `Client`, work with strategies of the present one.

Their messages have records with other names, arrays without names, and one metric "num_examples" beside the client's
own metrics. The mod below translates in both directions inside the client, so nothing more is sent.
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

# The former names of a message's records and of its reply's.
_NAMES = {
    MessageType.TRAIN: ("fitins", "fitres"),
    MessageType.EVALUATE: ("evaluateins", "evaluateres"),
}
# Flower's own name of the weight, for strategies of others, which do not name it.
_WEIGHT_KEY = "num-examples"
# Flower's error for a message that reaches such a client untranslated contains one of these names.
_UNTRANSLATED = tuple(f"{asked}.parameters" for asked, _ in _NAMES.values())


def numpy_client_mod(message: Message, context: Any, call_next: Any) -> Message:
    """The mod for `ClientApp(client_fn, mods=[SparseUpload(), numpy_client_mod])`; `sparseagg.flower.ClientApp` has it.

    The client gets the arrays in the order of the strategy's ArrayRecord and returns the same number of arrays; its
    `config` is the strategy's ConfigRecord. Its numeric metrics become metrics of the reply, with the weight and, in an
    evaluation, "loss". Messages of Flower's former strategies pass unchanged.

    Raises InvalidUpdateError if the client returns more or fewer arrays than it got.
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
    """Returns how to correct the ClientApp if `reason` is the error of such a client without this mod; otherwise ""."""
    if not any(name in reason for name in _UNTRANSLATED):
        return ""
    return "; its ClientApp has a client_fn (NumPyClient): write `from sparseagg.flower import ClientApp`"


def _config_of(content: RecordDict) -> ConfigRecord:
    others = {name: record for name, record in content.config_records.items() if name != KEY}
    return only(others, "ConfigRecord") if others else ConfigRecord()


def _records_of(content: RecordDict, answered: str, weight_key: str) -> dict[str, Any]:
    """Returns the records of a reply without its arrays."""
    status = content.config_records.get(f"{answered}.status", {})
    if status.get("code"):
        raise SparseAggError(f"the client replies {status['message']!r} (code {status['code']})")
    given = content.config_records.get(f"{answered}.metrics", {})
    metrics = {name: value for name, value in given.items() if type(value) in (int, float)}
    if answered == "evaluateres":
        metrics["loss"] = content[f"{answered}.loss"]["loss"]
    metrics[weight_key] = content[f"{answered}.num_examples"]["num_examples"]
    # The second record has also the texts, bytes and booleans, which a MetricRecord does not accept.
    return {"metrics": MetricRecord(metrics), f"{answered}.metrics": ConfigRecord(dict(given))}


def _named(record: ArrayRecord, names: list[str]) -> ArrayRecord:
    """Returns the arrays of a reply under the names with which they were sent to the client."""
    arrays = [array.numpy() for array in record.values() if array.data]
    if len(arrays) != len(names):
        raise InvalidUpdateError(
            f"the client returns {len(arrays)} arrays, and was sent {len(names)}: {', '.join(names)}"
        )
    return ArrayRecord({name: Array(array) for name, array in zip(names, arrays)})
