"""The server, fuzzed by its own description: no answer that the description does not have, and never a 500."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from qkv.serving import ROUTES, Limits, Models, Service, make_app
from qkv.serving.service import ABOUT_PAGE

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
DESCRIBED = [(entry.method, entry.path) for entry in ROUTES if entry.about != ABOUT_PAGE]


@pytest.fixture(scope="module")
def schema(model_folder: Path, lm_folder: Path, critic_folder: Path, bert_folder: Path) -> Iterator[Any]:
    folders = [model_folder, lm_folder, critic_folder, bert_folder]
    service = Service(Models.load(folders), Limits(characters=200, tokens=20))
    yield schemathesis.openapi.from_asgi("/spec", make_app(service))
    service.close()


@pytest.mark.parametrize(("method", "path"), DESCRIBED)
def test_the_description_is_kept(method: str, path: str, schema: Any) -> None:
    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(case=schema[path][method].as_strategy())
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    ask()
