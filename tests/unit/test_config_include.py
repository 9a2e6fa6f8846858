"""`$include`: configs in several files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crossclaw.config import load
from crossclaw.domain.errors import ConfigInvalid

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path: Path) -> str:
    with pytest.raises(ConfigInvalid) as caught:
        load(path, {})
    return str(caught.value)


def test_files_are_merged_in_order_and_what_stands_beside_wins(write: Write) -> None:
    one = write("one.json5", "{ gateway: { port: 1, customBindHost: 'one', bind: 'lan' } }")
    two = write("two.json5", "{ gateway: { port: 2, customBindHost: 'two' } }")
    main = write(
        "openclaw.json", "{ $include: ['./one.json5', 'two.json5'], gateway: { port: 3 } }"
    )
    loaded = load(main, {})
    gateway = loaded.config.gateway
    assert (gateway.port, gateway.custom_bind_host, gateway.bind) == (3, "two", "lan")
    assert loaded.files == (main, one, two)
    assert "$include" not in loaded.raw


def test_lists_are_joined(write: Write) -> None:
    write("more.json5", "{ list: [{ id: 'a' }] }")
    main = write("openclaw.json", "{ agents: { $include: 'more.json5', list: [{ id: 'b' }] } }")
    assert load(main, {}).config.agents.ids() == ("a", "b")


def test_a_part_may_be_a_whole_file_even_a_list(write: Write) -> None:
    write("agents.json5", "[{ id: 'a' }, { id: 'b' }]")
    main = write("openclaw.json", "{ agents: { list: { $include: './agents.json5' } } }")
    assert load(main, {}).config.agents.ids() == ("a", "b")


def test_paths_are_relative_to_the_file_that_names_them(write: Write, tmp_path: Path) -> None:
    write("parts/inner.json5", "{ port: 7 }")
    write("parts/gateway.json5", "{ $include: './inner.json5' }")
    main = write(
        "openclaw.json", f"{{ gateway: {{ $include: '{tmp_path}/parts/gateway.json5' }} }}"
    )
    assert load(main, {}).config.gateway.port == 7


def test_a_missing_file_is_refused_where_it_is_named(write: Write, tmp_path: Path) -> None:
    main = write("openclaw.json", "{\n  gateway: {\n    $include: './gone.json5' } }")
    told = f'{main}:3: gateway.$include names "./gone.json5", but there is no file {tmp_path}/gone.json5'
    assert refusal(main) == told


def test_a_circle_is_refused_with_its_chain(write: Write) -> None:
    a = write("a.json5", "{ $include: './b.json5' }")
    b = write("b.json5", "\n{ $include: './a.json5' }")
    main = write("openclaw.json", "{ $include: './a.json5' }")
    assert refusal(main) == f"{b}:2: $include goes in a circle: {main} → {a} → {b} → {a}"


def test_a_circle_through_a_link_is_found(write: Write, tmp_path: Path) -> None:
    real = write("real.json", "{ $include: './link.json' }")
    os.symlink(real, tmp_path / "link.json")
    assert "goes in a circle" in refusal(tmp_path / "link.json")


def chain_of(write: Write, length: int) -> Path:
    for number in range(1, length):
        write(f"{number}.json5", f"{{ $include: './{number + 1}.json5' }}")
    write(f"{length}.json5", "{ gateway: { port: 5 } }")
    return write("openclaw.json", "{ $include: './1.json5' }")


def test_ten_files_deep_is_accepted(write: Write) -> None:
    assert load(chain_of(write, 10), {}).config.gateway.port == 5


def test_eleven_files_deep_is_refused(write: Write, tmp_path: Path) -> None:
    told = refusal(chain_of(write, 11))
    assert told == f"{tmp_path}/10.json5:1: $include is nested deeper than 10 files"


def test_includes_cannot_nest_objects_without_end(write: Write) -> None:
    deep = "{ a: " * 20 + "{ $include: './%d.json5' }" + " }" * 20
    for number in range(1, 5):
        write(f"{number}.json5", deep % (number + 1))
    main = write("openclaw.json", deep % 1)
    assert refusal(main).endswith("$include lies deeper than 32 levels")


@pytest.mark.parametrize("names", ["5", "[]", "['a', 5]", "{}", "null"])
def test_an_include_must_name_files(write: Write, names: str) -> None:
    main = write("openclaw.json", f"{{ $include: {names} }}")
    assert refusal(main).startswith(f"{main}:1: $include needs the name of a file")


@pytest.mark.parametrize("name", ["\\0", "x" * 5000])
def test_a_name_that_no_file_can_have_is_refused(write: Write, name: str) -> None:
    main = write("openclaw.json", f"{{ $include: '{name}' }}")
    assert refusal(main).startswith(f"{main}:1: $include names ")


def test_keys_beside_a_list_are_refused(write: Write) -> None:
    write("list.json5", "[1]")
    main = write("openclaw.json", "{ gateway: { $include: 'list.json5', port: 1 } }")
    assert "the file must hold an object" in refusal(main)


def test_a_broken_part_is_refused_by_its_own_name(write: Write) -> None:
    part = write("part.json5", "{\n\n a: }")
    main = write("openclaw.json", "{ $include: './part.json5' }")
    assert refusal(main).startswith(f"{part}:3:5: this is not JSON5")


def test_a_problem_is_told_in_the_file_where_it_stands(write: Write) -> None:
    base = write(
        "base.json5",
        "{\n  gateway: {\n    port: 'x', bind: 'lan' },\n  agents: {\n   list: [{ id: 'a' }] } }",
    )
    more = write("more.json5", "// more\n\n[\n  { id: 'b' },\n  { id: 5 },\n]")
    main = write(
        "openclaw.json",
        "{\n $include: './base.json5',\n gateway: { bnid: 'lan' },\n"
        " agents: {\n  list: { $include: './more.json5' } } }",
    )
    text = refusal(main)
    assert f"{base}:3: gateway.port: found" in text
    assert f"{main}:3: gateway.bnid: unknown key" in text
    assert f"{more}:5: agents.list[2].id: found 5" in text


def test_a_list_item_that_moved_is_found_in_its_own_file(write: Write) -> None:
    write("first.json5", "{ list: [{ id: 'a' }, { id: 'b' }] }")
    main = write(
        "openclaw.json",
        "{ agents: { $include: './first.json5', list: [\n { id: 'c' },\n { id: 'd', modle: 'x' } ] } }",
    )
    assert refusal(main) == f'{main}:3: agents.list[3].modle: unknown key; did you mean "model"?'
