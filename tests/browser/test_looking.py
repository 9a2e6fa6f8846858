"""The careful eye (looking.js) sees: a page with one fault for each rule, and what is said of it."""

from typing import Any

from tests.browser.visiting import LOOK

FAULTY = """
<style>body { margin: 0; background: white; color: black } button { width: 40px; height: 40px }</style>
<main>
  <input id=twice>
  <p id=twice>two of one id</p>
  <img src="">
  <a href="#" tabindex="3">ahead</a>
  <div aria-controls="nobody"></div>
  <p style="color: #bbb">pale</p>
  <button style="width: 9px; height: 9px" aria-label="tiny"></button>
  <button style="position: absolute; left: -60px" aria-label="away"></button>
  <div style="width: 500px">wide</div>
  <button style="overflow: hidden; width: 30px; padding: 0; white-space: nowrap">a long word</button>
  <i style="position: absolute; top: 300px; left: 0">lower words</i>
  <b style="position: absolute; top: 300px; left: 40px">upper words</b>
</main>"""

SAID = [
    "<input id=twice> has no name",
    "<img> has no alternative",
    "<a> jumps ahead in the order of focus",
    "the id twice is there 2 times",
    "<div> aria-controls names nothing",
    "the view has no heading",
    '<p> "pale" has contrast 1.92',
    "the page is 500 wide and the window 390",
    "<button> lies outside the window",
    "<button> is too small for a finger",
    '"a long word" is cut by <button>',
    '"lower words" and "upper words" lie on each other',
]


def test_each_fault_of_a_page_is_said(chromium: Any) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 600})
    page.set_content(FAULTY)

    assert page.evaluate(LOOK) == SAID
    page.close()


def test_a_good_page_is_left_alone(chromium: Any) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 600})
    page.set_content(
        "<style>body { background: white }</style><main><h2>Good</h2><a href='#'>day</a></main>"
    )

    assert page.evaluate(LOOK) == []
    assert page.evaluate("() => typeof textsIn") == "undefined"  # nothing is left behind
    page.close()
