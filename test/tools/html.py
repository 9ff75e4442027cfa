"""Uses the page of --report=html in headless Chromium as people do: by mouse,
only by keyboard, on a wide and a narrow window, dark and light, and without scripts.

    html.py PAGE [--shots=DIR] [--hostile=TEXT] [--measured]
"""

import argparse
import pathlib

from browser import Browser, find

KERNEL = "layers_mlp_gate_up_decode"

# The text of the lines of a phase that are marked or chosen.
LINES = """((phase) => [...document.querySelectorAll(
    `[data-phase=${phase}] .marked, [data-phase=${phase}] .chosen`)].map(e => e.textContent))"""


def marked(page, phase):
    return page.evaluate(f"{LINES}({phase!r})")


def check(condition, *what):
    if not condition:
        raise SystemExit(f"html.py: {what}")


def check_marks(page, phases):
    """llama.swiglu of the MLP is marked, and what became of it: an exponential, and no
    product of the matrices before it."""
    imported = marked(page, "import")
    check(len(imported) == 1 and "llama.swiglu" in imported[0], imported)
    check([line for line in marked(page, "fuse") if "llama.swiglu" in line], "fuse")
    linalg = marked(page, "linalg")
    check(any("math.exp" in line for line in linalg), linalg)
    check(not any("reduction" in line for line in linalg), linalg)
    check(any("arith.negf" in line for line in marked(page, "tile")), "tile")
    words = {"llvm": "llvm.f", "ptx": "ex2.approx"}
    for phase in phases:
        check(any(words[phase] in line for line in marked(page, phase)), phase)


def choose_kernel(page):
    page.evaluate(
        f"""(() => {{ const kernel = document.getElementById("kernel");
        kernel.value = data.graph.findIndex(n => n.function === {KERNEL!r});
        kernel.dispatchEvent(new Event("change")); }})()"""
    )


def check_lines(page):
    """Ops, values and types have colours, and runs of constants are folded until one of
    them is chosen."""
    for kind in ("op", "value", "symbol", "type"):
        count = page.evaluate(f"document.querySelectorAll('.line .w-{kind}').length")
        check(count > 20, kind, count)
    constant = "document.querySelector('[data-phase=tile] .fold [role=option]')"
    check(not page.evaluate(f"{constant}.checkVisibility()"), "constants are shown")
    page.evaluate(f"choose({constant}, true)")
    check(page.evaluate(f"{constant}.checkVisibility()"), "a chosen constant is not shown")
    page.evaluate("drop()")


def use_mouse(page, phases):
    choose_kernel(page)
    check_lines(page)
    choose_kernel(page)
    x, y = page.evaluate(
        """(() => { const line = [...document.querySelectorAll("[data-phase=fuse] .line")]
        .find(e => e.textContent.includes("llama.swiglu"));
        line.scrollIntoView({ block: "center" });
        const box = line.getBoundingClientRect();
        return [box.x + 20, box.y + box.height / 2]; })()"""
    )
    page.click(x, y)
    check_marks(page, phases)
    status = page.evaluate("document.getElementById('status').textContent")
    check(status.startswith("fuse: ") and "from 1 op at import" in status, status)
    page.press("Escape")
    check(not marked(page, "import"), "Escape drops the mark")


FOCUS = """(() => { const e = document.activeElement;
    const style = getComputedStyle(e);
    return { text: e.textContent, tag: e.tagName, role: e.getAttribute("role"),
        phase: e.closest(".pane")?.dataset.phase,
        seen: e.matches(":focus-visible") && style.outlineStyle !== "none" }; })()"""


def tab_to(page, found):
    """Presses Tab until `found` holds of what has the focus, which is always seen."""
    for _ in range(60):
        page.press("Tab")
        focus = page.evaluate(FOCUS)
        check(focus["seen"], "no focus is seen", focus)
        if found(focus):
            return focus
    return check(False, "Tab does not get there")


def use_keyboard(page, phases):
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    tab_to(page, lambda focus: focus["tag"] == "BUTTON" and KERNEL in focus["text"])
    page.press("Enter")
    focus = tab_to(page, lambda focus: focus["phase"] == "fuse")
    for _ in range(20):
        if "llama.swiglu" in focus["text"]:
            break
        page.press("ArrowDown")
        focus = page.evaluate(FOCUS)
    check("llama.swiglu" in focus["text"] and focus["role"] == "option", focus)
    check_marks(page, phases)
    # Enter keeps the marks while the focus goes on.
    page.press("Enter")
    page.press("ArrowRight")
    focus = page.evaluate(FOCUS)
    check(focus["phase"] == "linalg" and focus["seen"], focus)
    page.press("ArrowUp")
    check_marks(page, phases)
    page.press("Enter")
    page.press("ArrowLeft")
    check(page.evaluate(FOCUS)["phase"] == "fuse", "ArrowLeft goes back")
    page.press("Escape")
    check(not marked(page, "fuse"), "Escape drops the mark")


def check_layout(page, width):
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    check(wide <= window == width, "the page scrolls to the side", wide, window)
    hidden = page.evaluate(
        """[...document.querySelectorAll("main section")].filter(e => e.id && !e.offsetHeight)
        .map(e => e.id)"""
    )
    check(not hidden, "hidden sections", hidden)
    plots = page.evaluate(
        """["#graph path", "#memory-plot rect", "#roofline-plot circle"]
        .map(e => document.querySelectorAll(e).length)"""
    )
    check(all(plots), "empty plots", plots)


def look(browser, file, shots):
    """Wide and narrow, light and dark."""
    colors = set()
    for width in (1280, 400):
        for dark in (False, True):
            page = browser.open(file, width, dark=dark)
            choose_kernel(page)
            check_layout(page, width)
            colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            if shots:
                name = f"{width}-{'dark' if dark else 'light'}.png"
                page.screenshot(shots / name, whole=True)
            check(not page.problems(), page.problems())
    check(len(colors) == 2, "dark and light look the same", colors)


def read_without_scripts(browser, file, hostile):
    page = browser.open(file, scripts=False)
    # The protocol's own script still runs.
    text = page.evaluate("document.body.innerText")
    for word in (KERNEL, "model.layers.*.mlp.gate_up", "hidden_size", "honoured"):
        check(word in text, f"{word} is missing without scripts")
    check("Choose a kernel" not in text, "what needs scripts shows without them")
    check(not hostile or hostile in text, "the config's text is missing")
    check(not page.problems(), page.problems())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("--shots", type=pathlib.Path)
    parser.add_argument("--hostile", default="")
    parser.add_argument("--phases", default="llvm")
    options = parser.parse_args()
    if not find():
        print("skipped: there is no chromium")
        return
    phases = options.phases.split(",")
    with Browser() as browser:
        page = browser.open(options.page)
        use_mouse(page, phases)
        use_keyboard(page, phases)
        check(not page.evaluate("window.hacked"), "text of the config ran")
        check(not page.problems(), page.problems())
        read_without_scripts(browser, options.page, options.hostile)
        look(browser, options.page, options.shots)
    print("used")


main()
