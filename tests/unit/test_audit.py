"""The audit of the locked packages: what nobody has explained is a finding."""

import json

from tests.audit.__main__ import (
    ELSEWHERE,
    EXPLAINED_LICENCES,
    licence_findings,
    licence_of,
    locked,
    vulnerability_findings,
)


def test_every_locked_package_has_a_licence_that_is_free_or_explained() -> None:
    assert len(locked()) > 50
    assert licence_findings(locked()) == []


def test_a_licence_that_nobody_has_explained_is_a_finding() -> None:
    assert "MIT" in (licence_of("anyio") or "")
    assert licence_findings(["pytest", "nowhere-to-be-found"]) == [
        "nowhere-to-be-found is not installed, and nobody has said under which licence it is"
    ]
    assert "LGPL" in (licence_of("pyte") or "")


def test_every_explanation_is_of_something_that_is_locked() -> None:
    assert (EXPLAINED_LICENCES.keys() | ELSEWHERE.keys()) - locked().keys() == set()


def test_a_vulnerability_that_nobody_has_explained_is_a_finding() -> None:
    report = {
        "dependencies": [
            {"name": "good", "version": "1", "vulns": []},
            {"name": "unknown", "skip_reason": "not found"},
            {"name": "bad", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]},
        ]
    }
    found, untold = vulnerability_findings([json.dumps(report), json.dumps(report)])
    assert found == ["bad 2: PYSEC-1, fixed by 3"]
    assert untold == 2
