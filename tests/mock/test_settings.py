"""The mock's settings: where a value comes from, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from accel_lab.accelerators.settings import SettingError
from accel_lab.mock.settings import Settings, read_settings
from accel_lab.mock.sizes import Device


def test_nothing_said_gives_the_defaults() -> None:
    assert read_settings(environment={}) == Settings()


def test_what_is_given_goes_over_the_environment_and_that_over_the_table() -> None:
    table = {"cores": 4, "strict": True, "front_end": "reference"}
    environment = {"MOCK_CORES": "8", "MOCK_STRICT": "0"}
    settings = read_settings(table, environment, {"cores": 2})
    assert (settings.device.cores, settings.strict, settings.front_end) == (2, False, "reference")


def test_a_device_goes_over_the_environment_but_not_over_what_is_given_by_name() -> None:
    settings = read_settings(None, {"MOCK_CORES": "8"}, {"device": Device(cores=3), "poison": False})
    assert settings.device == Device(cores=3, poison=False)


@pytest.mark.parametrize(
    ("text", "count"), [("4096", 4096), ("16G", 16 * 1024**3), ("2MiB", 2 * 1024**2), ("1kb", 1024)]
)
def test_sizes_may_have_units(text: str, count: int) -> None:
    assert read_settings(environment={"MOCK_MAX_MEMORY": text}).device.memory_bytes == count


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("MOCK_FRONT_END", "fast", "main or reference"),
        ("MOCK_BACK_END", "MAIN", "main or reference"),
        ("MOCK_STRICT", "maybe", "1 or 0"),
        ("MOCK_ALIGNMENT", "0", "from 1 to 4096"),
        ("MOCK_CORES", "-1", "from 1 to 1024"),
        ("MOCK_MAX_MEMORY", "12 apples", "K, M, G or T"),
        ("MOCK_MAX_MEMORY", "1", "at least 128"),
        ("MOCK_SCRATCHPAD", "2", "1 or 0"),
        ("MOCK_CACHE", "x", "1 or 0"),
        ("MOCK_POISON", "x", "1 or 0"),
        ("MOCK_FAULTS", "no_such_fault", "no fault is called"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be(name: str, value: str, says: str) -> None:
    with pytest.raises(SettingError) as error:
        read_settings(environment={name: value})
    assert name in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    "wrong", [{"strict": 7}, {"cores": 2.0}, {"cores": True}, {"artifacts": 3}, {"no_such": 1}, {"device": 1}]
)
def test_a_wrong_argument_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        read_settings(environment={}, given=wrong)


def test_the_table_cannot_switch_faults_on() -> None:
    with pytest.raises(SettingError, match="no setting 'faults'"):
        read_settings({"faults": "exp_tail_wrong"}, {})


def test_another_process_gets_the_same_settings() -> None:
    settings = read_settings(
        environment={},
        given={"cores": 5, "strict": True, "artifacts": "x", "max_memory": "1G", "cache": False},
    )
    assert read_settings(environment=settings.environment()) == settings
