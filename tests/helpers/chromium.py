"""Pages judged by a real browser: Chromium without a window, driven by its command line alone.

A window cannot be narrower than 500 pixels. So the page stands in a frame of the asked width, whose document
is measured by the script of the page around it: the page itself is looked at as it is, with no script in it.
"""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import unquote

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
needs_chromium = pytest.mark.skipif(BROWSER is None, reason="neither chromium nor google-chrome is installed")

_HEIGHT = 900
_NARROWEST = 500
"""Pixels of a window's width."""
_SECONDS = 120


def check_page(path, width, dark):
    """What is wrong with the page at this width, one sentence each: what sticks out, which images are missing.

    What is folded away is opened first. Nothing can be fetched from the network.
    """
    with tempfile.TemporaryDirectory() as folder:
        frame = _frame(Path(folder), path, width, _HEIGHT, dark, _MEASURE)
        dumped = _chromium(frame, max(width, _NARROWEST), _HEIGHT, dark, "--dump-dom")
    found = re.search(r'<pre id="found">([^<]*)</pre>', dumped)
    if found is None:
        raise RuntimeError(f"{path}: the browser has not measured the page\n{dumped[-2000:]}")
    measured = json.loads(unquote(html.unescape(found[1])))
    if (measured["width"], measured["dark"]) != (width, dark):
        raise RuntimeError(f"{path}: asked for width {width} and dark {dark}, but the browser has shown {measured}")
    return measured["complaints"]


def _frame(folder, path, width, height, dark, script):
    """A page with the page in a frame; it looks for what stands beside it where the page stands."""
    frame = folder / "frame.html"
    frame.write_text(
        f'<!DOCTYPE html><html style="color-scheme: {"dark" if dark else "light"}"><head><meta charset="utf-8">'
        f'<base href="{html.escape(path.resolve().as_uri())}"><style>body {{ margin: 0 }} iframe '
        f"{{ display: block; border: 0; width: {width}px; height: {height}px }}</style></head><body>"
        f'<iframe srcdoc="{html.escape(path.read_text(encoding="utf-8"))}"></iframe>'
        f'<script>addEventListener("load", () => {{ const frame = document.querySelector("iframe");\n{script}\n}})'
        "</script></body></html>",
        encoding="utf-8",
    )
    return frame


def _chromium(frame, width, height, dark, *options):
    assert BROWSER is not None
    command = [
        BROWSER,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
        "--no-first-run",
        "--hide-scrollbars",  # a phone's lie over the page
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={frame.parent / 'profile'}",  # several browsers can then run at a time
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={width},{height}",
        "--virtual-time-budget=5000",
        *options,
        frame.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"the browser ended with {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


# Elements and lines of text are both looked at: a word may stick out of an element that does not.
_MEASURE = r"""
const view = frame.contentWindow, page = frame.contentDocument, width = view.innerWidth;
const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
page.querySelectorAll("details").forEach(details => { details.open = true; });
const complaints = [], seen = page.documentElement.scrollWidth;
if (seen > width) complaints.push(`the page is ${seen} pixels wide in a window of ${width}`);
const inside = element => {  // what scrolls inside itself, or one pixel that only a screen reader finds
  for (let above = element; above && above !== page.body; above = above.parentElement) {
    const overflow = view.getComputedStyle(above).overflowX;
    if (["auto", "scroll"].includes(overflow)) return true;
    if (overflow !== "visible" && above.getBoundingClientRect().width <= 1) return true;
  }
  return false;
};
const name = element => {
  const kind = element.getAttribute("class");
  const text = (element.textContent || element.getAttribute("alt") || "").trim().replace(/\s+/g, " ").slice(0, 60);
  return `<${element.localName}${kind ? ` class="${kind}"` : ""}> ${text}`.trim();
};
const out = [];
const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
  if (["SCRIPT", "STYLE"].includes(element.tagName)) continue;
  const range = page.createRange();
  range.selectNodeContents(node);
  const box = (node === element ? node : range).getBoundingClientRect();
  if (box.width === 0 || (box.right <= width + 0.5 && box.left >= -0.5)) continue;
  if (inside(node === element ? element.parentElement : element)) continue;
  const [edge, at] = box.right > width + 0.5 ? ["right", box.right] : ["left", box.left];
  out.push([element, `${name(element)}: ${edge} edge at ${Math.round(at)} of ${width} pixels`]);
}
const last = out.filter(([element], index) =>  // those that stick out because of what is in them are not named
  !out.some(([other], at) => at !== index && (other !== element ? element.contains(other) : at < index)));
complaints.push(...last.slice(0, 10).map(([, sentence]) => sentence));
if (last.length > 10) complaints.push(`and ${last.length - 10} more elements`);
for (const image of page.images)
  if (!image.complete || image.naturalWidth === 0)
    complaints.push(`image missing: ${(image.getAttribute("alt") || image.getAttribute("src") || "").slice(0, 60)}`);
const found = encodeURIComponent(JSON.stringify({ width, dark, complaints }));
document.documentElement.innerHTML = `<body><pre id="found">${found}</pre></body>`;
"""
