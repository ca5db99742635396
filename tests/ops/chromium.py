"""A headless Chromium for the tests of this folder, and what they measure in it."""

from __future__ import annotations

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

# Relative luminance of two CSS colours, as WCAG 2.1 defines contrast.
CONTRAST = """
const parse = text => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
const light = rgb => { const [r, g, b] = rgb.map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = node => { for (; node; node = node.parentElement) { const c = getComputedStyle(node).backgroundColor;
  if (!/rgba\\(.*, 0\\)|transparent/.test(c)) return c; } return "rgb(255,255,255)"; };
let worst = [99, ""];
for (const node of document.querySelectorAll("body *")) {
  const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  if (!own || !node.getClientRects().length || node.closest(".hidden,script,style,svg,option")) continue;
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(parse(behind(node)))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst[0]) worst = [ratio, node.tagName + " " + node.className + " " + node.textContent.slice(0, 40)];
}
return worst;
"""


def browser(width: int, height: int) -> webdriver.Chrome:
    options = Options()
    for flag in [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
    ]:
        options.add_argument(flag)
    options.add_argument(f"--window-size={width},{height}")
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    return driver
