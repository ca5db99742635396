"""Every unary call in every protocol of the HTTP edge: the answers and the errors are those of JSON."""

from __future__ import annotations

import base64
import http.client
import json
import re
from urllib.parse import unquote

import grpc
import numpy as np
import pytest
from conftest import ROOT
from google.protobuf.descriptor_pb2 import MethodDescriptorProto
from google.protobuf.json_format import MessageToDict, ParseDict
from sparseagg._proto import aggregation_pb2, tasks_pb2
from support.http_edge import base64_of, frame, frames, spec, start, tensor

PROTOCOLS = (
    "application/proto",
    "application/grpc-web+proto",
    "application/grpc-web",
    "application/grpc-web-text+proto",
    "application/grpc-web-text",
)
# Where the page shows the partial aggregate with 1, 2 and 3 of one contributor.
PAGE_PARTIAL = r"^partial\+?=(\S+)$"
# What differs from server to server, or with the time.
VOLATILE = set(
    "createTime endTime sealTime publishTime timeLeft measuredSeconds load token storeId".split()
)


def is_unary(method):
    description = MethodDescriptorProto()
    method.CopyToProto(description)
    return not (description.client_streaming or description.server_streaming)


METHODS = {
    f"{service.name}/{method.name}": method
    for file in (aggregation_pb2, tasks_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if is_unary(method)
}


class CallError(Exception):
    """code: in lower case. details: bytes that have the details of the error among them."""

    def __init__(self, status, code, message, details):
        super().__init__(f"{code}: {message}")
        self.status, self.code, self.message, self.details = status, code, message, details


class Calls:
    """Calls in one protocol, with requests and answers as JSON has them."""

    def __init__(self, port, protocol):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._protocol = protocol
        self.made = set()

    def __call__(self, path, request):
        self.made.add(path)
        method = METHODS[path]
        if self._protocol == "application/json":
            answer = self._answer(path, json.dumps(request).encode())
            return json.loads(answer)
        message = ParseDict(request, method.input_type._concrete_class()).SerializeToString()
        if self._protocol == "application/proto":
            answer = self._answer(path, message)
        else:
            answer = self._answer_in_frames(path, message)
        return MessageToDict(method.output_type._concrete_class.FromString(answer))

    def _post(self, path, body):
        kind = {"Content-Type": self._protocol}
        self._connection.request("POST", f"/sparseagg.v1.{path}", body, kind)
        answer = self._connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()

    def _answer(self, path, body):
        status, kind, answer = self._post(path, body)
        if status != 200:
            assert kind == "application/json", "as Connect has it"
            error = json.loads(answer)
            details = b"".join(
                base64.b64decode(one["value"] + "==") for one in error.get("details", [])
            )
            raise CallError(status, error["code"], error["message"], details)
        assert kind == self._protocol
        return answer

    def _answer_in_frames(self, path, message):
        is_text = "-text" in self._protocol
        body = frame(message)
        status, kind, answer = self._post(path, base64.b64encode(body) if is_text else body)
        assert (status, kind) == (200, self._protocol.replace("+proto", "") + "+proto")
        *messages, (flags, trailers) = frames(base64.b64decode(answer) if is_text else answer)
        assert flags == 0x80
        fields = dict(line.split(": ", 1) for line in trailers.decode().splitlines())
        if fields["grpc-status"] != "0":
            assert not messages
            codes = {str(code.value[0]): code.name.lower() for code in grpc.StatusCode}
            details = base64.b64decode(fields["grpc-status-details-bin"] + "==")
            message = unquote(fields["grpc-message"])
            raise CallError(status, codes[fields["grpc-status"]], message, details)
        ((flags, answer),) = messages
        assert flags == 0
        return answer


def stable(answer):
    """Without the fields that no other server would repeat."""
    if isinstance(answer, dict):
        return {key: stable(value) for key, value in answer.items() if key not in VOLATILE}
    return [stable(one) for one in answer] if isinstance(answer, list) else answer


def everything(calls, partial):
    """Makes all unary calls: a round from its creation to its deletion, tasks, a partial aggregate. Returns the answers."""
    answers = []

    def call(method, **request):
        answer = calls(f"AggregationService/{method}", request)
        answers.append((method, stable(answer)))
        return answer

    def task(method, **request):
        answer = calls(f"TaskService/{method}", request)
        answers.append((method, stable(answer)))
        return answer

    def header(contributor, round="rounds/r"):
        return {"round": round, "contributor": contributor, "updateId": "1"}

    indices, values = np.array([3, 17], "<i8").tobytes(), np.array([1, 2], "<f4").tobytes()
    call("GetServerInfo")
    call("CreateRound", roundId="r", spec=spec(100, keepUpdatesUntilDeleted=True))
    call("GetRound", name="rounds/r")
    contributors = {"contributors": ["a", "b"]}
    group = {"groupId": "g", "pool": "p", "round": "rounds/r", "contributors": contributors}
    task("CreateTasks", groups=[group | {"lease": "600s", "payload": base64_of(b"\0\xff")}])
    leases = [one["lease"] for one in task("AcquireTasks", worker="w", pools=["p"], max=2)["tasks"]]
    task("RenewTasks", leases=leases)
    whole = {"name": "t", "valueType": "VALUE_TYPE_F32", "denseShape": [100], "sparseDim": 1}
    update = {
        "header": whole | {"nnz": 2},
        "indices": base64_of(indices),
        "values": base64_of(values),
    }
    receipt = call("SubmitUpdate", header=header("a"), tensors=[update])
    task("CompleteTask", lease=leases[0], receipt=receipt)
    task("FailTask", lease=leases[1], reason="no power", retryable=True)
    task("GetTask", name="taskgroups/g/tasks/2")
    task("ListTasks", group="taskgroups/g")
    task("CancelTasks", names=["taskgroups/g"])
    task("WaitTasks", group="taskgroups/g")
    begin = {"header": header("c"), "tensors": [tensor("t", 100, 2)]}
    data = indices + values
    first = {"offset": 0, "data": base64_of(data[:9])}
    assert call("UploadChunk", begin=begin, chunk=first)["progress"]["committedOffset"] == "9"
    call("UploadChunk", begin=begin, chunk={"offset": 9, "data": base64_of(data[9:])})
    call("SealRound", name="rounds/r")
    assert call("WaitRound", name="rounds/r")["contributors"] == "2"
    read = call("ReadResult", result={"name": "rounds/r"})
    values = np.array([2, 4], "<f4").tobytes()
    assert base64.b64decode(read["chunk"]["data"]) == indices + values
    assert call("VerifyRound", name="rounds/r")["contributors"] == "2"
    assert len(call("ListRounds", pageSize=10)["rounds"]) == 1
    assert call("DeleteRound", name="rounds/r") == {}
    dense = {"name": "w", "valueType": "VALUE_TYPE_F64", "denseShape": [3]}
    call("CreateRound", roundId="root", spec={"tensors": [dense]})
    call("SubmitPartial", header=header("leaf", "rounds/root"), partial=partial)
    assert call("AbortRound", name="rounds/root")["state"] == "ROUND_STATE_ABORTED"
    return answers


@pytest.fixture(scope="module")
def partial():
    """In base64."""
    page = (ROOT / "docs/http.md").read_text()
    return "".join(re.findall(PAGE_PARTIAL, page, re.MULTILINE))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_call_has_the_answer_of_json(own_server, tmp_path, protocol, partial):
    answers = {}
    for kind in ("application/json", protocol):
        folder = tmp_path / kind.replace("/", "_")
        folder.mkdir()
        _, port = start(own_server, folder, f"--data-dir={folder / 'data'}")
        calls = Calls(port, kind)
        answers[kind] = everything(calls, partial)
        assert calls.made == set(METHODS)
    assert len(answers[protocol]) == len(answers["application/json"]) > len(METHODS)
    for expected, found in zip(answers["application/json"], answers[protocol]):
        assert found == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_call_has_the_error_of_json(own_server, tmp_path, protocol):
    _, port = start(own_server, tmp_path)
    in_json, calls = Calls(port, "application/json"), Calls(port, protocol)
    without_arguments = {"ListRounds", "ListTasks", "GetServerInfo"}
    for path in METHODS:
        if path.partition("/")[2] in without_arguments:
            assert stable(calls(path, {})) == stable(in_json(path, {}))
            continue
        with pytest.raises(CallError) as expected:
            in_json(path, {})
        with pytest.raises(CallError) as found:
            calls(path, {})
        expected, found = expected.value, found.value
        assert (found.code, found.message) == (expected.code, expected.message)
        assert found.code == "invalid_argument"
        assert expected.details and expected.details in found.details
        assert found.status == (400 if protocol == "application/proto" else 200)
