"""Machines with a network: Linux namespaces, each with one link to a router, which can cut it. Only root may make them.

Nothing of this machine's own network changes, and all of it goes when the process that made it ends.
"""

from __future__ import annotations

import json
import re
import subprocess

CUTS = ("down", "silent", "answers")


class Namespace:
    """A network namespace, held by a process that ends with this one."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._holder.stdout.readline() != "ready\n":
            raise OSError(self._holder.communicate()[1].strip())
        self.pid = self._holder.pid
        self.prefix = ("nsenter", "--net", "--target", str(self.pid))

    def run(self, *command: str) -> str:
        """The output of a command that must succeed."""
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        self._holder.communicate()


class Node(Namespace):
    """A machine with an address."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.address = f"10.77.{number}.2"
        self.router_address = f"10.77.{number}.1"
        self.link = f"to{number}"

    def waits_for(self, other: Node) -> bool:
        """Whether a connection of this node sends something to the other again, because no answer has come."""
        sockets = self.run("ss", "--tcp", "--options", "--no-header", "dst", other.address)
        return any(int(count) > 0 for count in re.findall(r"timer:\(on,[^,]*,(\d+)\)", sockets))

    def is_connected_to(self, other: Node) -> bool:
        """Whether this node has a connection to the other, or believes so."""
        filters = ("state", "established", "dst", other.address)
        return bool(self.run("ss", "--tcp", "--no-header", *filters).strip())


class Network:
    """The nodes and the router between them."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._router = Namespace()
        self._router.run("ip", "link", "set", "lo", "up")
        self._router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")

    def add(self) -> Node:
        node = Node(len(self.nodes))
        self.nodes.append(node)
        ends = ("type", "veth", "peer", "name", "eth0", "netns", str(node.pid))
        self._router.run("ip", "link", "add", node.link, *ends)
        self._router.run("ip", "address", "add", f"{node.router_address}/24", "dev", node.link)
        self._router.run("ip", "link", "set", node.link, "up")
        node.run("ip", "link", "set", "lo", "up")
        node.run("ip", "address", "add", f"{node.address}/24", "dev", "eth0")
        node.run("ip", "link", "set", "eth0", "up")
        node.run("ip", "route", "add", "default", "via", node.router_address)
        return node

    def cut(self, node: Node, how: str) -> None:
        """how: "down": the link is down, and who sends is told so; "silent": packets vanish; "answers": those from the
        node vanish, and those to it arrive."""
        self._change(node, how, "down", "add")

    def join(self, node: Node, how: str) -> None:
        """Takes a cut back."""
        self._change(node, how, "up", "del")

    def _change(self, node: Node, how: str, state: str, rule: str) -> None:
        assert how in CUTS
        if how == "down":
            self._router.run("ip", "link", "set", node.link, state)
            return
        self._router.run("ip", "rule", rule, "from", node.address, "blackhole")
        if how == "silent":
            self._router.run("ip", "rule", rule, "to", node.address, "blackhole")

    def part(self, one: Node, other: Node) -> None:
        """Packets between these two vanish; both reach all others."""
        self._change_between(one, other, "add")

    def reunite(self, one: Node, other: Node) -> None:
        self._change_between(one, other, "del")

    def _change_between(self, one: Node, other: Node, rule: str) -> None:
        for sender, receiver in ((one, other), (other, one)):
            ends = ("from", sender.address, "to", receiver.address)
            self._router.run("ip", "rule", rule, *ends, "blackhole")

    def slow_down(self, node: Node, bits_per_second: int) -> None:
        """What the node receives comes at this rate."""
        limits = ("rate", f"{bits_per_second}bit", "burst", "64kb", "latency", "100ms")
        self._router.run("tc", "qdisc", "replace", "dev", node.link, "root", "tbf", *limits)

    def speed_up(self, node: Node) -> None:
        self._router.run("tc", "qdisc", "delete", "dev", node.link, "root")

    def bytes_to(self, node: Node) -> int:
        shown = self._router.run("ip", "-json", "-statistics", "link", "show", "dev", node.link)
        return json.loads(shown)[0]["stats64"]["tx"]["bytes"]

    def close(self) -> None:
        for node in (*self.nodes, self._router):
            node.close()
