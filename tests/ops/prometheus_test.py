"""The real Prometheus scrapes a real server, with the rules and the dashboard of docker/.

Usage: prometheus_test.py SPARSEAGG
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
from server import Server, free_port

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from sparseagg import Client, SparseTensor, TensorSpec  # noqa: E402

BINARY = sys.argv[1]


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(BINARY)
        with Client(cls.server.target) as client:
            handle = client.create_round([TensorSpec("t", [10], "f32", sparse_dim=1)])
            handle.submit({"t": SparseTensor([1], np.float32([1]), [10])}, contributor="a")
            handle.seal()
            handle.result()
        cls.folder = tempfile.TemporaryDirectory()
        config = Path(cls.folder.name) / "prometheus.yml"
        target = cls.server.admin.removeprefix("http://").rstrip("/")
        config.write_text(
            (ROOT / "docker/prometheus/prometheus.yml")
            .read_text()
            .replace("server:50062", target)
            .replace("10s", "1s")
            .replace("alerts.yaml", str(ROOT / "docker/prometheus/alerts.yaml"))
        )
        cls.address = f"127.0.0.1:{free_port()}"
        cls.prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={cls.folder.name}/tsdb",
                f"--web.listen-address={cls.address}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        cls.wait_for('up{job="sparseagg"} == 1')

    @classmethod
    def tearDownClass(cls) -> None:
        cls.prometheus.terminate()
        cls.prometheus.wait(30)
        cls.server.stop()
        cls.folder.cleanup()

    @classmethod
    def ask(cls, path: str, **parameters: str) -> dict:
        url = f"http://{cls.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    @classmethod
    def wait_for(cls, expression: str) -> list:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                result = cls.ask("query", query=expression)["result"]
                if result:
                    return result
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"no result for {expression}")

    def test_scrapes_the_counts(self) -> None:
        result = self.wait_for('sparseagg_updates_total{outcome="accepted"}')
        self.assertEqual(result[0]["value"][1], "1")
        self.assertTrue(self.wait_for('sparseagg_rounds{state="PUBLISHED"} == 1'))

    def test_has_the_rules_and_none_fires(self) -> None:
        groups = self.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreaterEqual(len(rules), 12)
        self.assertEqual([rule["name"] for rule in rules if rule["health"] == "err"], [])
        self.assertEqual([rule["name"] for rule in rules if rule["state"] == "firing"], [])

    def test_every_query_of_the_dashboard_is_valid_and_names_known_metrics(self) -> None:
        # A counter with labels appears when it is counted first; the list is compared with a server in e2e/admin_test.
        known = set(
            re.findall(r"^\| `(\w+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE)
        )
        dashboard = json.loads((ROOT / "docker/grafana/sparseagg.json").read_text())
        queries = [
            target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])
        ]
        self.assertGreater(len(queries), 20)
        for query in queries:
            self.ask(
                "query", query=query.replace("$instance", ".*").replace("$__rate_interval", "1m")
            )
            for name in re.findall(r"\b((?:sparseagg|process|grpc_server)_\w+)\{", query):
                self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), known, query)

    def test_promtool_has_nothing_to_say(self) -> None:
        with urllib.request.urlopen(self.server.admin + "metrics") as answer:
            check = subprocess.run(
                ["promtool", "check", "metrics"],
                input=answer.read(),
                capture_output=True,
                check=False,
            )
        self.assertEqual((check.returncode, check.stdout + check.stderr), (0, b""))
        folder = ROOT / "docker/prometheus"
        subprocess.run(["promtool", "check", "rules", "alerts.yaml"], cwd=folder, check=True)
        subprocess.run(["promtool", "test", "rules", "alerts_test.yaml"], cwd=folder, check=True)

    def test_the_committed_dashboard_is_what_its_script_writes(self) -> None:
        made = subprocess.run(
            [sys.executable, ROOT / "docker/grafana/make_dashboard.py"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(made.stdout, (ROOT / "docker/grafana/sparseagg.json").read_text())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
