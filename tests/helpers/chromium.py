"""A check of the layout of pages in headless Chromium, driven by its command line.

No window can be narrower than 500 pixels, so the page is shown in a frame of the required width. A script in the
surrounding page measures the frame; the page itself is unchanged.
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

_FRAME = """<!DOCTYPE html><html style="color-scheme: {scheme}"><head><meta charset="utf-8"><base href="{base}">
<style>body {{ margin: 0 }} iframe {{ display: block; border: 0; width: {width}px; height: 900px }}</style></head>
<body><iframe srcdoc="{page}"></iframe><script>addEventListener("load", () => {{ {script} }})</script></body></html>"""
"""A page with the checked page in a frame, with the same base for relative links."""
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--no-first-run", "--virtual-time-budget=5000", "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"),
    "--hide-scrollbars",  # on a phone they lie over the page
)


def check_page(path, width, dark):
    """Return one sentence for each element of a page that overflows this width, and for each missing image.

    Folded details are opened first. A table may scroll, but its first column of numbers has to be in view. The browser
    has no access to the network.
    """
    parts = {"base": html.escape(path.resolve().as_uri()), "page": html.escape(path.read_text("utf-8"))}
    scheme = "dark" if dark else "light"
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(_FRAME.format(scheme=scheme, width=width, script=_MEASURE, **parts), "utf-8")
        command = [
            *(BROWSER, *_OPTIONS, f"--window-size={max(width, 500)},900"),  # no window is narrower
            f"--user-data-dir={folder}/profile",  # so that browsers can run at the same time
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            frame.as_uri(),
        ]
        process = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)
    match = re.search(r'<pre id="measured">([^<]*)</pre>', process.stdout)
    assert match is not None, f"{path}: the browser has not measured the page\n{process.stdout[-2000:]}"
    measured = json.loads(unquote(match[1]))
    assert measured["width"] == width
    assert measured["dark"] == dark
    return measured["complaints"]


# Elements and lines of text are both measured: a word may overflow an element that does not overflow the page.
_MEASURE = r"""
const frame = document.querySelector("iframe");
const view = frame.contentWindow, page = frame.contentDocument, width = view.innerWidth;
const dark = view.matchMedia("(prefers-color-scheme: dark)").matches;
page.querySelectorAll("details").forEach(details => { details.open = true; });
const complaints = [], seen = page.documentElement.scrollWidth;
if (seen > width) complaints.push(`the page is ${seen} pixels wide in a window of ${width}`);
const inside = element => {  // an element that scrolls, or a single pixel for screen readers
  for (let above = element; above && above !== page.body; above = above.parentElement) {
    const overflow = view.getComputedStyle(above).overflowX;
    if (["auto", "scroll"].includes(overflow)) return true;
    if (overflow !== "visible" && above.getBoundingClientRect().width <= 1) return true;
  }
  return false;
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
  const text = element.textContent.trim().replace(/\s+/g, " ").slice(0, 60);
  out.push(`<${element.localName}> ${text}: from ${Math.round(box.left)} to ${Math.round(box.right)} pixels`);
}
complaints.push(...out.slice(-10));  // the last are the innermost
for (const table of page.querySelectorAll("table")) {
  const cell = table.rows[table.rows.length - 1].cells[1];
  if (!cell) continue;
  let right = width;
  for (let above = table; above && above !== page.body; above = above.parentElement)
    if (inside(above)) right = Math.min(right, above.getBoundingClientRect().right);
  const edge = cell.getBoundingClientRect().right;
  const head = table.rows[0].cells[1].textContent.trim();
  if (edge > right + 0.5)
    complaints.push(`the column '${head}' ends at ${Math.round(edge)} of ${Math.round(right)} pixels`);
}
for (const image of page.images)
  if (!image.complete || image.naturalWidth === 0)
    complaints.push(`image missing: ${(image.getAttribute("alt") || image.getAttribute("src") || "").slice(0, 60)}`);
const measured = encodeURIComponent(JSON.stringify({ width, dark, complaints }));
document.documentElement.innerHTML = `<body><pre id="measured">${measured}</pre></body>`;
"""
