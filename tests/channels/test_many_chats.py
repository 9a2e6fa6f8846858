"""Many chats are active on one account: a thousand in make channels, a few in make test. In virtual time."""

from pathlib import Path

import pytest

from tests.channels.conftest import REAL
from tests.channels.many_chats import A_SECOND, talk_in_many_chats

CHATS_AT_ONCE = 1_000 if REAL else 60


@pytest.mark.spec("N9")
async def test_many_chats_of_one_account_keep_their_order_and_the_platforms_rates(
    tmp_path: Path,
) -> None:
    sent = await talk_in_many_chats(tmp_path, CHATS_AT_ONCE)

    by_chat: dict[str, list[tuple[str, float]]] = {}
    for to, text, at in sent:
        by_chat.setdefault(to, []).append((text, at))
    assert len(by_chat) == CHATS_AT_ONCE
    assert all([text for text, _ in each] == ["0", "1"] for each in by_chat.values())
    assert all(each[1][1] - each[0][1] >= 1.0 - 1e-6 for each in by_chat.values())
    sent_at = sorted(at for *_, at in sent)
    later = sent_at[A_SECOND:]
    assert all(after - at >= 1.0 - 1e-6 for at, after in zip(sent_at, later, strict=False))
    assert sent_at[-1] - sent_at[0] <= len(sent) / A_SECOND + 1.0  # and no slower than it may
