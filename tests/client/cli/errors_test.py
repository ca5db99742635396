"""What the program `sparseagg` says when something is wrong: one line that names the file or the flag, the place and what
is allowed, and the exit code that docs/cli.md gives."""

import http.server
import json
import subprocess
import tempfile
import threading
import unittest

from program import BINARY, ProgramTest, np


class ErrorsTest(ProgramTest):
    def rows(self, name: str, values, indices=(1, 2), dtype="f4", prefix: str = "") -> None:
        """A tensor of 10 rows in a file."""
        values = np.array(values, dtype)
        members = {
            "indices": np.array(indices).reshape(-1, 1),
            "values": values,
            "dense_shape": np.array([10, *values.shape[1:]]),
        }
        np.savez(self.path / name, **{prefix + member: array for member, array in members.items()})

    # Files.

    def test_refused_updates_name_their_file(self) -> None:
        self.rows("good.npz", [[1, 2], [3, 4]])
        self.rows("nan.npz", [[1, 2], [3, float("nan")]])
        place = 'nan.npz: tensor "tensor": entry 1 (row 2), value 1 is NaN'
        for where in ([], ["--local"]):
            reduce = ("reduce", *where, "-o", "o.npz")
            self.assertIn(f": {place}\n", self.error(*reduce, "good.npz", "nan.npz", "good.npz"))
            weights = ("--weights", "1,-2")
            self.assertIn(
                ": nan.npz: the weight is -2;",
                self.error(*reduce, *weights, "good.npz", "nan.npz"),
            )
        replay = ("bench", "--updates", 5, "--warm-up", 0, "--concurrency", 1)
        line = self.error(*replay, "--replay", "good.npz", "--replay", "nan.npz")
        self.assertIn(f": {place}\n", line)

    def test_files_without_tensors_are_no_updates(self) -> None:
        np.savez(self.path / "none.npz")
        for where in ([], ["--local"]):
            line = self.error("reduce", *where, "-o", "o.npz", "none.npz", "none.npz")
            self.assertEqual(line, "sparseagg: none.npz: has no tensor\n")

    def test_refused_chunks_name_their_file(self) -> None:
        values = np.random.default_rng(1).standard_normal((10, 1 << 18))  # 10 MB travel in chunks
        self.rows("large.npz", values, range(10))
        values[7, 5] = float("inf")
        self.rows("large-inf.npz", values, range(10))
        self.assertIn(
            ': large-inf.npz: tensor "tensor": entry 7 (row 7), value 5 is infinite\n',
            self.error("reduce", "-o", "o.npz", "large.npz", "large-inf.npz"),
        )

    def test_an_error_of_the_sum_names_no_file(self) -> None:
        self.rows("top.npz", [2**31 - 1, 0], dtype="i4")
        for where in ([], ["--local"]):
            line = self.error("reduce", *where, "-o", "o.npz", "top.npz", "top.npz")
            self.assertTrue(line.startswith('sparseagg: tensor "tensor": the sum at index 1'), line)

    def test_refusals_of_an_aborted_round_say_why_it_was(self) -> None:
        self.rows("top.npz", [2**31 - 1, 0], dtype="i4")
        create = ("round", "create", "--tensor", "t:i32:10")
        name = self.run_cli(*create).stdout.strip()
        for contributor in "ab":
            self.run_cli("push", name, "top.npz", "--contributor", contributor)
        self.error("round", "seal", name, "--wait", code=5)
        for refused in (
            ("pull", name, "-o", "o.npz"),
            ("round", "seal", name),
            ("round", "verify", name),
            ("push", name, "top.npz", "--contributor", "c"),
        ):
            line = self.error(*refused, code=5)
            self.assertIn("ABORTED", line)
            self.assertIn("the sum at index 1", line)

    def test_negative_indices_have_a_place(self) -> None:
        self.rows("negative.npz", [1, 1], indices=(4, -1))
        self.assertIn(
            "negative.npz: member indices.npy: has -1 at [1, 0], which is negative",
            self.error("reduce", "--local", "-o", "o.npz", "negative.npz"),
        )

    def test_empty_selections_give_no_rows(self) -> None:
        self.rows("emb.npz", [[1, 2], [3, 4]])
        create = ("round", "create", "--tensor", "emb:f32:10x2:sparse_dim=1")
        name = self.run_cli(*create, "--tensor", "bias:f64:3:sparse_dim=0").stdout.strip()
        self.run_cli("push", name, "emb=emb.npz", "--contributor", "a")
        self.run_cli("round", "seal", name, "--wait")
        (self.path / "nothing.txt").write_text("")
        np.save(self.path / "nothing.npy", np.array([]))
        for file in ("nothing.txt", "nothing.npy"):
            pull = ("pull", name, "--indices", f"emb={file}", "-o", "none.npz")
            self.run_cli(*pull, "--dense")
            with np.load(self.path / "none.npz") as result:
                self.assertEqual(result["emb/values"].shape, (0, 2))
                self.assertEqual(result["emb/values"].dtype, np.float32)
                np.testing.assert_array_equal(result["bias/values"], np.zeros(3))
            self.run_cli(*pull, "--tensor", "emb")
            with np.load(self.path / "none.npz") as result:
                self.assertEqual(result["values"].shape, (0, 2))
                self.assertEqual(result["indices"].shape, (0, 1))
                self.assertEqual(result["dense_shape"].tolist(), [10, 2])

    def test_a_line_that_is_no_index_is_shown(self) -> None:
        create = ("round", "create", "--tensor", "emb:f32:10x2:sparse_dim=1")
        name = self.run_cli(*create).stdout.strip()
        (self.path / "rows.txt").write_text("3 x\n")
        self.assertEqual(
            self.error("pull", name, "--indices", "rows.txt", "-o", "o.npz"),
            'sparseagg: rows.txt: line 1: "3 x" is not an index\n',
        )

    def test_output_that_cannot_be_written_is_an_error(self) -> None:
        with open("/dev/full", "w") as full:
            command = [BINARY, "round", "list", "--server", self.address]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "sparseagg: standard output: cannot be written\n")

    # Flags.

    def test_flags_that_would_do_nothing_are_refused(self) -> None:
        create = ("round", "create", "--tensor", "emb:f32:10")
        for flags, needed in (
            ((*create, "--op", "max"), "--like"),
            ((*create, "--dtype", "f64"), "--like"),
            ((*create, "--overflow", "modular"), "--like"),
            (("round", "seal", "r", "--wait-timeout", 5), "--wait"),
            (("pull", "r", "-o", "o.npz", "--wait-timeout", 5), "--wait"),
        ):
            self.assertIn(f"requires {needed}", self.error(*flags, code=2))

    def test_what_is_computed_here_takes_no_flag_of_a_server(self) -> None:
        self.rows("here.npz", [1, 2])
        reduce = ("reduce", "--local", "-o", "o.npz", "here.npz")
        for flag, value in (
            ("--server", "127.0.0.1:1"),
            ("--timeout", 5),
            ("--attempts", 2),
            ("--tls-ca", "ca.pem"),
            ("--token-file", "token"),
            ("--token", "secret"),
        ):
            line = self.error(*reduce, flag, value, code=2)
            self.assertEqual(line, f"sparseagg: --local cannot be combined with {flag}\n")
        self.assertIn(
            "--local cannot be combined with --tls\n", self.error(*reduce, "--tls", code=2)
        )
        self.run_cli(*reduce, "--json")  # where SPARSEAGG_SERVER is set

    def test_the_shortest_wait_ends(self) -> None:
        name = self.run_cli("round", "create", "--tensor", "emb:f32:10").stdout.strip()
        wait = ("--wait", "--wait-timeout", 0.0004)
        line = self.error("pull", name, "-o", "o.npz", *wait, code=3)
        self.assertIn("was not published within 1 ms", line)

    def test_wrong_words_name_their_flag_and_what_there_is(self) -> None:
        self.rows("word.npz", [1, 2])
        push = ("push", "no-round", "word.npz", "--contributor", "a")
        for command, flag, known in (
            (push, "--encoding", "coo.packed"),
            (push, "--values", "int8.stochastic"),
            (push, "--dtype", "bf16"),
            (("pull", "no-round", "-o", "o.npz"), "--encoding", "coo.packed"),
            (("reduce", "-o", "o.npz", "word.npz"), "--dtype", "bf16"),
            (("reduce", "-o", "o.npz", "word.npz"), "--overflow", "modular"),
            (("round", "create", "--like", "word.npz"), "--dtype", "bf16"),
            (("round", "create", "--like", "word.npz"), "--overflow", "modular"),
            (("bench",), "--encoding", "coo.packed"),
        ):
            line = self.error(*command, flag, "wrong", code=2)
            self.assertIn(f"{flag}: wrong not in ", line)
            self.assertIn(known, line)

    def test_words_that_are_unknown_are_named(self) -> None:
        for command, word, usage in (
            (("pussh", "r", "f.npz"), "pussh", ""),
            (("round", "pussh"), "pussh", " round"),
            (("push", "r", "f.npz", "--contributr", "a"), "--contributr", " push"),
            (("info", "--timeuot", 5), "--timeuot", " info"),
        ):
            self.assertEqual(
                self.error(*command, code=2),
                f"sparseagg: {word} is unknown here; `sparseagg{usage} --help` shows the usage\n",
            )

    def test_addresses_that_are_none_are_wrong_usage(self) -> None:
        for address, words in (
            ("", "the address of the server is empty; give HOST:PORT"),
            ("127.0.0.1:115597", 'has the port "115597", which is not a number from 1 to 65535'),
            ("127.0.0.1:0", 'has the port "0", which is not'),
            ("http://127.0.0.1/x", "goes on after the port; give HOST:PORT alone"),
            ("grpc://127.0.0.1", "begins with an unknown scheme; give HOST:PORT"),
        ):
            self.assertIn(words, self.error("info", "--server", address, code=2))
            self.assertIn(words, self.error("top", "--once", "--admin", address, code=2))
            self.assertIn(words, self.error("healthcheck", "--admin", address, code=2))
        for address in ("https://127.0.0.1", "unix:/run/socket", "dns:///localhost"):
            line = self.error("top", "--once", "--admin", address, code=2)
            self.assertIn("the admin port speaks HTTP without TLS", line)

    def test_an_address_without_a_port_goes_to_the_default_port(self) -> None:
        # No other server of this machine listens at these addresses of loopback.
        for address in ("127.66.77.88", "http://127.66.77.88", "http://127.66.77.88/"):
            line = self.error("healthcheck", server=address, code=3)
            self.assertIn("cannot reach 127.66.77.88:50061: connection refused", line)
        line = self.error("healthcheck", "--admin", "127.66.77.88", code=3)
        self.assertIn("no answer from the admin port 127.66.77.88:50062", line)

    def test_a_url_is_an_address(self) -> None:
        self.assertIn("version", self.run_cli("info", server=f"http://{self.address}/").stdout)
        line = self.error("healthcheck", server=f"https://{self.address}", code=3)
        self.assertIn("it does not speak TLS", line)
        line = self.error("info", "--tls", server=f"http://{self.address}", code=1)
        self.assertIn("write https://", line)

    def test_values_that_the_asked_type_does_not_have(self) -> None:
        self.rows("half.npz", [1, 1.5])
        self.rows("named.npz", [1, 1.5], prefix="emb/")
        for file, tensor in (("half.npz", ""), ("named.npz", 'tensor "emb": ')):
            line = self.error("reduce", "--dtype", "i32", "-o", "o.npz", file, code=2)
            self.assertEqual(
                line,
                f"sparseagg: --dtype i32: {file}: {tensor}"
                "value 1.5 at entry 1 is not a number of i32\n",
            )

    def test_times_are_numbers_of_their_range(self) -> None:
        for command, flag, limits in (
            (("info",), "--timeout", "[0, 1e+06]"),
            (("round", "seal", "r", "--wait"), "--wait-timeout", "[0, 1e+07]"),
            (("top", "--once"), "--interval", "[0.1, 3600]"),
        ):
            for number in ("nan", "-1", "inf", "1s"):
                line = self.error(*command, flag, number, code=2)
                self.assertIn(f"{flag}: {number} is not a number in {limits}", line)
        create = ("round", "create", "--tensor", "emb:f32:10")
        for flag in ("--grace", "--deadline"):
            for time in ("nan", "inf", "-5s", "-1"):
                line = self.error(*create, "--goal", 1, f"{flag}={time}", code=2)
                self.assertIn(f'{flag}: "{time}" is not a duration of 0 or more', line)

    def test_the_shortest_deadline_is_one(self) -> None:
        create = ("round", "create", "--tensor", "emb:f32:10", "--deadline", "1us", "--json")
        self.assertEqual(
            json.loads(self.run_cli(*create).stdout)["policy"]["open_for_seconds"], 1e-3
        )

    def test_bench_names_its_flags(self) -> None:
        for flags, words in (
            (("--rows", 0), "--rows (0) and --width (1) must be at least 1"),
            (("--nnz", 5, "--nnz-min", 6), "--nnz-min (6) must be at most --nnz (5)"),
            (("--nnz-min", -1), "--nnz-min: -1 is negative"),
            (("--nnz", 5, "--rows", 4), "--nnz: an update of 5 rows"),
            (("--values", "int8"), "--values: int8 not in {auto,raw,f32,bf16,f16}"),
            (("--nnz", 10**9, "--rows", 10**12), "--nnz: an update of 1000000000 rows of 12 bytes"),
            (("--rate", "nan"), "--rate: nan is not a number in [0, 1e+07]"),
            (("--rate", "1e-300"), "--rate: 1e-300 is neither 0 nor at least 0.001"),
            (("--timeout", "nan"), "--timeout: nan is not a number in [0, 1e+06]"),
            (("--concurrency", "1,,2"), '--concurrency: "" is not in [1, 1024]'),
            (("--concurrency", "1,1025"), '--concurrency: "1025" is not in [1, 1024]'),
            (("--concurrency", "4,few"), '--concurrency: "few" is not in [1, 1024]'),
        ):
            self.assertIn(words, self.error("bench", *flags, code=2))

    def test_recorded_updates_have_a_shape_of_their_own(self) -> None:
        self.rows("recorded.npz", [1, 2])
        for flag, value in (
            ("--rows", 5),
            ("--width", 2),
            ("--nnz", 1),
            ("--nnz-min", 1),
            ("--indices", "zipf"),
            ("--seed", 2),
        ):
            line = self.error("bench", "--replay", "recorded.npz", flag, value, code=2)
            self.assertIn("--replay", line)
            self.assertIn(flag, line)

    def test_bench_takes_updates_of_no_entry(self) -> None:
        load = ("--updates", 100, "--warm-up", 0, "--concurrency", 2, "--nnz", 3, "--nnz-min", 0)
        report = json.loads(self.run_cli("bench", *load, "--json").stdout)
        self.assertEqual(report["nnz_min"], 0)
        self.assertTrue(report["levels"][0]["sum_is_exact"])
        for values in ("raw", "f32", "bf16", "f16"):
            self.assertIn("exact", self.run_cli("bench", *load, "--values", values).stdout)


class OtherServer(http.server.BaseHTTPRequestHandler):
    """Something else than the admin port of a server: JSON of its own, and 503 for ever."""

    def answer(self, code: int, text: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        refused = self.path in ("/healthz", "/readyz")
        self.answer(503 if refused else 200, b'{"error": {"code": 5}}')

    def do_POST(self) -> None:
        self.answer(200, b"{}")

    def log_message(self, *_) -> None:
        pass


class OtherServerTest(ProgramTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OtherServer)
        threading.Thread(target=cls.other.serve_forever, daemon=True).start()
        cls.admin = f"--admin=127.0.0.1:{cls.other.server_port}"

    @classmethod
    def tearDownClass(cls) -> None:
        cls.other.shutdown()
        cls.other.server_close()
        super().tearDownClass()

    def test_answers_of_other_servers_are_one_line(self) -> None:
        for command in (("admin", "config"), ("top", "--once")):
            self.assertIn("has an unexpected form", self.error(*command, self.admin))
        self.assertIn("status 503", self.error("healthcheck", self.admin, code=3))

    def test_a_server_that_still_has_its_port_is_not_stopped(self) -> None:
        line = self.error("admin", "drain", self.admin, "--wait", 0, code=3)
        self.assertIn("has not stopped after 0 s", line)

    def test_the_admin_port_of_a_healthcheck_is_not_empty(self) -> None:
        self.assertIn("is empty", self.error("healthcheck", "--admin", "", code=2))


class LimitsTest(ProgramTest):
    serve_arguments = ("--update-nnz-max=3",)

    def test_limits_of_the_server_name_the_file(self) -> None:
        for name, nnz in (("few.npz", 3), ("many.npz", 4)):
            np.savez(
                self.path / name,
                indices=np.arange(nnz),
                values=np.ones(nnz, "f4"),
                dense_shape=np.array([10]),
            )
        line = self.error("reduce", "-o", "o.npz", "few.npz", "many.npz")
        self.assertIn(': many.npz: tensor "tensor": ', line)
        self.assertIn("update-nnz-max", line)
        replay = ("bench", "--updates", 5, "--warm-up", 0, "--concurrency", 1)
        line = self.error(*replay, "--replay", "few.npz", "--replay", "many.npz")
        self.assertIn(': many.npz: tensor "tensor": ', line)


class StrangerTest(ProgramTest):
    """A server that asks who calls."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.secrets = tempfile.TemporaryDirectory()
        credentials = f"{cls.secrets.name}/credentials.json"
        new_token = [BINARY, "token", "new", credentials, "--principal", "p", "--role", "owner"]
        subprocess.run(new_token, check=True, capture_output=True)
        cls.serve_arguments = ("--credentials", credentials)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        cls.secrets.cleanup()

    def test_a_call_without_a_token_hears_how_to_give_one(self) -> None:
        line = self.error("round", "list")
        self.assertIn("requires a bearer token", line)
        self.assertIn("with --token-file", line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
