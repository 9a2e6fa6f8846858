"""Whatever can be built as a key reads back as itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossclaw.domain.errors import InvalidKey
from crossclaw.domain.keys import KINDS, SessionKey

agents = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True)
ids = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=40)
channels = st.sampled_from(["telegram", "discord", "matrix", "signal"])
keys = st.one_of(
    agents.map(SessionKey.main),
    st.builds(SessionKey.group, agents, channels, ids),
    st.builds(SessionKey.group, agents, channels, ids, thread_id=ids),
    st.builds(
        SessionKey.direct,
        agents,
        channels,
        ids,
        scope=st.sampled_from(["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]),
    ),
    st.builds(SessionKey.subagent, agents, ids),
    st.builds(SessionKey.cron, agents, ids),
    st.builds(SessionKey.hook, agents, ids),
    st.builds(SessionKey.node, agents, ids),
)


@pytest.mark.spec("K2", "K3", "K4", "K7")
@given(keys)
def test_a_key_reads_back_as_itself(key: SessionKey) -> None:
    again = SessionKey.parse(str(key), agent_id=key.agent_id)

    assert again == key
    assert (str(again), again.agent_id, again.kind) == (str(key), key.agent_id, key.kind)
    assert key.kind in KINDS


@pytest.mark.spec("K1", "K7")
@given(keys, agents)
def test_what_a_caller_is_shown_leads_it_back_to_the_same_session(
    key: SessionKey, caller: str
) -> None:
    assert SessionKey.parse(key.display(caller), agent_id=caller) == key


@pytest.mark.spec("K7")
@given(st.text(max_size=60))
def test_any_text_is_a_key_or_a_clear_refusal(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except InvalidKey:
        return
    assert SessionKey.parse(str(key)) == key
    assert str(key) not in ("global", "unknown")
