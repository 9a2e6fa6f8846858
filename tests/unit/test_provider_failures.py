"""What a service answers instead of words, told as what it is."""

import pytest

from crossclaw.domain.errors import ProviderError, ProviderOverloaded, ProviderRefused
from crossclaw.providers.failures import ErrorAnswer, Failures

FAILURES = Failures("acme", "acme.test", "OpenAI chat completions", "sk-secret")


def told(status: int, *kinds: str, message: str = "no") -> ProviderError:
    return FAILURES.answered(ErrorAnswer(status, frozenset(kinds), message, {}))


@pytest.mark.spec("B1")
@pytest.mark.parametrize(
    "kind", ["api_error", "server_error", "rate_limit_error", "timeout_error", ""]
)
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "refused the request as a bad one"),
        (401, "refused the key"),
        (403, "does not let this key use the model"),
        (404, "knows no such model"),
        (422, "refused the request as a bad one"),
    ],
)
def test_a_bad_request_and_a_bad_key_are_never_told_as_overload(
    status: int, words: str, kind: str
) -> None:
    error = told(status, *([kind] if kind else []))

    assert isinstance(error, ProviderRefused)
    assert words in str(error)
    assert "overloaded" not in str(error)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("invalid_request_error",), "bad one"),
        (("authentication_error",), "refused the key"),
        (("401",), "refused the key"),
        (("400", "api_error"), "bad one"),
        (("not_found_error",), "knows no such model"),
    ],
)
def test_inside_a_stream_the_kind_says_what_the_status_cannot(
    kinds: tuple[str, ...], words: str
) -> None:
    error = told(200, *kinds)

    assert isinstance(error, ProviderRefused)
    assert words in str(error)


@pytest.mark.parametrize(
    "kinds", [("overloaded_error",), ("rate_limit_error",), ("529",), ("503",)]
)
def test_an_overload_inside_a_stream_is_one(kinds: tuple[str, ...]) -> None:
    assert isinstance(told(200, *kinds), ProviderOverloaded)


@pytest.mark.parametrize(
    "message",
    ["API key not valid. Please pass a valid API key.", "Invalid API key", "api_key is missing"],
)
def test_a_key_that_is_refused_with_400_is_told_as_a_key(message: str) -> None:
    assert "refused the key" in str(told(400, "INVALID_ARGUMENT", message=message))


def test_what_was_garbled_after_it_had_begun_may_work_again() -> None:
    assert isinstance(FAILURES.garbled(begun=True), ProviderOverloaded)
    assert "overloaded" not in str(FAILURES.garbled(begun=True))
    assert type(FAILURES.garbled(begun=False)) is ProviderError


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (400, "m is not a multimodal model"),
    ],
)
def test_a_server_that_sees_no_pictures_refuses_and_is_not_asked_again(
    status: int, message: str
) -> None:
    error = told(status, "server_error", message=message)

    assert isinstance(error, ProviderRefused)
    assert "image" in str(error) or "multimodal" in str(
        error
    )  # what takes pictures out of the view


def test_of_a_web_page_in_place_of_an_answer_only_the_title_is_told() -> None:
    page = "<!DOCTYPE html>\n<html><head><title>404 Not\nFound</title></head><body>x</body></html>"
    assert "(a web page: 404 Not Found)" in str(told(404, message=page))
    assert "(a web page)" in str(told(404, message="<html><body>x"))
    assert "a < b" in str(told(400, message="a < b"))
