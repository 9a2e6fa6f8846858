"""Authority only shrinks on its way."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.domain.authority import Authority, ChatPlace, CredentialRef, Delegator

names = st.frozensets(st.sampled_from("abcd"), max_size=4)
DIMENSIONS: dict[str, st.SearchStrategy[Any]] = {
    "owner": st.booleans(),
    "sandboxed": st.booleans(),
    "may_spawn": st.booleans(),
    "tools": st.none() | names,
    "denied_tools": names,
    "roots": st.none() | names,
    "hops_left": st.integers(0, 12),
    "network": st.booleans(),
    "workspace": st.sampled_from(["none", "ro", "rw"]),
    "workspaces": st.none() | names,
    "models": st.none() | st.frozensets(st.sampled_from(["p/a", "p/b", "q/*"])),
    "arms": st.frozensets(
        st.builds(Delegator, st.sampled_from("ab"), sandboxed=st.booleans()), max_size=3
    ),
    "chats": st.frozensets(
        st.builds(
            ChatPlace,
            channel=st.just("memory"),
            account_id=st.just("default"),
            chat_id=st.sampled_from("ab"),
            senders=st.just(("7",)),
        ),
        max_size=2,
    ),
    "made_by": st.frozensets(
        st.builds(CredentialRef, st.sampled_from("ab"), st.integers(1, 2)), max_size=3
    ),
}
authorities = st.builds(Authority, **DIMENSIONS)


def no_more_than(small: Authority, large: Authority) -> bool:
    tools = all(large.allows_tool(tool) for tool in "abcd" if small.allows_tool(tool))
    roots = large.roots is None or (small.roots is not None and small.roots <= large.roots)
    flags = small.owner <= large.owner and small.may_spawn <= large.may_spawn
    models = ("p/a", "p/b", "q/c")
    order = ("none", "ro", "rw")
    further = (
        small.network <= large.network
        and order.index(small.workspace) <= order.index(large.workspace)
        and (large.workspaces is None or (small.workspaces or set()) <= large.workspaces)
        and (large.workspaces is None or small.workspaces is not None)
        and all(large.allows_model(each) for each in models if small.allows_model(each))
        and small.arms >= large.arms
        and small.made_by >= large.made_by
        and small.chats >= large.chats
    )
    return (
        further
        and tools
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


def test_every_dimension_of_an_authority_is_tried_here() -> None:
    """A field that is added to it must be added above, or `meet` may forget it unseen."""
    assert {field.name for field in msgspec.structs.fields(Authority)} == set(DIMENSIONS)
