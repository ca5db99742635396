"""docker/kubernetes/tree: the root and the leaves as kustomize renders them, and the program with their settings.

Usage: tree_manifests_test.py SPARSEAGG      with the packages of manifests_requirements.txt (tests/ops/run)
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.request

import kubernetes_validate
import yaml
from manifests_test import KUBERNETES, ROOT, has_kustomize, of_kind, render
from server import Server, free_port

BINARY = sys.argv[1]
FOLDERS = ("cpu", "gpu", "tree/leaves", "tree/root")
ROWS = 200_000  # of which each of three owners has some


def container_of(documents: list[dict]) -> dict:
    [statefulset] = of_kind(documents, "StatefulSet")
    [container] = statefulset["spec"]["template"]["spec"]["containers"]
    return container


def labels_of_pods(documents: list[dict]) -> dict[str, str]:
    [statefulset] = of_kind(documents, "StatefulSet")
    return statefulset["spec"]["template"]["metadata"]["labels"]


def settings_of(documents: list[dict]) -> dict[str, str]:
    """The variables of the pod: those of the image, then those of the manifest."""
    image = (ROOT / "docker/cpu.Dockerfile").read_text()
    lines = re.search(r"^ENV (SPARSEAGG_(?:.*\\\n)*.*)", image, re.MULTILINE).group(1)
    settings = dict(re.findall(r"(SPARSEAGG_[A-Z_]+)=(\S+)", lines))
    return {**settings, **{e["name"]: e["value"] for e in container_of(documents)["env"]}}


def leaves_of(documents: list[dict], setting: str = "SPARSEAGG_LEAVES") -> dict[str, str]:
    """Address by id, of the root's setting, or of a leaf's."""
    text = settings_of(documents)[setting]
    return dict(leaf.split("=") for leaf in text.split(","))


def selectors_of(documents: list[dict]) -> list[dict]:
    """What selects pods: of Services, the StatefulSet, the disruption budget and the network policy."""
    found = [service["spec"]["selector"] for service in of_kind(documents, "Service")]
    for kind in ("StatefulSet", "PodDisruptionBudget"):
        found += [one["spec"]["selector"]["matchLabels"] for one in of_kind(documents, kind)]
    for policy in of_kind(documents, "NetworkPolicy"):
        found.append(policy["spec"]["podSelector"]["matchLabels"])
    return found


def selects(selector: dict, labels: dict) -> bool:
    return selector.items() <= labels.items()


@unittest.skipUnless(has_kustomize(), "there is no kubectl with kustomize 5")
class TreeTest(unittest.TestCase):
    """The two folders together, as they are in one namespace."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.root = render("tree/root")
        cls.leaves = render("tree/leaves")

    def test_everything_fits_the_schemas(self) -> None:
        for documents in (self.root, self.leaves):
            self.assertGreaterEqual(len(documents), 6)
            for document in documents:
                kubernetes_validate.validate(
                    document, kubernetes_validate.latest_version(), strict=True
                )

    def test_nothing_of_the_one_replaces_something_of_the_other(self) -> None:
        names = [{(d["kind"], d["metadata"]["name"]) for d in x} for x in (self.root, self.leaves)]
        self.assertEqual(names[0] & names[1], set())

    def test_each_selects_its_own_pods_only(self) -> None:
        root, leaf = labels_of_pods(self.root), labels_of_pods(self.leaves)
        for selector in selectors_of(self.root):
            self.assertTrue(selects(selector, root) and not selects(selector, leaf), selector)
        for selector in selectors_of(self.leaves):
            self.assertTrue(selects(selector, leaf) and not selects(selector, root), selector)

    def test_root_and_leaves_name_every_leaf_by_the_name_that_its_pod_keeps(self) -> None:
        [statefulset] = of_kind(self.leaves, "StatefulSet")
        name, spec = statefulset["metadata"]["name"], statefulset["spec"]
        ports = {port["name"]: port["containerPort"] for port in container_of(self.leaves)["ports"]}
        expected = {
            f"leaf-{number}": f"{name}-{number}.{spec['serviceName']}:{ports['grpc']}"
            for number in range(spec["replicas"])
        }
        self.assertEqual(leaves_of(self.root), expected)
        self.assertEqual(leaves_of(self.leaves, "SPARSEAGG_PEERS"), expected)
        [governing] = [
            service
            for service in of_kind(self.leaves, "Service")
            if service["metadata"]["name"] == spec["serviceName"]
        ]
        # Only a headless Service gives each pod a name, and a leaf that recovers must be found, too.
        self.assertEqual(governing["spec"]["clusterIP"], "None")
        self.assertTrue(governing["spec"]["publishNotReadyAddresses"])

    def test_the_policies_let_root_leaves_and_clients_reach_the_leaves_and_nobody_else(
        self,
    ) -> None:
        [of_root] = of_kind(self.root, "NetworkPolicy")
        [of_leaves] = of_kind(self.leaves, "NetworkPolicy")
        root, leaf = labels_of_pods(self.root), labels_of_pods(self.leaves)
        for policy in (of_root, of_leaves):
            to_leaves, to_names = policy["spec"]["egress"]
            [peer] = to_leaves["to"]
            self.assertTrue(selects(peer["podSelector"]["matchLabels"], leaf))
            self.assertEqual(to_leaves["ports"], [{"port": "grpc", "protocol": "TCP"}])
            self.assertEqual({port["port"] for port in to_names["ports"]}, {53})
        callers = [
            peer["podSelector"]["matchLabels"] for peer in of_leaves["spec"]["ingress"][0]["from"]
        ]
        self.assertEqual(callers[0], {"sparseagg-client": "true"})
        of_the_root, of_a_leaf = callers[1:]
        self.assertTrue(selects(of_the_root, root) and selects(of_a_leaf, leaf))
        self.assertEqual(
            of_leaves["spec"]["ingress"][0]["ports"], [{"port": "grpc", "protocol": "TCP"}]
        )

    def test_a_rolling_update_takes_one_leaf_at_a_time_and_leaves_the_volume(self) -> None:
        [statefulset] = of_kind(self.leaves, "StatefulSet")
        spec = statefulset["spec"]
        self.assertEqual(spec["updateStrategy"], {"type": "RollingUpdate"})
        # One after the other, each when the one before is ready.
        self.assertNotIn("podManagementPolicy", spec)
        self.assertIn("readinessProbe", container_of(self.leaves))
        [budget] = of_kind(self.leaves, "PodDisruptionBudget")
        self.assertEqual(budget["spec"]["maxUnavailable"], 1)
        [claim] = spec["volumeClaimTemplates"]
        [mount] = container_of(self.leaves)["volumeMounts"]
        self.assertEqual(mount["name"], claim["metadata"]["name"])
        self.assertEqual(mount["mountPath"], settings_of(self.leaves)["SPARSEAGG_DATA_DIR"])
        self.assertNotIn("persistentVolumeClaimRetentionPolicy", spec)  # by default it stays

    def test_a_leaf_is_the_server_of_the_gpu_folder_and_the_root_that_of_the_cpu_folder(
        self,
    ) -> None:
        for documents, folder, name in (
            (self.leaves, "gpu", "SPARSEAGG_PEERS"),
            (self.root, "cpu", "SPARSEAGG_LEAVES"),
        ):
            container = container_of(documents)
            *env, added = container["env"]
            self.assertEqual(added["name"], name)
            self.assertEqual({**container, "env": env}, container_of(render(folder)))

    def test_the_monitor_scrapes_leaves_and_root(self) -> None:
        monitor = yaml.safe_load((KUBERNETES / "cpu/servicemonitor.yaml").read_text())
        wanted = monitor["spec"]["selector"]["matchLabels"]
        services = of_kind([*self.root, *self.leaves], "Service")
        found = [
            s["metadata"]["name"] for s in services if selects(wanted, s["metadata"]["labels"])
        ]
        self.assertEqual(sorted(found), ["sparseagg-admin", "sparseagg-admin-leaf"])


@unittest.skipUnless(has_kustomize(), "there is no kubectl with kustomize 5")
class ProgramTest(unittest.TestCase):
    """The program with the settings of the manifests."""

    def configuration(self, settings: dict[str, str]) -> dict[str, str]:
        """What the program makes of the pod's variables, which must all be settings."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARSEAGG_")}
        run = subprocess.run(
            [BINARY, "serve", "--check-config"],
            env={**environment, **settings},
            capture_output=True,
            text=True,
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        lines = (line.split("  # ")[0].split(" = ", 1) for line in run.stdout.splitlines())
        return {name: value.strip('"') for name, value in lines}

    def test_it_takes_every_setting_and_listens_on_the_ports_of_the_pod(self) -> None:
        for folder in FOLDERS:
            with self.subTest(folder=folder):
                documents = render(folder)
                self.assertEqual(container_of(documents)["args"], ["serve"])
                [statefulset] = of_kind(documents, "StatefulSet")
                # Otherwise Kubernetes adds SPARSEAGG_PORT and others, which are no settings.
                self.assertFalse(statefulset["spec"]["template"]["spec"]["enableServiceLinks"])
                found = self.configuration(settings_of(documents))
                ports = {p["name"]: p["containerPort"] for p in container_of(documents)["ports"]}
                self.assertEqual(found["listen"], f"0.0.0.0:{ports['grpc']}")
                self.assertEqual(found["admin-listen"], f"0.0.0.0:{ports['admin']}")
                for name, value in settings_of(documents).items():
                    setting = name.removeprefix("SPARSEAGG_").lower().replace("_", "-")
                    self.assertEqual(found[setting], value)

    def test_leaves_remember_as_long_as_the_root(self) -> None:
        root, leaf = (
            self.configuration(settings_of(render(f"tree/{name}"))) for name in ("root", "leaves")
        )
        for setting in ("retry-horizon-ms", "result-retention-ms"):
            self.assertEqual(root[setting], leaf[setting])

    def start(self, documents: list[dict], *flags: str, **options: str) -> Server:
        """The pod's server on free ports of this machine, on its CPUs."""
        ours = (
            "LISTEN",
            "ADMIN_LISTEN",
            "DATA_DIR",
            "BACKEND",
            "LEAVES",
            "PEERS",
            "DRAIN_DELAY_MS",
        )
        settings = settings_of(documents)
        others = {k: v for k, v in settings.items() if k.removeprefix("SPARSEAGG_") not in ours}
        given = [
            f"--{k.removeprefix('SPARSEAGG_').lower().replace('_', '-')}={v}"
            for k, v in others.items()
        ]
        server = Server(BINARY, *given, "--drain-delay-ms=0", *flags, **options)
        self.addCleanup(server.kill)
        return server

    def wait_until_ready(self, server: Server, documents: list[dict]) -> None:
        """Asks what the probes ask."""
        container = container_of(documents)
        probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
        self.assertEqual({probe["httpGet"]["port"] for probe in probes}, {"admin"})
        for probe in probes:
            address = server.admin.rstrip("/") + probe["httpGet"]["path"]
            with urllib.request.urlopen(address, timeout=10) as answer:
                self.assertEqual(answer.status, 200, address)

    def command(self, *arguments: str) -> dict:
        run = subprocess.run([BINARY, *arguments, "--json"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return json.loads(run.stdout)

    def test_a_tree_of_these_servers_is_ready_and_survives_the_update_of_each(self) -> None:
        root_documents, leaf_documents = render("tree/root"), render("tree/leaves")
        ids = sorted(leaves_of(root_documents))
        ports = [free_port() for _ in ids]
        names = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(ids, ports, strict=True))
        leaves = [
            self.start(leaf_documents, f"--peers={names}", target=f"127.0.0.1:{port}")
            for port in ports
        ]
        root = self.start(root_documents, f"--leaves={names}")
        for server in (root, *leaves):
            self.wait_until_ready(server, leaf_documents)
        at_root = f"--server={root.target}"
        tensor = f"w:f32:{ROWS}x1:sparse_dim=2"
        matrix = root.folder / "w.mtx"
        matrix.write_text(f"%%MatrixMarket matrix coordinate real general\n{ROWS} 1 1\n1 1 1.5\n")
        for name, owners in (("r1", ()), ("r2", ("--owners",))):
            self.command("round", "create", "--id", name, "--tensor", tensor, *owners, at_root)
            for number in range(12):
                who = ("--contributor", f"c{number}")
                self.command("push", name, f"w={matrix}", *who, at_root)
        for server in (*reversed(leaves), root):  # the order of a StatefulSet
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
            server.start()
            self.wait_until_ready(server, leaf_documents)
        for name, owners in (("r1", []), ("r2", ids)):
            self.command("round", "seal", name, "--wait", at_root)
            manifest = self.command("round", "show", name, at_root)["manifest"]
            self.assertEqual(manifest["contributors"], 12)
            self.assertEqual([part["owner"] for part in manifest["parts"]], owners)
        deadline = time.monotonic() + 60
        status = self.command("tree", "status", at_root)["leaves"]
        while not all(leaf["up"] for leaf in status) and time.monotonic() < deadline:
            status = self.command("tree", "status", at_root)["leaves"]
        self.assertEqual([(leaf["id"], leaf["up"]) for leaf in status], [(n, True) for n in ids])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
