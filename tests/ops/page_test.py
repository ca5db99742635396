"""The status page in a real headless Chromium, on a real server with 1,000 rounds and one that runs.

Usage: page_test.py SPARSEAGG OUT      screenshots go to OUT
"""

from __future__ import annotations

import re
import sys
import time
import unittest
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
from chromium import CONTRAST, browser
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from sparseagg import Client, NewTaskGroup, SparseTensor, TaskFencedError, TensorSpec

BINARY = sys.argv[1]
OUT = Path(sys.argv[2])
ROWS = 50_000
WAIT_SECONDS = 20


def update(rng: np.random.Generator) -> dict[str, SparseTensor]:
    rows = np.unique(rng.zipf(1.3, 3000) % ROWS)
    return {"emb": SparseTensor(rows, rng.standard_normal((len(rows), 16), np.float32), [ROWS, 16])}


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server(BINARY, "--rounds-max=2000")
        cls.rng = np.random.default_rng(7)
        cls.client = Client(cls.server.target)
        spec = TensorSpec("emb", [ROWS, 16], "f32", sparse_dim=1, op="weighted_mean")
        for i in range(998):
            cls.client.create_round(
                [TensorSpec("t", [10], "f32", sparse_dim=1)], round_id=f"old-{i:03}"
            )
        done = cls.client.create_round([spec], round_id="step-41")
        for i in range(40):
            done.submit(update(cls.rng), contributor=f"phone-{i}", weight=32)
        done.seal()
        done.result()
        cls.round = cls.client.create_round([spec], round_id="step-42", goal=40, deadline=3600)
        for i in range(5):
            cls.refuse(f"phone-{i}")
        cls.driver = browser(1280, 900)
        cls.driver.get(cls.server.admin)
        cls.wait_for("#rounds tbody tr:nth-child(1000)")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.driver.quit()
        cls.client.close()
        cls.server.stop()

    @classmethod
    def refuse(cls, contributor: str) -> None:
        bad = SparseTensor([ROWS + 1], np.ones((1, 16), np.float32), [ROWS + 2, 16])
        try:
            cls.round.submit({"emb": bad}, contributor=contributor)
        except Exception:
            return
        raise AssertionError("the update was not refused")

    @classmethod
    def wait_for(cls, selector: str):
        return WebDriverWait(cls.driver, WAIT_SECONDS).until(
            lambda d: d.find_elements(By.CSS_SELECTOR, selector)
        )

    def find(self, selector: str):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def wait_until(self, condition, message: str):
        """What `condition` returns, once it is true."""
        return WebDriverWait(self.driver, WAIT_SECONDS).until(lambda _: condition(), message)

    def contributors_of(self, name: str) -> int:
        """The number before "of 40", as the page shows it."""
        for row in self.driver.find_elements(By.CSS_SELECTOR, "#rounds tbody tr")[:5]:
            if row.find_element(By.TAG_NAME, "button").text == name:
                return int(row.find_elements(By.TAG_NAME, "td")[2].text.split()[0])
        return -1

    def filter(self, text: str, state: str = "All states") -> None:
        box = self.find("#find")
        box.clear()
        box.send_keys(text or "x" + Keys.BACKSPACE)
        Select(self.find("#state")).select_by_visible_text(state)

    def test_is_one_file_below_100_kb_that_asks_nobody_else(self) -> None:
        with urllib.request.urlopen(self.server.admin) as answer:
            page = answer.read()
            self.assertLess(len(page), 100_000)
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
        asked = self.driver.execute_script(
            "return performance.getEntriesByType('resource').map(entry => entry.name)"
        )
        for name in asked:
            self.assertTrue(name.startswith(self.server.admin) or name.startswith("data:"), name)

    def test_paints_within_300_ms_of_an_empty_page(self) -> None:
        """The quickest of five: what else the machine does slows both pages."""
        last = "#rounds tbody tr:nth-child(1000)"
        self.addCleanup(self.wait_for, last)  # the other tests find the page there
        self.addCleanup(self.driver.get, self.server.admin)
        empty = [self._paint_ms("data:text/html,<p>empty", "p") for _ in range(5)]
        times = [self._paint_ms(self.server.admin, last) for _ in range(5)]
        print(f"first contentful paint: {times} ms, of an empty page {empty}", flush=True)
        self.assertLess(min(times), min(empty) + 300)

    def test_a_root_shows_which_of_its_leaves_answer(self) -> None:
        leaves = [Server(BINARY), Server(BINARY)]
        named = ",".join(f"leaf-{i}={leaf.target}" for i, leaf in enumerate(leaves))
        root = Server(BINARY, f"--leaves={named}")
        for server in (root, *leaves):
            self.addCleanup(server.stop)
        self.addCleanup(self.wait_for, "#rounds tbody tr:nth-child(1000)")
        self.addCleanup(self.driver.get, self.server.admin)
        self.driver.get(root.admin)
        with Client(root.target) as client:
            client.create_round([TensorSpec("t", [10])])  # a root without rounds asks nobody

        def shows(pattern: str) -> bool:
            return re.search(pattern, self.find("#meters").text) is not None

        self.wait_until(lambda: shows(r"Leaves\n2 of 2 answer\n"), "the page shows two leaves")
        leaves[1].kill()
        silent = r"Leaves\n1 of 2 answer; silent: leaf-1 for [\d.]+ s\n"
        self.wait_until(lambda: shows(silent), "the page shows the silent leaf")
        self.assertIn("silent: leaf-1", self.find("#meters .bad").text)

    def _paint_ms(self, url: str, last: str) -> int:
        """Until the first contentful paint of a page that is there when it has `last`."""
        self.driver.get(url)
        self.wait_for(last)
        # A document may have all its elements before its first frame was painted.
        script = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        return round(
            self.wait_until(lambda: self.driver.execute_script(script), f"{url} was not painted")
        )

    def test_follows_a_running_round(self) -> None:
        self.filter("step-42")
        for i in range(3):
            before = self.contributors_of("step-42")
            self.round.submit(
                update(self.rng), contributor=f"live-{i}-{time.monotonic_ns()}", weight=8
            )
            self.wait_until(
                lambda before=before: self.contributors_of("step-42") == before + 1,
                "the page does not show the new contributor",
            )
        bar = self.find("#rounds [role=progressbar]")
        self.assertEqual(float(bar.get_attribute("aria-valuenow")), 100 * (before + 1) / 40)
        self.assertRegex(self.find("#rounds tbody tr").text, r"\b(59|60) min\b")
        self.wait_until(
            lambda: self.driver.find_elements(By.CSS_SELECTOR, "#charts polyline"),
            "no chart has a line",
        )
        self.filter("")

    def test_finds_rounds_by_name_and_state(self) -> None:
        rows = "return document.querySelectorAll('#rounds tbody tr').length"
        self.filter("old-99")
        self.assertEqual(self.driver.execute_script(rows), 8)
        self.filter("", "PUBLISHED")
        self.assertEqual(self.driver.execute_script(rows), 1)
        self.filter("nothing-like-it")
        self.assertEqual(self.driver.execute_script(rows), 0)
        self.assertEqual(self.find("#no-rounds").text, "No round matches.")
        self.filter("")
        self.assertEqual(self.driver.execute_script(rows), 1000)

    def test_a_click_shows_why_a_round_was_reduced_as_it_was(self) -> None:
        self.filter("step-41")
        self.find("#rounds tbody button").click()
        self.wait_for("dialog[open] tbody tr")
        text = self.find("dialog").text
        for expected in [
            "step-41",
            "published",
            "weighted_mean",
            "50000×16",
            "Why this plan",
            "Digest of the result",
        ]:
            self.assertIn(expected, text)
        self.find("dialog").screenshot(str(OUT / "round.png"))
        self.find("dialog").send_keys(Keys.ESCAPE)
        self.wait_until(
            lambda: not self.driver.find_elements(By.CSS_SELECTOR, "dialog[open]"), "it stays open"
        )
        self.filter("")

    def test_lists_refusals_by_reason_without_the_index(self) -> None:
        section = self.find("#refusals")
        self.assertIn("SHAPE_MISMATCH", section.text)
        self.assertIn("phone-4", section.text)
        self.assertNotIn(str(ROWS + 1), section.text)

    def test_works_with_the_keyboard_alone(self) -> None:
        self.filter("step-41")
        self.find("#state").send_keys(Keys.TAB)  # to the table
        self.driver.switch_to.active_element.send_keys(Keys.TAB)
        self.assertEqual(self.driver.switch_to.active_element.text, "step-41")
        self.driver.switch_to.active_element.send_keys(Keys.ENTER)
        self.wait_for("dialog[open]")
        self.assertTrue(
            self.driver.execute_script(
                "return document.querySelector('dialog').contains(document.activeElement)"
            )
        )
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.filter("")

    def test_everything_to_press_or_fill_has_a_name(self) -> None:
        unnamed = self.driver.execute_script("""
            return [...document.querySelectorAll("button, input, select, [role=img], [role=meter], [role=region]")].filter(node =>
              !(node.textContent.trim() || node.getAttribute("aria-label") || node.getAttribute("aria-labelledby") ||
                (node.labels && node.labels.length))).map(node => node.outerHTML)""")
        self.assertEqual(unnamed, [])
        heads = self.driver.execute_script(
            "return [...document.querySelectorAll('th')].filter(th => !th.scope).length"
        )
        self.assertEqual(heads, 0)

    def test_text_has_enough_contrast_in_both_themes(self) -> None:
        for theme in ["light", "dark"]:
            Select(self.find("#theme")).select_by_value(theme)
            ratio, where = self.driver.execute_script(CONTRAST)
            print(f"{theme}: lowest contrast {ratio:.1f} ({where.strip()})", flush=True)
            self.assertGreaterEqual(ratio, 4.5, where)
        Select(self.find("#theme")).select_by_value("")

    def test_pauses(self) -> None:
        pause = self.find("#pause")
        pause.click()
        count = "return performance.getEntriesByType('resource').length"
        before = self.driver.execute_script(count)
        self.round.submit(update(self.rng), contributor=f"paused-{time.monotonic_ns()}", weight=8)
        self.driver.execute_async_script("setTimeout(arguments[0], 2500)")
        self.assertLessEqual(self.driver.execute_script(count) - before, 2)  # what was under way
        pause.click()
        self.wait_until(lambda: self.driver.execute_script(count) > before + 2, "it does not go on")

    def test_shows_settings_with_their_source(self) -> None:
        self.find("#config summary").click()
        self.wait_for("#config tbody tr")
        self.assertIn("flag --rounds-max", self.find("#config").text)
        self.find("#config summary").click()

    def test_has_no_errors_in_its_console(self) -> None:
        errors = [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])

    def test_says_when_the_server_is_gone(self) -> None:
        server = Server(BINARY)
        driver = browser(800, 600)
        try:
            driver.get(server.admin)
            WebDriverWait(driver, WAIT_SECONDS).until(
                lambda d: d.find_element(By.ID, "phase").text == "serving"
            )
            server.stop()
            WebDriverWait(driver, WAIT_SECONDS).until(
                lambda d: "No answer since" in d.find_element(By.ID, "banner").text
            )
        finally:
            driver.quit()
            server.kill()


class ScreenshotTest(unittest.TestCase):
    """Pictures to look at: a busy server, light, dark and on a phone; nothing may stick out sideways."""

    def test_takes_pictures(self) -> None:
        server = Server(BINARY)
        rng = np.random.default_rng(8)
        drivers = {
            "light": browser(1280, 1580),
            "dark": browser(1280, 1580),
            "phone": browser(390, 844),
        }
        try:
            with Client(server.target) as client:
                self.load(client, rng)
            for name, driver in drivers.items():
                if name == "dark":
                    driver.execute_cdp_cmd(
                        "Emulation.setEmulatedMedia",
                        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
                    )
                driver.get(server.admin)
                WebDriverWait(driver, WAIT_SECONDS).until(
                    lambda d: d.find_elements(By.CSS_SELECTOR, "#charts polyline")
                    and d.find_elements(By.CSS_SELECTOR, "#rounds tbody tr")
                )
                sideways = driver.execute_script(
                    "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                self.assertEqual(sideways, 0, name)
                driver.save_screenshot(str(OUT / f"{name}.png"))
        finally:
            for driver in drivers.values():
                driver.quit()
            server.stop()

    @staticmethod
    def load(client: Client, rng: np.random.Generator) -> None:
        spec = TensorSpec("emb", [ROWS, 16], "f32", sparse_dim=1, op="weighted_mean")
        updates = [update(rng) for _ in range(20)]
        bad = SparseTensor([ROWS + 1], np.ones((1, 16), np.float32), [ROWS + 2, 16])
        for step in range(1, 15):
            current = client.create_round([spec], round_id=f"step-{step}", goal=60, deadline=600)
            client.tasks.create(NewTaskGroup("phones", current, percent_of_goal=130))
            for i in range(int(rng.integers(20, 60))):
                (task,) = client.tasks.acquire(f"phone-{i}", "phones").tasks
                if i % 9 == 8:  # it works for longer, or the user needs the phone
                    if rng.random() < 0.5:
                        client.tasks.hand_back(task.lease)
                    continue
                receipt = client.round(task.round).submit(
                    updates[i % 20], contributor=task.contributor, weight=32
                )
                with suppress(TaskFencedError):  # the goal was reached, which completes the task
                    client.tasks.complete(task.lease, receipt)
                time.sleep(0.03)
            for i in range(int(rng.integers(0, 3))):
                try:
                    current.submit({"emb": bad}, contributor=f"tablet-{i}")
                except Exception:
                    pass
            if step == 9:
                current.abort()
            elif step < 13:
                current.seal()
                current.result()


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
