"""Authority only shrinks on its way."""

from hypothesis import given
from hypothesis import strategies as st

from crossclaw.domain.authority import Authority

names = st.frozensets(st.sampled_from("abcd"), max_size=4)
authorities = st.builds(
    Authority,
    owner=st.booleans(),
    sandboxed=st.booleans(),
    may_spawn=st.booleans(),
    tools=st.none() | names,
    denied_tools=names,
    roots=st.none() | names,
    hops_left=st.integers(0, 12),
)


def no_more_than(small: Authority, large: Authority) -> bool:
    tools = all(large.allows_tool(tool) for tool in "abcd" if small.allows_tool(tool))
    roots = large.roots is None or (small.roots is not None and small.roots <= large.roots)
    flags = small.owner <= large.owner and small.may_spawn <= large.may_spawn
    return (
        tools
        and roots
        and flags
        and small.sandboxed >= large.sandboxed
        and (small.hops_left <= large.hops_left)
    )


@given(authorities, st.lists(authorities, max_size=5))
def test_no_chain_of_delegations_adds_a_right(root: Authority, chain: list[Authority]) -> None:
    current = root
    for limits in chain:
        child = current.meet(limits)
        assert no_more_than(child, current)
        assert no_more_than(child, limits)
        current = child


@given(authorities, authorities)
def test_the_order_of_limits_does_not_matter(one: Authority, other: Authority) -> None:
    assert one.meet(other) == other.meet(one)
    assert one.meet(one) == one
