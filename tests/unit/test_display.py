"""One reading of Markdown, and how it looks on a page, in a terminal and in each chat."""

import html
import io
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from crossclaw.display import html as pages
from crossclaw.display.bounds import CHARS_MAX, cells_in
from crossclaw.display.chunks import CHARS_MIN
from crossclaw.display.dialects import COLUMNS_MAX, DIALECTS, PLAIN
from crossclaw.display.document import Paragraph, StyledText
from crossclaw.display.highlighting import CLASSES, highlighted
from crossclaw.display.html import ATTRIBUTES, TAGS, to_html
from crossclaw.display.reading import is_safe_link, read
from crossclaw.display.terminal import open_block, to_terminal
from tests.chunking import chunks

PAGE = """# Title

Some **bold *and italic* words**, ~~old~~ `a|b`, a [link](https://x.y/a_b).

3. three
4. four
   - nested

> quoted
> > twice

| left | right |
|:-----|------:|
| 1    | **2** |

```py
x = "```"
```

---

End 🦀.
"""

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<style>body{display:none}</style>",
    '<p style="position:fixed" onclick="x()">over</p>',
    "<iframe src='https://evil'></iframe>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](/tools/invoke)",
    "<javascript:alert(1)>",
    '[x](https://a "onmouseover=alert(1)")',
    '[x](https://a"onmouseover="alert(1))',
    "![x](https://evil.example/?secret=1)",
    "![x](javascript:alert(1))",
    "```<script>\n</code></pre><script>alert(1)</script>\n```",
    '```" onload="x\ncode\n```',
    "| <b onclick=x>a</b> |\n|---|\n| </td><script>x</script> |",
    "<svg><script>x</script></svg><math><style><img src=x onerror=y>",
    "<!--><script>x</script>-->",
]


class Seen(HTMLParser):
    """Every tag and attribute that a browser would see."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def assert_harmless(html: str) -> None:
    for tag, attributes in Seen(html).tags:
        assert tag in TAGS
        if tag == "span":
            assert set(attributes) == {"class"}
            assert attributes["class"] in CLASSES
            continue
        assert set(attributes) <= ATTRIBUTES.get(tag, set()) | {"rel", "target"}
        if tag == "a" and "href" in attributes:
            assert re.match(r"(https?|mailto):", attributes["href"] or "")
            assert attributes["rel"] == "noopener noreferrer nofollow"


# Pages


@pytest.mark.spec("M8")
def test_markdown_becomes_html_with_tables_code_lists_and_links() -> None:
    html = to_html(PAGE)
    for part in (
        "<h1>Title</h1>",
        "<strong>bold <em>and italic</em> words</strong>",
        "<s>old</s>",
        '<a href="https://x.y/a_b"',
        '<ol start="3">',
        "<li>nested</li>",
        '<td align="right"><strong>2</strong></td>',
        '<code class="language-py">',
        "<blockquote>",
    ):
        assert part in html


@pytest.mark.spec("M8")
@pytest.mark.parametrize("markdown", HOSTILE)
def test_hostile_markdown_is_shown_and_does_nothing(markdown: str) -> None:
    assert_harmless(to_html(markdown))
    assert_harmless(to_html(f"> - {markdown}"))


def test_raw_html_is_text_that_a_person_can_read() -> None:
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in to_html("Do <script>alert(1)</script> this")


def test_a_text_too_long_to_be_read_is_shown_as_it_was_written() -> None:
    html = to_html("<b>**" + "x" * CHARS_MAX)
    assert html.startswith("<pre>&lt;b&gt;**xxx")
    assert_harmless(html)
    made = chunks("x" * CHARS_MAX + "**", DIALECTS["discord"])
    assert "".join(made) == "x" * CHARS_MAX + "\\*\\*"


def table(columns: int, rows: int, row: str = "|a", before: str = "") -> str:
    head = f"{before}{'|a' * columns}|\n{before}{'|-' * columns}|\n"
    return head + f"{before}{row}\n" * rows


COSTLY = {
    "a wide table with short rows": table(500, 200),
    "a long table": table(2, 1_100, "|a|b|"),
    "a table in a quote": table(500, 200, before="> "),
    "tables that are many": (table(20, 30) + "\n") * 20,
    "a table with bare returns": table(500, 200).replace("\n", "\r"),
    "a table without edges": "a|" * 300 + "a\n" + ":-|" * 300 + ":-\n" + "a\n" * 300,
    "brackets": "[" * 20_000,
    "pictures that never end": "![" * 10_000,
    "links that never end": "[a](" * 5_000,
    "stars": "*a**" * 8_000,
    "lines": "a\n" * 5_000,
    "items": "- a\n" * 3_000,
}


@pytest.mark.parametrize("markdown", COSTLY.values(), ids=COSTLY)
def test_a_text_that_would_cost_too_much_is_shown_as_it_was_written(markdown: str) -> None:
    assert to_html(markdown) == f"<pre>{html.escape(markdown)}</pre>"
    assert read(markdown) == (Paragraph((StyledText(markdown),)),)
    assert isinstance(to_terminal(markdown), Text)
    assert open_block(markdown) == 0


@pytest.mark.parametrize(
    "markdown",
    [
        table(10, 190, "| a | b | c | d | e | f | g | h | i | j |"),
        "```json\n" + "[1, [2, [3]]],\n" * 2_000 + "```",
        "See [one](https://a.example) and **two**.\n\n" * 600,
        "- [a page](https://a.example)\n" * 900,
        "psql:\n\n```\n a | b\n---+---\n" + " 1 | 2\n" * 1_500 + "```",
    ],
)
def test_a_long_text_of_the_usual_kind_is_read(markdown: str) -> None:
    assert not to_html(markdown).startswith("<pre>&")
    assert read(markdown) != (Paragraph((StyledText(markdown),)),)


def test_cells_are_counted_as_the_parser_makes_them() -> None:
    for columns, rows in ((1, 1), (3, 7), (40, 20)):
        made = to_html(table(columns, rows)).count("<t")
        assert made <= cells_in(table(columns, rows)) + rows + 10
    assert cells_in("a: b\n---\nwords | more") == 0


def test_html_that_grows_beyond_all_bounds_is_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "CHARS_MAX", 200)
    assert to_html("[a](https://b.example)" * 4).startswith("<pre>[a](")


@pytest.mark.parametrize("mark", ["> ", "- ", "[", "**", "![", "`", "<", "|", "1. "])
def test_deeply_nested_marks_are_survived_everywhere(mark: str) -> None:
    deep = mark * 500 + "end"
    assert_harmless(to_html(deep))
    for dialect in DIALECTS.values():
        assert all(dialect.length(m) <= dialect.chars_max for m in chunks(deep, dialect))


def test_a_picture_is_a_link_and_never_fetched() -> None:
    html = to_html("![the map](https://evil.example/?secret=1)")
    assert "<img" not in html
    assert ">the map</a>" in html


@given(st.text(alphabet="<>[]()!`*_~|-#:\"'&;=/\\ \n\tabjavscriptonerd", max_size=80))
def test_no_text_whatever_becomes_more_than_harmless_html(markdown: str) -> None:
    assert_harmless(to_html(markdown))


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://a", True), ("mailto:a@b.c", True), ("page.html", True), ("//host/x", True),
        ("javascript:x", False), ("\tjava\nscript:x", False), ("DATA:x", False), ("file:/x", False),
    ],
)  # fmt: skip
def test_links_lead_to_the_web_or_to_mail(url: str, safe: bool) -> None:
    assert is_safe_link(url) is safe


# Terminal


@pytest.mark.spec("M8")
def test_a_terminal_shows_raw_html_and_where_links_lead() -> None:
    console = Console(file=io.StringIO(), width=100, highlight=False, force_terminal=False)
    console.print(to_terminal(f"{PAGE}\n\nAnd <b>this</b>."))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for part in ("Title", "link (https://x.y/a_b)", "nested", "right", 'x = "```"', "<b>this</b>"):
        assert part in shown
    assert "**" not in shown


# Chats


@pytest.mark.spec("M8", "N9")
@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("plain", ["Title\n\n", "bold and italic words", "link (https://x.y/a_b)", "3. three"]),
        (
            "telegram",
            [
                "<b>Title</b>",
                "<b>bold <i>and italic</i> words</b>",
                '<a href="https://x.y/a_b">link</a>',
                "<blockquote>quoted\n\ntwice</blockquote>",
                '<pre><code class="language-py">x = "```"</code></pre>',
                "<pre>left  right\n1     2</pre>",
            ],
        ),
        (
            "telegram-markdown",
            ["*bold _and italic_ words*", "3\\. three", "[link](https://x.y/a_b)", "🦀\\."],
        ),
        ("discord", ["# Title", "**bold *and italic* words**", "[link](https://x.y/a_b)", "> > "]),
        ("whatsapp", ["*Title*", "*bold _and italic_ words*", "~old~", "link (https://x.y/a_b)"]),
        (
            "signal",
            [
                "• nested",
                "> quoted",
                "\ufdd0bold \ufdd2and italic\ufdd3 words\ufdd1",
                '\ufdd6x = "```"\ufdd7',
            ],
        ),
        (
            "matrix",
            [
                "<h1>Title</h1>",
                "<p>",
                "<strong>bold <em>and italic</em> words</strong>",
                '<a href="https://x.y/a_b">link</a>',
                "<blockquote><p>quoted</p>",
                '<pre><code class="language-py">x = "```"</code></pre>',
                "<th>left</th><th>right</th>",
                "<td>1</td><td><strong>2</strong></td>",
                '<ol start="3"><li>three</li>',
            ],
        ),
        ("imessage", ["left  right\n1     2"]),
    ],
)
def test_each_chat_has_its_dialect(name: str, parts: list[str]) -> None:
    written = DIALECTS[name].write(read(PAGE))
    for part in parts:
        assert part in written


@pytest.mark.parametrize(
    ("name", "said", "written"),
    [
        ("telegram", "a < b & <b>c", "a &lt; b &amp; &lt;b&gt;c"),
        ("telegram-markdown", "1+1=2 (really!)", "1\\+1\\=2 \\(really\\!\\)"),
        ("discord", "snake\\_case @everyone <@12>", "snake\\_case @\u200beveryone \\<@12>"),
        ("whatsapp", "2 \\* 3", "2 * 3"),
        ("telegram", "**`a*b`**", "<code>a*b</code>"),
        ("matrix", "a < b & <b>c\nd", "<p>a &lt; b &amp; &lt;b&gt;c<br>d</p>"),
        ("signal", "**a\ufdd1b** `c\ufdd7`", "\ufdd0ab\ufdd1 \ufdd6c\ufdd7"),
        ("telegram", "**a *b*** *c*", "<b>a <i>b</i></b> <i>c</i>"),
        ("telegram", "***a** b*", "<i><b>a</b> b</i>"),
        ("plain", "<mailto:a@b.c> <https://a>", "a@b.c https://a"),
    ],
)  # fmt: skip
def test_marks_of_the_text_are_not_marks_of_the_chat(name: str, said: str, written: str) -> None:
    assert DIALECTS[name].write(read(said)).replace("mailto:", "") == written


def test_three_backticks_do_not_end_a_fence_early() -> None:
    for name in ("discord", "whatsapp"):
        assert DIALECTS[name].write(read("````\n```\n````")).count("```") == 2


def test_a_table_too_wide_for_a_phone_is_a_list() -> None:
    wide = "x" * COLUMNS_MAX
    assert PLAIN.write(read(f"| a | b |\n|---|---|\n| 1 | {wide} |")) == f"• a: 1, b: {wide}"


def test_wide_letters_line_up() -> None:
    table = PLAIN.write(read("| a | b |\n|---|---|\n| 日本 | 1 |\n| x | 2 |"))
    assert table == "a     b\n日本  1\nx     2"


# Chunks


def test_a_short_reply_is_one_message_and_an_empty_one_none() -> None:
    assert chunks("Hello **you**.", DIALECTS["telegram"]) == ["Hello <b>you</b>."]
    assert chunks(" \n", PLAIN) == []


@pytest.mark.spec("N9")
def test_a_fence_that_fits_a_message_is_kept_whole() -> None:
    code = "\n".join(f"line {n}" for n in range(40))
    first, second = chunks(f"{'word ' * 70}\n\n```py\n{code}\n```", DIALECTS["discord"], 500)
    assert "```" not in first
    assert second == f"```py\n{code}\n```"


@pytest.mark.spec("N9")
def test_a_fence_longer_than_a_message_is_closed_and_opened_again() -> None:
    lines = [f"line {n}" for n in range(200)]
    made = chunks("```py\n" + "\n".join(lines) + "\n```", DIALECTS["discord"], 300)
    assert len(made) > 5
    assert all(m.startswith("```py\nline ") and m.endswith("\n```") for m in made)
    assert [line for m in made for line in m.split("\n")[1:-1]] == lines


def test_a_bold_paragraph_is_cut_between_words_and_stays_bold() -> None:
    made = chunks(f"**{'word ' * 60}end**", DIALECTS["telegram"], 100)
    assert len(made) > 2
    assert all(re.fullmatch(r"<b>(word ?)*(end)?</b>", m) for m in made)


def test_a_table_over_several_messages_repeats_its_head() -> None:
    rows = "\n".join(f"| row {n} | {n} |" for n in range(60))
    made = chunks(f"| name | number |\n|---|---|\n{rows}", DIALECTS["telegram"], 300)
    assert len(made) > 2
    assert all(m.startswith("<pre>name") for m in made)


def test_a_list_keeps_its_numbers_over_several_messages() -> None:
    items = "\n".join(f"{n}. {'long ' * 12}item {n}" for n in range(1, 20))
    made = chunks(items, PLAIN, 200)
    assert re.findall(r"^(\d+)\.", "\n".join(made), re.M) == [str(n) for n in range(1, 20)]


WORDS = st.text(alphabet="ab <>*_`~|.\n🦀", min_size=1, max_size=300)
PIECES = st.lists(
    st.one_of(
        WORDS,
        WORDS.map(lambda text: f"\n\n```py\n{text}\n```\n\n"),
        WORDS.map(lambda text: "\n\n> " + text.replace("\n", "\n> ") + "\n\n"),
        WORDS.map(lambda text: "\n- " + text.replace("\n", "\n- ") + "\n"),
        WORDS.map(lambda text: f"\n\n|a|b|\n|---|---|\n|x|{text.replace(chr(10), ' ')}|\n\n"),
    ),
    max_size=5,
).map("".join)


@pytest.mark.spec("N9")
@given(PIECES, st.sampled_from(sorted(DIALECTS)), st.integers(CHARS_MIN, 400))
def test_no_message_is_longer_than_the_platform_takes_and_no_word_is_lost(
    markdown: str, name: str, room: int
) -> None:
    dialect = DIALECTS[name]
    made = chunks(markdown, dialect, room)
    assert all(dialect.length(message) <= room and message.strip() for message in made)
    assert "".join(made).count("🦀") == dialect.write(read(markdown)).count("🦀")


@given(PIECES, st.integers(CHARS_MIN, 400))
def test_every_telegram_message_closes_what_it_opens(markdown: str, room: int) -> None:
    for message in chunks(markdown, DIALECTS["telegram"], room):
        open_tags: list[str] = []
        for closing, tag in re.findall(r"<(/?)(\w+)[^>]*>", message):
            if not closing:
                open_tags.append(tag)
            else:
                assert open_tags.pop() == tag
        assert not open_tags


# ── code and task lists on the page ────────────────────────────────────────────────────────────


def test_code_has_its_kinds_of_words_marked_and_stays_text() -> None:
    html = to_html("```python\ndef f(x):  # <b>hi</b>\n    return 'a' + 1\n```")

    assert '<span class="hk">def</span> f(x):' in html
    assert '<span class="hc"># &lt;b&gt;hi&lt;/b&gt;</span>' in html
    assert '<span class="hs">\'a\'</span> + <span class="hm">1</span>' in html
    assert "<span" not in to_html("```unknown\ndef f\n```")
    assert '<span class="hi">+new\n</span>' in to_html("```diff\n-old\n+new\n```")
    assert_harmless(html)


@pytest.mark.parametrize("language", ["c", "py", "sh", "rb", "sql", "json", "yaml", "ini", "diff"])
@given(code=st.text(alphabet="\\\"'`/*#-;$<&ab1 \n", max_size=60))
@settings(max_examples=20)
def test_highlighting_changes_no_letter_of_the_code(language: str, code: str) -> None:
    marked = highlighted(code, language)

    assert marked is None or unescape(re.sub(r"</?span[^>]*>", "", marked)) == code


def test_a_task_list_has_boxes() -> None:
    html = to_html("- [ ] milk\n- [x] bread\n- [y] other")

    assert "☐ milk" in html
    assert "☑ bread" in html
    assert "[y] other" in html
