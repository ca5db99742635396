"""Kubernetes, Compose and Grafana understand the files of docker/.

Usage: manifests_test.py       with the packages of manifests_requirements.txt (tests/ops/run)

kubectl (its kustomize) and docker-compose are used where they are; the test says so where they are not.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

import kubernetes_validate
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "docker/kubernetes"
PROMETHEUS = ROOT / "docker/prometheus"


def load_all(text: str) -> list[dict]:
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents: list[dict], kind: str) -> list[dict]:
    return [document for document in documents if document["kind"] == kind]


def lost(before: object, after: object, path: str = "") -> list[str]:
    """Returns the paths that `before` has and `after` lacks; `after` may have more."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            place
            for key, value in before.items()
            for place in lost(value, after.get(key), f"{path}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            place
            for i, (one, other) in enumerate(zip(before, after, strict=True))
            for place in lost(one, other, f"{path}[{i}]")
        ]
    return [] if before == after else [path]


def has_kustomize() -> bool:
    if shutil.which("kubectl") is None:
        return False
    version = subprocess.run(
        ["kubectl", "version", "--client"], capture_output=True, text=True, check=False
    )
    return re.search(r"Kustomize Version: v[5-9]", version.stdout) is not None


def render(name: str) -> list[dict]:
    """A folder of docker/kubernetes as `kubectl apply -k` sends it."""
    run = subprocess.run(
        ["kubectl", "kustomize", KUBERNETES / name], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise AssertionError(run.stderr)
    return load_all(run.stdout)


@unittest.skipUnless(has_kustomize(), "there is no kubectl with kustomize 5")
class KustomizeTest(unittest.TestCase):
    """The manifests as `kubectl apply -k` sends them; tree_manifests_test.py has those of a tree."""

    def test_everything_that_is_applied_fits_the_schemas(self) -> None:
        for name in ["cpu", "gpu"]:
            documents = render(name)
            self.assertGreaterEqual(len(documents), 6)
            for document in documents:
                kubernetes_validate.validate(
                    document, kubernetes_validate.latest_version(), strict=True
                )

    def test_services_budget_policy_and_monitor_find_the_pods(self) -> None:
        documents = render("cpu")
        [statefulset] = of_kind(documents, "StatefulSet")
        labels = statefulset["spec"]["template"]["metadata"]["labels"].items()
        services = of_kind(documents, "Service")
        selectors = [service["spec"]["selector"] for service in services]
        selectors += [
            document["spec"]["selector"]["matchLabels"]
            for kind in ["StatefulSet", "PodDisruptionBudget"]
            for document in of_kind(documents, kind)
        ]
        [policy] = of_kind(documents, "NetworkPolicy")
        selectors.append(policy["spec"]["podSelector"]["matchLabels"])
        for selector in selectors:
            self.assertLessEqual(selector.items(), labels)
        ports = {
            port["name"]
            for container in statefulset["spec"]["template"]["spec"]["containers"]
            for port in container["ports"]
        }
        for service in services:
            self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports)
        monitor = yaml.safe_load((KUBERNETES / "cpu/servicemonitor.yaml").read_text())
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = [service for service in services if wanted <= service["metadata"]["labels"].items()]
        self.assertEqual([service["metadata"]["name"] for service in found], ["sparseagg-admin"])

    def test_a_client_needs_one_label_to_reach_the_server(self) -> None:
        [policy] = of_kind(render("cpu"), "NetworkPolicy")
        clients = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
        self.assertEqual(clients, {"sparseagg-client": "true"})

    def test_the_gpu_is_the_only_difference(self) -> None:
        [cpu] = of_kind(render("cpu"), "StatefulSet")
        [gpu] = of_kind(render("gpu"), "StatefulSet")
        pod = gpu["spec"]["template"]["spec"]
        self.assertEqual(pod["containers"][0]["resources"]["limits"].pop("nvidia.com/gpu"), 1)
        self.assertEqual(pod.pop("tolerations")[0]["key"], "nvidia.com/gpu")
        # A node whose driver is broken is to be noticed, not to compute on its CPU.
        self.assertEqual(
            pod["containers"][0]["env"].pop(), {"name": "SPARSEAGG_BACKEND", "value": "cuda"}
        )
        image = pod["containers"][0]["image"]
        pod["containers"][0]["image"] = image.removesuffix("-cuda")
        self.assertEqual(gpu, cpu)


class ManifestTest(unittest.TestCase):
    def test_every_file_fits_the_schemas(self) -> None:
        files = list((KUBERNETES / "cpu").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 6)
        for path in files:
            for document in load_all(path.read_text()):
                if document["kind"] in ["Kustomization", "ServiceMonitor"]:
                    continue
                kubernetes_validate.validate(
                    document, kubernetes_validate.latest_version(), strict=True
                )

    def test_the_monitor_fits_the_operators_resource(self) -> None:
        document = yaml.safe_load((KUBERNETES / "cpu/servicemonitor.yaml").read_text())
        model = operator.ServiceMonitor.model_validate(document)
        # Members that the resource does not have are dropped by the model.
        self.assertEqual(model.model_dump(by_alias=True, exclude_none=True), document)

    def test_the_monitor_makes_the_job_that_the_rules_ask_for(self) -> None:
        monitor = yaml.safe_load((KUBERNETES / "cpu/servicemonitor.yaml").read_text())
        kustomization = yaml.safe_load((KUBERNETES / "cpu/kustomization.yaml").read_text())
        [labels] = kustomization["labels"]  # of everything, the Services among it
        asked = set(re.findall(r'job="([^"]*)"', (PROMETHEUS / "alerts.yaml").read_text()))
        self.assertEqual(asked, {labels["pairs"][monitor["spec"]["jobLabel"]]})
        [scraped] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
        self.assertEqual(asked, {scraped["job_name"]})

    def test_the_pod_has_longer_to_stop_than_the_server_takes(self) -> None:
        statefulset = yaml.safe_load((KUBERNETES / "cpu/statefulset.yaml").read_text())
        pod = statefulset["spec"]["template"]["spec"]
        settings = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"]}
        server_ms = int(settings["SPARSEAGG_DRAIN_DELAY_MS"]) + int(
            settings["SPARSEAGG_DRAIN_TIMEOUT_MS"]
        )
        self.assertGreater(1000 * pod["terminationGracePeriodSeconds"], server_ms)

    def test_what_the_server_may_hold_leaves_a_quarter_of_the_pods_memory(self) -> None:
        statefulset = yaml.safe_load((KUBERNETES / "cpu/statefulset.yaml").read_text())
        [container] = statefulset["spec"]["template"]["spec"]["containers"]
        settings = {entry["name"]: entry["value"] for entry in container["env"]}
        held = int(settings["SPARSEAGG_STAGING_BYTES_MAX"]) + int(
            settings["SPARSEAGG_AGGREGATION_BYTES_MAX"]
        )
        resources = container["resources"]
        limit = int(resources["limits"]["memory"].removesuffix("Gi")) << 30
        self.assertLessEqual(held, limit * 3 // 4)
        # A pod that gets less than its limit is killed for what others take.
        self.assertEqual(resources["requests"]["memory"], resources["limits"]["memory"])


class ComposeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.path = ROOT / "docker/compose.yaml"
        self.services = yaml.safe_load(self.path.read_text())["services"]

    @unittest.skipUnless(shutil.which("docker-compose"), "there is no docker-compose")
    def test_docker_compose_understands_it(self) -> None:
        for profile in ["", "demo", "gpu"]:
            run = subprocess.run(
                ["docker-compose", "-f", self.path, "--profile", profile, "config", "--quiet"],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual((run.returncode, run.stderr), (0, ""), profile)

    def test_its_project_has_a_name_of_its_own(self) -> None:
        # That of the folder, "docker", is that of other checkouts, too: they would share containers and volumes.
        settings = (self.path.parent / ".env").read_text().splitlines()
        self.assertIn("COMPOSE_PROJECT_NAME=sparseagg", settings)
        # The test ends with `down -v`, which must not take the volumes of a composition in use.
        test = (self.path.parent / "compose_test").read_text()
        self.assertIn("project=sparseagg-compose-test\n", test)
        for command in re.findall(r"compose\(\) \{ (.*)", test):
            self.assertIn('-p "$project" ', command)

    def test_servers_run_without_rights_and_only_this_machine_reaches_them(self) -> None:
        for name in ["server", "server-gpu"]:
            server = self.services[name]
            self.assertTrue(server["read_only"])
            self.assertEqual(server["cap_drop"], ["ALL"])
        for service in self.services.values():
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_the_servers_differ_in_the_backend_that_the_gpu_needs(self) -> None:
        cpu = self.services["server"]["environment"]
        gpu = self.services["server-gpu"]["environment"]
        self.assertEqual(gpu, {**cpu, "SPARSEAGG_BACKEND": "cuda"})

    def test_prometheus_scrapes_every_server(self) -> None:
        [config] = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
        [static], [by_name] = config["static_configs"], config["dns_sd_configs"]
        scraped = {*static["targets"], *(f"{name}:{by_name['port']}" for name in by_name["names"])}
        servers = [name for name in self.services if name.startswith("server")]
        self.assertEqual(scraped, {f"{name}:50062" for name in servers})

    def test_what_it_mounts_and_builds_from_is_here(self) -> None:
        for service in self.services.values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    self.assertTrue((self.path.parent / source).exists(), volume)
            if "build" in service:
                context = self.path.parent / service["build"]["context"]
                self.assertTrue((context / service["build"]["dockerfile"]).is_file())


class ImageTest(unittest.TestCase):
    """The image that the docs say how to build is the one that the files deploy."""

    def test_every_file_names_the_same_images(self) -> None:
        text = (ROOT / "CMakeLists.txt").read_text()
        version = re.search(r"project\(sparseagg VERSION ([0-9.]+)", text).group(1)
        cpu, cuda = f"sparseagg:{version}", f"sparseagg:{version}-cuda"
        read = lambda path: yaml.safe_load((ROOT / path).read_text())  # noqa: E731
        services = read("docker/compose.yaml")["services"]
        for name, image in [("server", cpu), ("demo", cpu), ("server-gpu", cuda)]:
            self.assertEqual(services[name]["image"], image)
        for name, image in [("cpu", cpu), ("gpu", cuda)]:
            [row] = read(f"docker/kubernetes/{name}/kustomization.yaml")["images"]
            self.assertEqual(f"{row['newName']}:{row['newTag']}", image)
        for name, image in [("cpu", cpu), ("cuda", cuda)]:
            for path in [f"docker/{name}.Dockerfile", "docs/operations.md"]:
                build = f"docker build -f docker/{name}.Dockerfile -t {image} ."
                self.assertIn(build, (ROOT / path).read_text())


class GrafanaTest(unittest.TestCase):
    """The image cannot be had here: that the files agree with each other is what can be checked."""

    def setUp(self) -> None:
        grafana = ROOT / "docker/grafana"
        read = lambda name: yaml.safe_load((grafana / "provisioning" / name).read_text())  # noqa: E731
        self.sources = read("datasources/prometheus.yaml")
        self.providers = read("dashboards/sparseagg.yaml")
        self.dashboard = json.loads((grafana / "sparseagg.json").read_text())
        self.services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]

    def test_the_data_source_is_the_prometheus_of_the_composition(self) -> None:
        self.assertEqual(self.sources["apiVersion"], 1)
        [source] = self.sources["datasources"]
        self.assertEqual((source["type"], source["access"]), ("prometheus", "proxy"))
        self.assertEqual(source["url"], "http://prometheus:9090")
        self.assertIn("prometheus", self.services)

    def test_the_dashboard_is_where_the_provider_looks(self) -> None:
        self.assertEqual(self.providers["apiVersion"], 1)
        [provider] = self.providers["providers"]
        folder = provider["options"]["path"]
        targets = [volume.split(":")[1] for volume in self.services["grafana"]["volumes"]]
        self.assertIn(f"{folder}/sparseagg.json", targets)
        self.assertIn("/etc/grafana/provisioning", targets)

    def test_every_panel_asks_a_data_source_that_there_is(self) -> None:
        uids = {source["uid"] for source in self.sources["datasources"] if "uid" in source}
        uids |= {
            "${" + variable["name"] + "}"
            for variable in self.dashboard["templating"]["list"]
            if variable["type"] == "datasource"
        }
        panels = [panel for panel in self.dashboard["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 10)
        ids = [panel["id"] for panel in self.dashboard["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        for panel in panels:
            self.assertIn(panel["datasource"]["uid"], uids, panel["title"])
            self.assertTrue(all(target["expr"] for target in panel["targets"]))

    def test_grafanas_own_model_of_a_dashboard_keeps_all_of_it(self) -> None:
        plugins.register_default_plugins()
        kept = json.loads(JSONEncoder().encode(Dashboard.from_json(self.dashboard)))
        self.assertEqual(lost(self.dashboard, kept), [])

    def test_panels_do_not_overlap(self) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in self.dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            cells = {
                (place["x"] + x, place["y"] + y)
                for x in range(place["w"])
                for y in range(place["h"])
            }
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells


if __name__ == "__main__":
    unittest.main(verbosity=2)
