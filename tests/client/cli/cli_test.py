"""The program `sparseagg` as a user runs it: real processes, a real server, files that NumPy and SciPy wrote and read."""

import gzip
import json
import signal
import socket
import subprocess
import unittest
from pathlib import Path

from program import BINARY, ProgramTest, np, scipy, sp


class CliTest(ProgramTest):
    # Files.

    def test_sum_equals_scipys_for_every_type_and_layout(self) -> None:
        for dtype in ("f4", "f8", "i4", "i8", "u4", "u8"):
            matrices = [self.matrix(f"{dtype}-{i}.npz", i, dtype) for i in range(3)]
            sp.save_npz(self.path / "csr.npz", matrices[1].tocsr(), compressed=True)
            sp.save_npz(self.path / "csc.npz", matrices[2].tocsc(), compressed=False)
            self.run_cli(
                "reduce", "--local", "-o", "out.npz", f"{dtype}-0.npz", "csr.npz", "csc.npz"
            )
            result = self.load("out.npz")
            self.assertEqual(result.dtype, np.dtype(dtype))
            np.testing.assert_array_equal(result.toarray(), sum(m.toarray() for m in matrices))

    def test_half_precision(self) -> None:
        # SciPy cannot compute with f2, but its layout can hold it.
        np.savez(
            self.path / "f2.npz",
            format=np.array(b"coo"),
            shape=np.array([4, 4]),
            data=np.array([1.5, -2], "f2"),
            row=np.array([1, 3], "i4"),
            col=np.array([0, 2], "i4"),
        )
        self.run_cli("reduce", "--local", "-o", "f2-out.npz", "f2.npz", "f2.npz")
        with np.load(self.path / "f2-out.npz") as result:
            self.assertEqual(result["data"].dtype, np.float16)
            np.testing.assert_array_equal(result["data"], [3, -4])

    def test_matrix_market_of_scipy_and_back(self) -> None:
        matrix = self.matrix("mm.npz", 5, "f8")
        scipy.io.mmwrite(self.path / "mm.mtx", matrix)
        symmetric = sp.coo_matrix(matrix.toarray()[:50, :50] + matrix.toarray()[:50, :50].T)
        scipy.io.mmwrite(self.path / "sym.mtx", symmetric, symmetry="symmetric")
        self.run_cli("reduce", "--local", "-o", "mm-out.mtx", "mm.mtx", "mm.npz")
        np.testing.assert_array_equal(
            scipy.io.mmread(self.path / "mm-out.mtx").toarray(), 2 * matrix.toarray()
        )
        self.run_cli("reduce", "--local", "-o", "sym-out.npz", "sym.mtx")
        np.testing.assert_array_equal(self.load("sym-out.npz").toarray(), symmetric.toarray())

    def test_every_format_and_type_that_scipy_saves(self) -> None:
        ones = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [5, 0, 6, 0], [0, 7, 0, 0]])
        for dtype in (
            "?",
            "i1",
            "u1",
            "i2",
            "u2",
            "i4",
            "u4",
            "i8",
            "u8",
            "f4",
            "f8",
            ">i2",
            ">f8",
        ):
            matrix = sp.coo_matrix(ones.astype(np.dtype(dtype).newbyteorder("=")))
            for name in ("coo", "csr", "csc", "bsr", "dia"):
                saved = matrix.asformat(name)
                saved.data = saved.data.astype(dtype)  # in its order of bytes, which SciPy drops
                with self.subTest(format=name, dtype=dtype):
                    sp.save_npz(self.path / "saved.npz", saved)
                    self.run_cli("reduce", "--local", "-o", "read.npz", "saved.npz")
                    np.testing.assert_array_equal(self.load("read.npz").toarray(), matrix.toarray())

    def test_every_kind_of_matrix_market_that_scipy_writes(self) -> None:
        square = np.array([[1, 2, 3], [2, 0, 5], [3, 5, 6]])
        skew = np.array([[0, -2, 3], [2, 0, -5], [-3, 5, 0]])
        for dtype in ("i4", "u4", "i8", "u8", "f4", "f8"):
            for values in (square, skew, square[:2]):
                if np.dtype(dtype).kind == "u" and values.min() < 0:
                    continue
                for written in (values.astype(dtype), sp.csr_matrix(values.astype(dtype))):
                    with self.subTest(dtype=dtype, kind=type(written), shape=values.shape):
                        scipy.io.mmwrite(self.path / "written.mtx", written)
                        text = (self.path / "written.mtx").read_bytes()
                        (self.path / "packed.MTX.GZ").write_bytes(gzip.compress(text))
                        for name in ("written.mtx", "packed.MTX.GZ"):
                            self.run_cli("reduce", "--local", "-o", "read.mtx", name)
                            read = scipy.io.mmread(self.path / "read.mtx")
                            read = read.toarray() if sp.issparse(read) else read
                            np.testing.assert_array_equal(read, values)

    def test_text_is_rounded_once(self) -> None:
        body = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 "
        for dtype, text, bits in [
            ("f16", "65519.99999999999999999", 0x7BFF),
            ("f16", "2.980232238769531250001e-8", 0x0001),
            ("bf16", "1.00390625000000000000001", 0x3F81),
        ]:
            (self.path / "once.mtx").write_text(f"{body}{text}\n")
            self.run_cli("reduce", "--local", "--dtype", dtype, "-o", "once.npz", "once.mtx")
            with np.load(self.path / "once.npz") as result:
                data = result["data" if "data" in result.files else "values"]
            self.assertEqual(data.view("u2").tolist(), [bits])

    def test_arrays_in_fortran_order(self) -> None:
        dense = np.zeros((20, 30), "f4")
        dense[3, 4] = dense[10, 29] = 1
        indices = np.array(np.nonzero(dense)).T  # a transposed view: NumPy stores it columns first
        self.assertTrue(indices.flags.f_contiguous)
        np.savez(
            self.path / "fortran.npz",
            indices=indices,
            values=dense[dense != 0],
            dense_shape=np.array(dense.shape),
        )
        self.run_cli("reduce", "--local", "-o", "fortran-out.npz", "fortran.npz")
        np.testing.assert_array_equal(self.load("fortran-out.npz").toarray(), dense)

    def test_malformed_files_are_named_in_one_line(self) -> None:
        (self.path / "bad.mtx").write_text(
            "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n"
        )
        self.assertIn(
            "bad.mtx: line 3: row 3 is not in [1, 2]",
            self.error("reduce", "--local", "-o", "o.npz", "bad.mtx"),
        )
        (self.path / "bad.npz").write_bytes(b"PK\x03\x04 not really")
        self.assertIn("bad.npz", self.error("reduce", "--local", "-o", "o.npz", "bad.npz"))
        np.savez(self.path / "times.npz", w=np.array([0], "M8[ns]"))
        self.assertIn("member w.npy", self.error("reduce", "--local", "-o", "o.npz", "times.npz"))
        self.assertIn("none.npz", self.error("reduce", "--local", "-o", "o.npz", "none.npz"))
        self.assertFalse((self.path / "o.npz").exists())

    # The stateless operator.

    def test_server_and_local_give_the_same_bytes(self) -> None:
        for i in range(3):
            self.matrix(f"same-{i}.npz", i)
            rng = np.random.default_rng(i)
            indices = np.sort(rng.integers(0, 50, (40, 1)), axis=0)
            np.savez(
                self.path / f"hybrid-{i}.npz",
                **{
                    "emb/indices": indices,
                    "emb/values": rng.standard_normal((40, 3)).astype("f4"),
                    "emb/dense_shape": np.array([50, 3]),
                    "bias": rng.standard_normal(7),
                },
            )
        backends = [
            b["name"]
            for b in json.loads(self.run_cli("info", "--json").stdout)["backends"]
            if b["available"]
        ]
        self.assertIn("cpu", backends)
        for op in ("sum", "weighted_mean", "mean_of_contributors", "count", "min", "max"):
            for kind in ("same", "hybrid"):
                files = [f"{kind}-{i}.npz" for i in range(3)]
                flags = ["--op", op, "--weights", "1,2.5,0.25"]
                self.run_cli("reduce", *flags, "-o", "server.npz", *files)
                expected = (self.path / "server.npz").read_bytes()
                for backend in backends:
                    self.run_cli(
                        "reduce", "--local", "--backend", backend, *flags, "-o", "local.npz", *files
                    )
                    self.assertEqual(
                        (self.path / "local.npz").read_bytes(), expected, (op, kind, backend)
                    )

    def test_weighted_sum_in_the_type_asked_for(self) -> None:
        a, b = self.matrix("w-a.npz", 1), self.matrix("w-b.npz", 2)
        self.run_cli(
            "reduce", "--weights", "2,0.5", "--dtype", "f64", "-o", "w.npz", "w-a.npz", "w-b.npz"
        )
        result = self.load("w.npz")
        self.assertEqual(result.dtype, np.float64)
        np.testing.assert_array_equal(result.toarray(), 2.0 * a.toarray() + 0.5 * b.toarray())

    def test_modular_integers_wrap_and_checked_ones_fail(self) -> None:
        top = sp.coo_matrix((np.array([2**31 - 1], "i4"), ([0], [0])), shape=(1, 1))
        sp.save_npz(self.path / "top.npz", top)
        self.assertIn("0", self.error("reduce", "--local", "-o", "o.npz", "top.npz", "top.npz"))
        self.run_cli("reduce", "--overflow", "modular", "-o", "wrap.npz", "top.npz", "top.npz")
        self.assertEqual(self.load("wrap.npz").data.tolist(), [-2])

    def test_reduce_json(self) -> None:
        self.matrix("j.npz", 1)
        answer = json.loads(
            self.run_cli("reduce", "--json", "--local", "-o", "jo.npz", "j.npz").stdout
        )
        self.assertEqual(answer["output"], "jo.npz")
        self.assertEqual(answer["tensors"][0]["nnz"], self.load("jo.npz").nnz)
        status = answer["status"][0]
        self.assertEqual(status["nnz_received"], self.load("j.npz").nnz)
        self.assertEqual(status["nnz_result"], self.load("jo.npz").nnz)
        self.assertGreater(status["measured_seconds"], 0)
        text = self.run_cli("reduce", "--local", "-o", "jo.npz", "j.npz").stdout
        self.assertIn(f"{status['plan']} on {answer['backend']} (", text)

    # Rounds.

    def plans(self) -> list[str]:
        backends = json.loads(self.run_cli("info", "--json").stdout)["backends"]
        return next(backend["plans"] for backend in backends if backend["selected"])

    def test_a_whole_round(self) -> None:
        a, b = self.matrix("r-a.npz", 1), self.matrix("r-b.npz", 2)
        scipy.io.mmwrite(self.path / "r-b.mtx", b)
        name = self.run_cli("round", "create", "--id", "whole", "--like", "r-a.npz").stdout.strip()
        self.assertEqual(name, "rounds/whole")
        self.run_cli("push", name, "r-a.npz", "--contributor", "a")
        self.assertIn(
            "counted before", self.run_cli("push", name, "r-a.npz", "--contributor", "a").stdout
        )
        self.run_cli(
            "push", "whole", "r-b.mtx", "--contributor", "b", "--weight", "3", "--update-id", "b-1"
        )
        self.assertIn('"a"', self.error("push", name, "r-b.npz", "--contributor", "a"))
        self.assertIn(name, self.error("pull", name, "-o", "early.npz"))
        self.assertFalse((self.path / "early.npz").exists())
        shown = json.loads(self.run_cli("round", "seal", name, "--wait", "--json").stdout)
        self.assertEqual((shown["state"], shown["contributors"]), ("PUBLISHED", 2))
        self.assertEqual(shown["manifest"]["total_weight"], 4.0)
        status = shown["tensors"][0]
        self.assertIn(status["plan"], self.plans())
        self.assertGreater(status["measured_seconds"], 0)
        self.assertIn(f": {status['plan']} on ", self.run_cli("round", "show", name).stdout)
        self.assertIn(", reduced in ", self.run_cli("round", "show", name).stdout)

        expected = a.toarray() + 3 * b.toarray()
        self.run_cli("pull", name, "-o", "r.npz")
        np.testing.assert_array_equal(self.load("r.npz").toarray(), expected)
        self.run_cli("pull", name, "-o", "r.mtx")
        np.testing.assert_array_equal(scipy.io.mmread(self.path / "r.mtx").toarray(), expected)
        self.run_cli("pull", name, "--dense", "-o", "rd.npz")
        with np.load(self.path / "rd.npz") as dense:
            np.testing.assert_array_equal(dense["values"], expected)
        listed = json.loads(self.run_cli("round", "list", "--json").stdout)["rounds"]
        self.assertIn(name, [r["name"] for r in listed])
        self.run_cli("round", "delete", name)
        self.assertIn("whole", self.error("round", "show", name, code=4))

    def test_tensors_of_several_kinds(self) -> None:
        name = self.run_cli(
            "round",
            "create",
            "--tensor",
            "emb:f32:50x3:sparse_dim=1:op=mean_of_contributors",
            "--tensor",
            "bias:f64:[7]:sparse_dim=0",
        ).stdout.strip()
        values = np.arange(6, dtype="f4").reshape(2, 3)
        np.savez(
            self.path / "emb.npz",
            indices=np.array([[4], [9]]),
            values=values,
            dense_shape=np.array([50, 3]),
        )
        np.savez(self.path / "bias.npz", bias=np.arange(7.0))
        self.run_cli("push", name, "emb=emb.npz", "bias.npz", "--contributor", "a")
        self.run_cli("push", name, "bias.npz", "--contributor", "b")
        self.run_cli("round", "seal", name)
        self.run_cli("pull", name, "--wait", "-o", "kinds.npz")
        with np.load(self.path / "kinds.npz") as result:
            np.testing.assert_array_equal(result["emb/indices"], [[4], [9]])
            np.testing.assert_array_equal(result["emb/values"], values)
            np.testing.assert_array_equal(result["bias/values"], 2 * np.arange(7.0))
        (self.path / "rows.txt").write_text("9\n\n1\n4\n")
        np.save(self.path / "rows.npy", np.array([9, 1, 4]))
        for rows in ("rows.txt", "rows.npy"):
            self.run_cli(
                "pull", name, "--tensor", "emb", "--indices", rows, "--dense", "-o", "rows.npz"
            )
            with np.load(self.path / "rows.npz") as result:
                np.testing.assert_array_equal(result["values"], [values[1], [0, 0, 0], values[0]])
        self.assertIn("emb.npz", self.error("push", name, "emb.npz", "--contributor", "c"))
        self.run_cli(
            "pull", "--tensor", "bias", name, "-o", "bias-out.npz"
        )  # the name is not another tensor
        self.assertIn(
            "weight", self.error("push", name, "bias.npz", "--contributor", "c", "--weight", "-1")
        )

    def test_watch_ends_with_the_round(self) -> None:
        name = self.run_cli("round", "create", "--tensor", "t:f32:5").stdout.strip()
        watch = subprocess.Popen(
            [BINARY, "round", "watch", name, "--json", "--server", self.address],
            stdout=subprocess.PIPE,
            text=True,
        )
        first = json.loads(watch.stdout.readline())
        self.assertEqual(first["state"], "OPEN")
        self.run_cli("round", "seal", name)
        rest, _ = watch.communicate(timeout=60)
        self.assertEqual(json.loads(rest.splitlines()[-1])["state"], "PUBLISHED")
        self.assertEqual(watch.returncode, 0)

    def test_an_aborted_round_has_an_exit_code_of_its_own(self) -> None:
        name = self.run_cli("round", "create", "--tensor", "t:f32:5").stdout.strip()
        self.assertIn("ABORTED", self.run_cli("round", "abort", name).stdout)
        self.assertIn("aborted", self.error("pull", name, "--wait", "-o", "a.npz", code=5))
        self.assertIn("aborted", self.run_cli("round", "watch", name, code=5).stderr)
        for refused in (
            ("pull", name, "-o", "a.npz"),
            ("round", "seal", name),
            ("round", "seal", name, "--wait"),
            ("round", "verify", name),
        ):
            self.assertIn("ABORTED", self.error(*refused, code=5))

    def test_a_round_that_ends_by_itself(self) -> None:
        create = ("round", "create", "--tensor", "t:f32:200x300")
        flags = ("--goal", 2, "--grace", "1h30m", "--min", 1, "--max", 2, "--deadline", "2h")
        name = self.run_cli(*create, *flags).stdout.strip()
        self.matrix("p-a.npz", 1)
        self.run_cli("push", name, "p-a.npz", "--contributor", "a")
        shown = self.run_cli("round", "get", name).stdout
        self.assertIn("1 of 2 (at least 1, at most 2)", shown)
        self.assertIn("closes", shown)
        self.run_cli("push", name, "p-a.npz", "--contributor", "b")
        self.run_cli("pull", name, "--wait", "-o", "p.npz")  # full: the grace is of no use
        ended = json.loads(self.run_cli("round", "get", name, "--json").stdout)
        self.assertEqual((ended["seal_reason"], ended["policy"]["grace_seconds"]), ("GOAL", 5400))
        self.assertIn("GOAL", self.run_cli("round", "show", name).stdout)
        self.assertIn("keep_updates_until_deleted", self.error("round", "verify", name))
        self.assertIn("PUBLISHED", self.error("push", name, "p-a.npz", "--contributor", "c"))

        few = self.run_cli(*create, "--min", 1, "--deadline", "100ms").stdout.strip()
        self.assertIn(
            "INSUFFICIENT_CONTRIBUTORS", self.run_cli("round", "watch", few, code=5).stderr
        )
        self.assertIn("above policy.goal", self.error(*create, "--goal", 1, "--min", 2))
        self.assertIn("is not a duration", self.error(*create, "--deadline", "soon", code=2))
        self.assertIn(
            "not in the future", self.error(*create, "--deadline", "2020-01-01T00:00:00Z")
        )

    # Errors.

    def test_usage_errors(self) -> None:
        self.assertIn("--help", self.error("push", code=2))
        self.assertIn("--nonsense", self.error("info", "--nonsense", code=2))
        self.assertIn("float", self.error("round", "create", "--tensor", "a:float:3", code=2))
        self.assertIn(".npz", self.error("reduce", "--local", "-o", "o.txt", "x.npz", code=2))
        self.matrix("u.npz", 1)
        self.assertIn(
            "2 numbers for 1",
            self.error("reduce", "--local", "--weights", "1,2", "-o", "o.npz", "u.npz", code=2),
        )
        self.assertIn(
            "cpu",
            self.error("reduce", "--local", "--backend", "abacus", "-o", "o.npz", "u.npz", code=2),
        )
        self.assertIn(
            "--local", self.error("reduce", "--backend", "cpu", "-o", "o.npz", "u.npz", code=2)
        )

    def test_no_server(self) -> None:
        dead = "127.0.0.1:1"
        line = self.error("info", "--attempts", "1", server=dead, code=3)
        self.assertEqual(
            line,
            f"sparseagg: cannot reach {dead}: connection refused; "
            "start it with `sparseagg serve` or give --server\n",
        )
        self.assertIn(dead, self.error("healthcheck", server=dead, code=3))
        answer = json.loads(
            self.run_cli("info", "--json", "--attempts", "1", server=dead, code=3).stderr
        )
        self.assertEqual(
            (answer["error"]["reason"], answer["error"]["exit_code"]), ("CANNOT_CONNECT", 3)
        )

    def test_a_server_that_comes_late_is_reached(self) -> None:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            info = subprocess.Popen(
                [BINARY, "info", "--attempts", "7", "--server", address],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            listener.accept()[0].close()  # the first attempt has failed
        server = subprocess.Popen(
            [BINARY, "serve", "--listen", address, "--admin-listen=none"],
            stdout=self.log,
            stderr=self.log,
        )
        _, error = info.communicate(timeout=120)
        server.terminate()
        self.assertEqual(server.wait(timeout=60), 0)
        self.assertEqual(info.returncode, 0, error)

    def test_healthcheck_and_info(self) -> None:
        self.run_cli("healthcheck")
        info = json.loads(self.run_cli("info", "--json").stdout)
        self.assertIn("weighted_mean", info["operators"])
        self.assertIn("coo.raw", info["encodings"])
        self.assertGreaterEqual(info["load"]["calls"], 1)

    def test_wrong_types_and_shapes_name_the_file(self) -> None:
        name = self.run_cli("round", "create", "--tensor", "m:f32:200x300").stdout.strip()
        self.matrix("f8.npz", 1, "f8")
        self.matrix("small.npz", 1, shape=(20, 30))
        self.assertIn("--dtype f32", self.error("push", name, "f8.npz", "--contributor", "a"))
        self.run_cli("push", name, "f8.npz", "--dtype", "f32", "--contributor", "a")
        self.assertIn(
            'small.npz: tensor "m" is 20x30',
            self.error("push", name, "small.npz", "--contributor", "b"),
        )

    def test_push_says_what_travelled_and_takes_what_it_is_told(self) -> None:
        matrix = self.matrix("travel.npz", 5)
        name = self.run_cli("round", "create", "--tensor", "m:f32:200x300").stdout.strip()
        text = self.run_cli("push", name, "travel.npz", "--contributor", "a").stdout
        self.assertIn("coo.packed with bf16 values", text)
        for contributor, values in (("b", "int8.stochastic"), ("c", "raw")):
            options = ["--contributor", contributor, "--encoding", "coo.packed", "--values", values]
            pushed = self.run_cli("push", name, "travel.npz", *options, "--json").stdout
            sent = json.loads(pushed)["receipt"]["encodings"][0]
            self.assertEqual((sent["encoding"], sent["values"]), ("coo.packed", values))
        self.run_cli("round", "seal", name, "--wait")
        for encoding in ("coo.raw", "coo.packed", "auto"):
            self.run_cli("pull", name, "-o", "travel-out.npz", "--encoding", encoding)
            difference = abs(self.load("travel-out.npz") - 3 * matrix.tocsr()).max()
            self.assertLessEqual(difference, 8 / 127)

    def test_bench_measures_and_finds_the_exact_sum(self) -> None:
        options = ["--updates", 40, "--warm-up", 3, "--rows", 5000, "--width", 2, "--nnz", 50]
        for extra in (["--indices", "zipf"], ["--rate", 2000, "--nnz-min", 1]):
            report = json.loads(
                self.run_cli("bench", "--concurrency", "1,3", *options, *extra, "--json").stdout
            )
            self.assertEqual([level["concurrency"] for level in report["levels"]], [1, 3])
            for level in report["levels"]:
                self.assertTrue(level["sum_is_exact"])
                self.assertEqual(level["updates"], 40)
                self.assertLessEqual(level["latency_ms"]["p50"], level["latency_ms"]["max"])
        table = self.run_cli("bench", "--concurrency", 2, *options).stdout
        self.assertIn("exact", table)
        self.assertIn("--rows", self.error("bench", "--rows", 5, "--nnz", 50, code=2))

    @staticmethod
    def wait_until_stopped(pid: int) -> None:
        """A stop reaches a process when one of its threads runs again: on a busy machine, later."""
        threads = Path(f"/proc/{pid}/task")
        while any("\nState:\tT" not in (t / "status").read_text() for t in threads.iterdir()):
            pass

    def begin_bench(self) -> tuple[subprocess.Popen, str]:
        """One that goes on for minutes, and the name of its round."""
        load = ("--updates", 1000, "--warm-up", 0, "--rate", 5, "--concurrency", 1, "--nnz", 5)
        command = [BINARY, "bench", "--server", self.address, "--attempts", 1000, *load]
        before = self.rounds()
        bench = subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True)
        used = set()  # the bench knows its name: it has sent an update there
        while not used:
            self.assertIsNone(bench.poll())
            used = self.rounds(contributors_min=1) - before
        return bench, used.pop()

    def rounds(self, contributors_min: int = 0) -> set[str]:
        listed = json.loads(self.run_cli("round", "list", "--json").stdout)
        return {r["name"] for r in listed["rounds"] if r["contributors"] >= contributors_min}

    def test_an_interrupted_bench_leaves_no_round(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            bench, name = self.begin_bench()
            bench.send_signal(number)
            _, error = bench.communicate(timeout=60)
            self.assertEqual(error, "sparseagg: interrupted; no round is left on the server\n")
            self.assertEqual(bench.returncode, 130)
            self.assertNotIn(name, self.rounds())

    def test_an_interrupted_bench_does_not_wait_for_a_server_that_is_silent(self) -> None:
        (patient, first), (impatient, second) = self.begin_bench(), self.begin_bench()
        self.server.send_signal(signal.SIGSTOP)
        self.wait_until_stopped(self.server.pid)
        try:
            patient.send_signal(signal.SIGINT)
            _, error = patient.communicate(timeout=60)
            while impatient.poll() is None:  # the second of them, which erases nothing, ends it
                impatient.send_signal(signal.SIGINT)
            impatient.communicate()
        finally:
            self.server.send_signal(signal.SIGCONT)
        self.assertEqual(patient.returncode, 130)
        self.assertIn(f"interrupted; {first} remains on the server: no answer", error)
        self.assertEqual(error.count("\n"), 1)
        self.assertEqual(impatient.returncode, -signal.SIGINT)
        for name in (first, second):
            self.run_cli("round", "abort", name)
            self.run_cli("round", "delete", name)

    def test_bench_replays_recorded_updates(self) -> None:
        files = []
        for i in range(3):
            self.matrix(f"recorded-{i}.npz", i + 1)
            files += ["--replay", f"emb=recorded-{i}.npz"]
        options = ["--updates", 20, "--warm-up", 1, "--concurrency", 2]
        report = json.loads(self.run_cli("bench", *options, *files, "--json").stdout)
        self.assertEqual(report["replay"], files[1::2])
        self.assertTrue(report["levels"][0]["sum_is_exact"])
        self.assertEqual(report["levels"][0]["updates"], 20)
        self.assertIn("--values", self.error("bench", *files, "--values", "bf16", code=2))
        self.assertIn("missing.npz", self.error("bench", "--replay", "missing.npz"))

    def test_bench_knows_the_sum_of_values_that_a_product_rounds(self) -> None:
        rng = np.random.default_rng(1)
        files = []
        for i in range(3):
            name = f"normal-{i}.npz"
            values = {"values": rng.standard_normal(50), "dense_shape": np.array([100])}
            np.savez(self.path / name, indices=np.arange(50), **values)
            files += ["--replay", name]
        for updates in (3, 20, 23):  # each of them sent once, 6 or 7 times, and 7 or 8 times
            options = ("--updates", updates, "--warm-up", 0, "--concurrency", 2)
            self.assertIn(" exact\n", self.run_cli("bench", *options, *files).stdout)

    def test_output_holds_no_progress_without_a_terminal(self) -> None:
        self.matrix("quiet.npz", 1)
        self.assertEqual(self.run_cli("reduce", "-o", "quiet-out.npz", "quiet.npz").stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
