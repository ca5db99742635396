"""The page of examples/browser in a real headless Chromium: pages of another origin work for a real server.

Usage: browser_test.py SPARSEAGG OUT      a picture goes to OUT
"""

from __future__ import annotations

import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

import numpy as np
from chromium import CONTRAST, browser
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from server import Server, free_port

sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "examples/word_embeddings"))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "examples/browser"))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "tests/python"))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "python"))
import documents
import model
from credentials import Credential, Credentials
from pages import PageServer
from sparseagg import Client, NewTaskGroup, Task, TensorSpec
from support.flaky_proxy import FlakyProxy
from support.texts import write_texts

ROOT = Path(__file__).resolve().parents[2]
BINARY = sys.argv[1]
OUT = Path(sys.argv[2])
WAIT_SECONDS = 300
MIB = 1 << 20
# Sizes for which the loss depends on training: it falls from 4.16 to about half.
SMALL = ("--rounds", "5", "--contributors", "10", "--dimensions", "16", "--passes", "2")
TRAINING_SEEDS = range(2, 8)


class Driver:
    """A browser with what the tests ask of it."""

    def __init__(self) -> None:
        self.chrome = browser(1000, 900)
        self.chrome.set_script_timeout(WAIT_SECONDS)

    def text(self, selector: str) -> str:
        """Returns the text of an element of the page."""
        return self.chrome.find_element(By.CSS_SELECTOR, selector).get_attribute("textContent")

    def wait_for(self, selector: str, part: str) -> str:
        """Waits until the text of an element has a part; returns the text."""
        self.until(lambda: part in self.text(selector), f"{selector} without {part!r}")
        return self.text(selector)

    def until(self, condition: Callable[[], object], message: str) -> None:
        """Waits until a condition holds."""
        WebDriverWait(self.chrome, WAIT_SECONDS).until(lambda _: condition(), message)

    def new_tab(self, address: str) -> str:
        """Opens an address in another tab, which is then the current one; returns its handle."""
        self.chrome.switch_to.new_window("tab")
        self.chrome.get(address)
        return self.chrome.current_window_handle

    def close_tab(self) -> None:
        """Closes the current tab."""
        self.chrome.close()
        self.chrome.switch_to.window(self.chrome.window_handles[0])

    def run(self, script: str, *arguments: object) -> object:
        """Returns what a script returns, the body of an async function with the modules of the page."""
        body = f"""const done = arguments[arguments.length - 1];
            const call = async (...given) => {{ {script} }};
            call(...arguments).then(value => done({{value}}), error => done({{error: String(error)}}));"""
        answer = self.chrome.execute_async_script(body, *arguments)
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer["value"]


class Owned:
    """A server that pages may call, the page's own server at another origin, and an empty folder of texts."""

    def __init__(
        self,
        test: unittest.TestCase,
        origins: str = "",
        credentials: Credentials | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sparseagg_browser_"))
        self.pages = PageServer(0, self.folder)
        self.http_port = free_port()  # one that stays over a restart
        flags = [
            f"--http-listen=127.0.0.1:{self.http_port}",
            f"--http-origins={origins or self.pages.origin}",
        ]
        if credentials:
            credentials.write(self.folder / "credentials.json")
            flags.append(f"--credentials={self.folder / 'credentials.json'}")
        self.server = Server(BINARY, *flags)
        token = credentials.owner.token if credentials else None
        self.client = Client(self.server.target, token=token)
        test.addCleanup(self.pages.close)
        test.addCleanup(self.server.stop)
        test.addCleanup(self.client.close)

    def address(self, credential: Credential | None = None) -> str:
        """Returns the address of the page, for a worker of this server."""
        return self.pages.address(f"http://127.0.0.1:{self.http_port}", "words", credential)

    def held_task(self, lease: float):
        """A task whose text comes when `give_text` is called; until then a worker holds the task."""
        os.mkfifo(self.folder / "document-0.txt")
        specs = [TensorSpec(name, [1 << 62], "i64") for name in ("occurrences", "documents")]
        round = self.client.create_round(specs)
        payload = json.dumps({"kind": "count"}).encode()
        group = NewTaskGroup(
            "words", round, contributors=["document-0"], payload=payload, lease=lease
        )
        (created,) = self.client.tasks.create(group)
        return f"{created.name}/tasks/1"

    def give_text(self) -> None:
        """Lets the worker that reads it go on."""
        (self.folder / "document-0.txt").write_text("one two two")


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.driver = Driver()
        cls.first_tab = cls.driver.chrome.current_window_handle

    @classmethod
    def tearDownClass(cls) -> None:
        cls.driver.chrome.quit()

    def train(self, *options: str, tabs: int = 0) -> dict:
        """The numbers of a training by examples/browser/train.py."""
        with tempfile.TemporaryDirectory() as folder:
            numbers = Path(folder, "numbers.json")
            command = [sys.executable, str(ROOT / "examples/browser/train.py"), *options]
            command += ["--page-port", "0", "--json", str(numbers)]
            environment = {"SPARSEAGG_BINARY": BINARY, "PYTHONPATH": str(ROOT / "python")}
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
            )
            self.addCleanup(process.kill)
            address = next(line for line in process.stdout if "http://" in line).split()[-1]
            handles = [self.driver.new_tab(address) for _ in range(tabs)]
            rest, _ = process.communicate(timeout=WAIT_SECONDS)
            self.assertEqual(process.returncode, 0, rest)
            for handle in handles:
                self.driver.chrome.switch_to.window(handle)
                self.looks_right(address)
                self.driver.close_tab()
            return json.loads(numbers.read_text())

    def looks_right(self, address: str) -> None:
        """The tab has worked, shows it, and has loaded nothing from elsewhere."""
        self.assertGreater(int(self.driver.text("#tasks").replace(",", "")), 0)
        self.assertGreater(int(self.driver.text("#bytes").replace(",", "")), 0)
        for plot in ("#held-out polyline", "#own polyline"):
            self.assertTrue(self.driver.chrome.find_elements(By.CSS_SELECTOR, plot), plot)
        self.driver.wait_for("#trouble", "cannot be reached")  # the owner and its server have ended
        contrast, worst = self.driver.chrome.execute_script(CONTRAST)
        self.assertGreaterEqual(contrast, 4.5, worst)
        loaded = self.driver.chrome.execute_script(
            "return performance.getEntriesByType('resource').map(entry => entry.name)"
        )
        origin = address.partition("/?")[0]
        for name in loaded:
            self.assertTrue(name.startswith((origin, "data:")), name)
        OUT.mkdir(parents=True, exist_ok=True)
        self.driver.chrome.save_screenshot(str(OUT / "browser.png"))

    def test_tabs_reach_the_loss_of_python_workers_within_its_noise(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            texts = ("--data", str(write_texts(Path(folder, "texts"), documents=40)))
            python = [
                self.train(*texts, *SMALL, "--workers", "2", "--training-seed", str(seed))
                for seed in TRAINING_SEEDS
            ]
            tabs = self.train(*texts, *SMALL, tabs=2)
        for after_round in range(6):
            losses = [numbers["losses"][after_round] for numbers in python]
            mean = statistics.mean(losses)
            noise = statistics.stdev(losses)
            found = tabs["losses"][after_round]
            print(f"round {after_round}: Python {mean:.5f} +- {noise:.5f}, tabs {found:.5f}")
            self.assertLessEqual(abs(found - mean), 4 * noise + 1e-9)
        self.assertLess(tabs["losses"][-1], 0.8 * tabs["losses"][0])
        self.assertEqual(tabs["tasks"], tabs["leases"])

    def test_a_tab_trains_with_a_token_from_its_address_which_it_keeps_nowhere(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            texts = ("--data", str(write_texts(Path(folder, "texts"), documents=40)))
            numbers = self.train(*texts, *SMALL, "--rounds", "1", "--tokens", tabs=1)
        self.assertEqual(numbers["tasks"], numbers["leases"])
        self.assertLess(numbers["losses"][1], numbers["losses"][0])

    def keeps_no_token(self, token: str) -> None:
        """Neither the tab's address and storage, nor the document and what it has loaded, have the token."""
        places = self.driver.chrome.execute_script(
            """return [location.href, document.cookie, JSON.stringify(localStorage),
                JSON.stringify(sessionStorage), JSON.stringify(history.state), document.documentElement.outerHTML,
                document.getElementById("token").value,
                ...performance.getEntriesByType("resource").map(entry => entry.name)];"""
        )
        self.assertGreater(len(places), 10)
        for place in places:
            self.assertNotIn(token, place)
        address = self.driver.chrome.current_url
        self.assertNotIn("#", address)
        databases = self.driver.run(
            "return [await indexedDB.databases(), await caches.keys()].flat().length;"
        )
        self.assertEqual(databases, 0)

    def test_a_page_without_a_token_asks_for_one_and_works_with_it(self) -> None:
        credentials = Credentials.new()
        owned = Owned(self, credentials=credentials)
        name = owned.held_task(lease=60)
        address = owned.address(credentials.tabs).partition("#")[0]
        self.driver.new_tab(address)
        self.driver.wait_for("#trouble", "requires a bearer token")
        field, button = (
            self.driver.chrome.find_element(By.CSS_SELECTOR, selector)
            for selector in ("#token", "#credential button")
        )
        field.send_keys("not-the-token")
        button.click()
        self.driver.wait_for("#trouble", "the token is not known")
        self.driver.until(field.is_displayed, "the field for the token is hidden")
        contrast, worst = self.driver.chrome.execute_script(CONTRAST)
        self.assertGreaterEqual(contrast, 4.5, worst)
        field.send_keys(credentials.tabs.token)
        button.click()
        self.driver.wait_for("#state", "Reading")
        self.assertFalse(field.is_displayed())
        self.keeps_no_token(credentials.tabs.token)
        task = owned.client.tasks.get(name)
        self.assertTrue(task.worker.startswith("tabs/tab-"), task.worker)
        # Its last call, without the page, has the token, too.
        self.driver.close_tab()
        self.assertEqual(self.back_in_the_pool(owned, name).attempts, 0)
        owned.give_text()
        (owned.folder / "document-0.txt").unlink()
        (owned.folder / "document-0.txt").write_text("one two two")
        self.driver.new_tab(owned.address(credentials.tabs))
        self.driver.wait_for("#tasks", "1")
        self.keeps_no_token(credentials.tabs.token)
        self.assertEqual(owned.client.tasks.get(name).state, "COMPLETED")
        self.driver.close_tab()

    def test_a_step_is_that_of_numpy(self) -> None:
        random = np.random.default_rng(1)
        shapes = {
            "input": (9, 4),
            "output": (12, 4),
            "bias": (12,),
            "position": (model.WINDOW * 2, 4),
        }
        before = {
            name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()
        }
        examples = model.Examples(random.integers(0, 12, 5), random.integers(0, 9, (5, 8)))
        negatives = random.integers(0, 12, 7)
        loss = model.loss_of(before, examples, negatives)
        after = {name: table.copy() for name, table in before.items()}
        model.descend(after, examples, negatives, 0.1)
        self.driver.chrome.get(Owned(self).pages.origin)
        found = self.driver.run(
            """const [parameters, targets, contexts, negatives] = given;
            const {LocalModel} = await import("/model.js");
            const tables = Object.entries(parameters).map(([name, values]) => [name, Float32Array.from(values)]);
            const model = new LocalModel(Object.fromEntries(tables));
            const plan = {targets: Int32Array.from(targets), contexts: Int32Array.from(contexts)};
            const loss = model.descend(plan, Int32Array.from(targets.keys()), negatives, 0.1);
            return {loss, tables: Object.fromEntries(tables.map(([name, values]) => [name, [...values]]))};""",
            {name: table.ravel().tolist() for name, table in before.items()},
            examples.targets.tolist(),
            examples.contexts.ravel().tolist(),
            negatives.tolist(),
        )
        self.assertAlmostEqual(found["loss"], loss, places=5)
        for name, table in after.items():
            tab = np.array(found["tables"][name])
            np.testing.assert_array_equal(tab, tab.astype(np.float32), "are f32")
            np.testing.assert_allclose(tab, table.ravel(), rtol=1e-5, atol=1e-6, err_msg=name)

    def test_an_update_is_the_difference_in_f32(self) -> None:
        """Every bit: what a tab sends is what numpy computes from the parameters before and after."""
        random = np.random.default_rng(2)
        counts = random.integers(1, 100, 50)
        ids = random.integers(0, 50, 300)
        self.driver.chrome.get(Owned(self).pages.origin)
        found = self.driver.run(
            """const [ids, counts, values] = given;
            const {planTraining, train} = await import("/model.js");
            const {Random} = await import("/random.js");
            const plan = planTraining(Int32Array.from(ids), Float64Array.from(counts), new Random("x"));
            const sizes = {input: 4 * plan.inputRows.length, output: 4 * plan.outputRows.length,
                           bias: plan.outputRows.length, position: 32};
            const parameters = Object.fromEntries(Object.entries(sizes).map(
                ([name, size]) => [name, Float32Array.from(values.slice(0, size))]));
            const before = Object.entries(parameters).map(([name, table]) => [name, [...table]]);
            const options = {passes: 2, rate: 0.1, random: new Random("y"), onProgress() {},
                             signal: new AbortController().signal};
            const changes = await train(parameters, plan, options);
            return before.map(([name, old]) => [name, old, [...parameters[name]], [...changes[name]]]);""",
            ids.tolist(),
            counts.tolist(),
            random.normal(size=1000).astype(np.float32).tolist(),
        )
        for name, *tables in found:
            before, after, change = (np.array(table, np.float32) for table in tables)
            np.testing.assert_array_equal(
                change.view(np.uint32), (after - before).view(np.uint32), name
            )
            self.assertTrue(change.any(), name)

    def test_words_have_the_hashes_of_python(self) -> None:
        text = "To be, or not to be: that is the Question. A b cc"
        self.driver.chrome.get(Owned(self).pages.origin)
        found = self.driver.run(
            """const {hashCounts, wordsOf} = await import("/words.js");
            const {hashes, counts} = await hashCounts(wordsOf(given[0]));
            return [[...hashes].map(String), [...counts].map(Number)];""",
            text,
        )
        hashes, counts = documents.hash_counts("to be or not to be that is the question cc".split())
        self.assertEqual(found, [[str(value) for value in hashes.tolist()], counts.tolist()])

    def test_50_mb_through_cut_connections_have_the_receipt_and_the_bits_of_grpc(self) -> None:
        owned = Owned(self)
        rows, nnz = 20_000_000, 50 * MIB // 8
        random = np.random.default_rng(1)
        indices = np.sort(random.choice(rows, nnz, replace=False)).astype("<i4")
        values = random.standard_normal(nnz).astype("<f4")
        (owned.folder / "update.txt").write_bytes(indices.tobytes() + values.tobytes())
        by_grpc, by_tab = (
            owned.client.create_round([TensorSpec("t", [rows], "f32")], round_id=name)
            for name in ("grpc", "tab")
        )
        expected = by_grpc.submit(
            {"t": (indices, values, [rows])},
            contributor="phone-1",
            update_id="1",
            weight=2,
            encoding="coo.raw",
        )
        proxy = FlakyProxy(owned.http_port, cut_after_bytes=9 * MIB, cuts=6)
        self.addCleanup(proxy.close)
        self.driver.chrome.get(owned.pages.origin)
        receipt = self.driver.run(
            """const [proxy, rows, nnz] = given;
            const {Server} = await import("/server.js");
            const {sparseTensor, submit} = await import("/tensors.js");
            const data = await (await fetch("/texts/update.txt")).arrayBuffer();
            const tensor = sparseTensor("t", new Int32Array(data, 0, nnz), new Float32Array(data, 4 * nnz, nnz), [rows]);
            const header = {round: "rounds/tab", contributor: "phone-1", updateId: "1", weight: 2};
            return submit(new Server(`http://${proxy}`), header, [tensor]);""",
            proxy.target,
            rows,
            nnz,
        )
        self.assertGreater(proxy.connections, 6)
        self.assertEqual(receipt["digest"], base64_of(expected.digest))
        self.assertEqual(int(receipt["sequence"]), expected.sequence)
        for round in (by_grpc, by_tab):
            round.seal()
        results = [round.result() for round in (by_grpc, by_tab)]
        np.testing.assert_array_equal(results[1]["t"].indices, results[0]["t"].indices)
        bits = [result["t"].values.view(np.uint32) for result in results]
        np.testing.assert_array_equal(bits[1], bits[0])
        self.assertEqual(*(result.manifest.result_digest for result in results))

    def test_an_upload_that_was_given_up_goes_on_where_the_server_is(self) -> None:
        owned = Owned(self)
        nnz = 1 << 19  # in four chunks
        round = owned.client.create_round([TensorSpec("t", [nnz], "f32")])
        self.driver.chrome.get(owned.pages.origin)
        shares, receipt = self.driver.run(
            """const [url, round, nnz] = given;
            const {Server} = await import("/server.js");
            const {sparseTensor, submit} = await import("/tensors.js");
            const rows = Int32Array.from({length: nnz}, (_, i) => i);
            const tensor = sparseTensor("t", rows, Float32Array.from(rows), [nnz]);
            const header = {round, contributor: "phone-1", updateId: "1"};
            const limit = new AbortController();
            const shares = [];
            const onProgress = share => {
              shares.push(share);
              if (shares.length === 2) limit.abort(new Error("given up"));
            };
            const options = {onProgress, signal: limit.signal};
            await submit(new Server(url), header, [tensor], options).then(() => shares.push(-1), () => {});
            delete options.signal;
            return [shares, await submit(new Server(url), header, [tensor], options)];""",
            f"http://127.0.0.1:{owned.http_port}",
            round.name,
            nnz,
        )
        self.assertEqual(shares[:2], [0.25, 0.5])
        # The answer to the first chunk says that the server holds two.
        self.assertEqual(shares[2:], [0.5, 0.75, 1])
        self.assertEqual(receipt["sequence"], "1")
        round.seal()
        np.testing.assert_array_equal(round.result()["t"].values, np.arange(nnz, dtype=np.float32))

    def test_an_upload_goes_on_at_the_offset_that_a_killed_server_has_kept(self) -> None:
        owned = Owned(self)
        nnz = 3 * MIB  # in 24 chunks; the server writes a checkpoint every 8 MiB
        round = owned.client.create_round([TensorSpec("t", [nnz], "f32")])
        self.driver.chrome.get(owned.pages.origin)
        self.driver.run(
            """const [url, round, nnz] = given;
            const {Server} = await import("/server.js");
            const {sparseTensor, submit} = await import("/tensors.js");
            const rows = Int32Array.from({length: nnz}, (_, i) => i);
            const tensor = sparseTensor("t", rows, Float32Array.from(rows), [nnz]);
            const server = new Server(url);
            const go = new Promise(resolve => window.go = resolve);
            window.offsets = [];  // of each call; null: it asks for the offset
            window.held = false;
            const call = async (service, method, message, signal) => {
              window.offsets.push(message.chunk ? message.chunk.offset / (1 << 20) : null);
              if (window.offsets.length === 21) {
                window.held = true;
                await go;
              }
              try {
                return await server.call(service, method, message, signal);
              } catch (error) {
                window.offsets.push(error.reason);
                throw error;
              }
            };
            const header = {round, contributor: "phone-1", updateId: "1"};
            window.receipt = submit({call}, header, [tensor]);""",
            f"http://127.0.0.1:{owned.http_port}",
            round.name,
            nnz,
        )
        self.driver.until(
            lambda: self.driver.chrome.execute_script("return window.held"),
            "20 chunks are not sent",
        )
        owned.server.kill()
        owned.server.start()
        receipt, offsets = self.driver.run(
            "window.go(); return [await window.receipt, window.offsets];"
        )
        lost = [20, "OFFSET_MISMATCH", None]
        self.assertEqual(offsets, [*range(20), *lost, *range(16, 24)])
        self.assertEqual(receipt["sequence"], "1")
        round.seal()
        np.testing.assert_array_equal(round.result()["t"].values, np.arange(nnz, dtype=np.float32))

    def test_a_result_is_read_in_parts(self) -> None:
        """6 MB are more than one answer has."""
        owned = Owned(self)
        rows = np.arange(500_000)
        values = np.random.default_rng(1).standard_normal(len(rows)).astype(np.float32)
        round = owned.client.create_round([TensorSpec("t", [len(rows)], "f32")])
        round.submit({"t": (rows, values, [len(rows)])}, contributor="a")
        round.seal()
        round.wait()
        self.driver.chrome.get(owned.pages.origin)
        found = self.driver.run(
            """const [url, name] = given;
            const {Server} = await import("/server.js");
            const {crc32c, readResult, selectionOf} = await import("/tensors.js");
            const server = new Server(url);
            const {indices, values} = (await readResult(server, {name})).get("t");
            const few = {name, layout: "RESULT_LAYOUT_DENSE", selections: [selectionOf("t", Int32Array.of(7, 3))]};
            const selected = (await readResult(server, few)).get("t");
            return [indices.every((index, i) => index === BigInt(i)), indices.length,
                    crc32c(new Uint8Array(values.buffer)), crc32c(new TextEncoder().encode("123456789")),
                    [...selected.values]];""",
            f"http://127.0.0.1:{owned.http_port}",
            round.name,
        )
        in_order, length, _, check, selected = found
        self.assertEqual((in_order, length), (True, len(rows)))
        self.assertEqual(check, 0xE3069283)  # of the Castagnoli polynomial (RFC 3720)
        self.assertEqual(selected, values[[7, 3]].tolist())

    def back_in_the_pool(self, owned: Owned, name: str) -> Task:
        """Waits until a task is available; returns it."""
        tasks = owned.client.tasks
        self.driver.until(lambda: tasks.get(name).state == "AVAILABLE", f"{name} is not available")
        return tasks.get(name)

    def test_a_tab_renews_its_lease_and_hands_the_task_back_when_it_is_closed(self) -> None:
        owned = Owned(self)
        name = owned.held_task(lease=5)
        self.driver.new_tab(owned.address())
        self.driver.wait_for("#lease", "renewed 4 times")  # more than a lease has passed
        task = owned.client.tasks.get(name)
        self.assertEqual((task.state, task.leases), ("LEASED", 1))
        self.driver.close_tab()
        task = self.back_in_the_pool(owned, name)
        self.assertEqual((task.attempts, task.leases), (0, 1), "a lease that ran out would count")
        owned.give_text()

    def test_the_button_hands_the_task_back_and_begins_again(self) -> None:
        owned = Owned(self)
        name = owned.held_task(lease=60)
        self.driver.new_tab(owned.address())
        self.driver.wait_for("#state", "Reading")
        switch = self.driver.chrome.find_element(By.CSS_SELECTOR, "#switch")
        switch.click()
        self.driver.wait_for("#state", "Stopped")
        self.assertEqual(self.back_in_the_pool(owned, name).attempts, 0)
        owned.give_text()
        (owned.folder / "document-0.txt").unlink()
        (owned.folder / "document-0.txt").write_text("one two two")
        switch.click()
        self.driver.wait_for("#tasks", "1")
        self.assertEqual(owned.client.tasks.get(name).state, "COMPLETED")
        self.driver.close_tab()

    def test_a_cancelled_task_is_dropped(self) -> None:
        owned = Owned(self)
        name = owned.held_task(lease=3)
        self.driver.new_tab(owned.address())
        self.driver.wait_for("#state", "Reading")
        owned.client.tasks.cancel(name)
        self.driver.wait_for("#events", "is dropped: the lease has ended")
        self.driver.wait_for("#state", "Waiting for a task")
        self.assertEqual(self.driver.text("#lease"), "none")
        owned.give_text()
        self.driver.close_tab()

    def test_what_cannot_work_is_said_in_words(self) -> None:
        owned = Owned(self, origins="http://elsewhere.example")
        self.driver.new_tab(owned.address())
        self.driver.wait_for("#trouble", f"does its --http-origins name {owned.pages.origin}?")
        self.driver.chrome.get(owned.pages.origin)
        self.driver.wait_for("#trouble", "add ?server=http://HOST:PORT")
        self.driver.close_tab()

    def test_a_task_of_another_kind_fails_with_its_reason(self) -> None:
        owned = Owned(self)
        (owned.folder / "document-0.txt").write_text("one")
        round = owned.client.create_round([TensorSpec("t", [10], "f32")])
        group = NewTaskGroup(
            "words",
            round,
            contributors=["document-0"],
            payload=b'{"kind": "dance"}',
            attempts_max=1,
        )
        (created,) = owned.client.tasks.create(group)
        self.driver.new_tab(owned.address())
        self.driver.wait_for("#events", 'of kind "dance", which this page does not know')
        self.assertEqual(owned.client.tasks.wait(created).failed, 1)
        (task,) = owned.client.tasks.list(created)
        self.assertIn("dance", task.last_failure)
        self.driver.close_tab()


def base64_of(data: bytes) -> str:
    """Bytes as JSON has them."""
    return base64.b64encode(data).decode()


if __name__ == "__main__":
    unittest.main(argv=["browser_test.py", "-v", *sys.argv[3:]])
