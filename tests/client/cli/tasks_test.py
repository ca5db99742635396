"""`sparseagg task` as a user runs it, on a server with a data directory that is killed and started again."""

import json
import pathlib
import signal
import subprocess
import tempfile
import unittest

from program import BINARY, ProgramTest, wait_for_port


class TasksTest(ProgramTest):
    def run_json(self, *args, **more):
        return json.loads(self.run_cli(*args, "--json", **more).stdout)

    def test_tasks_are_created_listed_acquired_and_cancelled(self) -> None:
        self.run_cli("round", "create", "--id", "r", "--goal", "3", "--tensor", "t:f32:10")
        (self.path / "payload").write_bytes(b"learn\x00")
        made = self.run_cli(
            *("task", "create", "--pool", "phones", "--round", "r", "--id", "g"),
            *("--percent-of-goal", "130", "--payload", "payload", "--requires", "gpu"),
        )
        self.assertEqual(made.stdout, "taskgroups/g\n")
        listed = self.run_json("task", "list", "--group", "g")["tasks"]
        self.assertEqual([task["contributor"] for task in listed], ["g/1", "g/2", "g/3", "g/4"])
        self.assertEqual({task["state"] for task in listed}, {"AVAILABLE"})

        none = self.run_json("task", "acquire", "--pool", "phones", "--worker", "w")
        self.assertEqual(none["tasks"], [])
        self.assertGreaterEqual(none["retry_min_ms"], 500)
        (task,) = self.run_json(
            *("task", "acquire", "--pool", "phones", "--worker", "w", "--capability", "gpu")
        )["tasks"]
        self.assertEqual((task["state"], task["worker"]), ("LEASED", "w"))
        self.assertEqual(task["payload_bytes"], 6)
        self.assertIn(
            "taskgroups/g/tasks/1", self.run_cli("task", "list", "--state", "LEASED").stdout
        )
        self.assertIn("LEASED", self.run_cli("task", "get", "g/1").stdout)

        self.assertEqual(self.run_json("task", "cancel", "g/2", "g/3")["cancelled"], 2)
        group = self.run_json("task", "wait", "g", "--after-revision", "1")
        self.assertEqual((group["cancelled"], group["leased"], group["revision"]), (2, 1, 3))
        self.assertEqual(self.run_cli("task", "cancel", "g").stdout, "cancelled 2 tasks\n")
        self.assertEqual(self.run_json("task", "wait", "g")["cancelled"], 4)

    def test_a_list_goes_on_after_a_page_without_tasks(self) -> None:
        self.run_cli("round", "create", "--id", "large", "--tensor", "t:f32:10")
        self.run_cli(
            *("task", "create", "--pool", "p", "--round", "large", "--id", "many"),
            *("--count", "70000"),
        )
        self.run_cli("task", "cancel", "many/70000")
        (last,) = self.run_json("task", "list", "--group", "many", "--state", "CANCELLED")["tasks"]
        self.assertEqual(last["name"], "taskgroups/many/tasks/70000")

    def test_errors_name_what_is_wrong(self) -> None:
        self.assertIn("rounds/none", self.error("task", "create", "--pool", "p", "--round", "none",
                                                "--count", "1", code=4))  # fmt: skip
        self.assertIn("count", self.error("task", "create", "--pool", "p", "--round", "none",
                                          code=1))  # fmt: skip
        self.assertIn("task list", self.error("task", "get", "none/1", code=4))
        self.error("task", "create", "--pool", "p", "--round", "r", "--count", "1",
                   "--contributor", "c", code=2)  # fmt: skip


class RestartTest(unittest.TestCase):
    """Leases outlive a server that is killed."""

    def start(self) -> tuple[subprocess.Popen, str]:
        port_file = self.path / "port"
        port_file.unlink(missing_ok=True)
        server = subprocess.Popen(
            [BINARY, "serve", "--listen", "127.0.0.1:0", "--port-file", str(port_file),
             "--admin-listen=none", "--data-dir", str(self.path / "data")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return server, wait_for_port(server, port_file)

    def test_a_lease_survives_the_death_of_the_server(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        server, address = self.start()

        def run(*args: str) -> dict:
            output = subprocess.run(
                [BINARY, *args, "--json", "--server", address],
                stdout=subprocess.PIPE,
                check=True,
                timeout=120,
            ).stdout
            return json.loads(output)

        run("round", "create", "--id", "r", "--tensor", "t:f32:10")
        run("task", "create", "--pool", "p", "--round", "r", "--id", "g", "--count", "2",
            "--lease", "1h")  # fmt: skip
        (held,) = run("task", "acquire", "--pool", "p", "--worker", "w")["tasks"]
        server.send_signal(signal.SIGKILL)
        server.wait()
        server, address = self.start()
        again = run("task", "get", "g/1")
        self.assertEqual((again["state"], again["token"]), ("LEASED", held["token"]))
        self.assertLessEqual(again["lease_left_ms"], held["lease_left_ms"])
        (other,) = run("task", "acquire", "--pool", "p", "--worker", "w", "--max", "2")["tasks"]
        self.assertEqual(other["name"], "taskgroups/g/tasks/2")
        self.assertGreater(other["token"], held["token"])


if __name__ == "__main__":
    unittest.main()
