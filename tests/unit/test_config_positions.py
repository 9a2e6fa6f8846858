"""Positions in JSON5 text, with all that JSON5 allows between keys."""

from crossclaw.config.positions import lines_of

TEXT = """// { "not": 1 }
{
  /* nor: { this: 2 }
   */ plain: 1, 'single': "a } b",
  "quoted\\u0041": [
    1, { deep: [] }, /* , */
    [
      2 ],
  ],
  text: "goes \\
on", after: -.5,
  twice: 1,
  twice: { in: 0xFF },
}
"""


def test_every_key_and_item_has_its_line() -> None:
    lines = lines_of(TEXT)
    assert lines[()] == 2
    assert lines[("plain",)] == 4
    assert lines[("single",)] == 4
    assert lines[("quotedA",)] == 5
    assert lines[("quotedA", 0)] == 6
    assert lines[("quotedA", 1, "deep")] == 6
    assert lines[("quotedA", 2)] == 7
    assert lines[("quotedA", 2, 0)] == 8
    assert lines[("text",)] == 10
    assert lines[("after",)] == 11
    assert ("not",) not in lines


def test_a_key_written_twice_stands_where_its_value_does() -> None:
    lines = lines_of(TEXT)
    assert lines[("twice",)] == 13
    assert lines[("twice", "in")] == 13


def test_windows_line_ends_count_once() -> None:
    assert lines_of("{\r\n a: 1,\r\n b: 2 }")[("b",)] == 3
