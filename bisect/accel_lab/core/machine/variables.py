"""Which of the user's environment variables a stranger's code is given: what steers torch, and no secrets."""

from __future__ import annotations

import site
from collections.abc import Mapping, Sequence
from pathlib import Path

# The variables of the user's that a run may depend on: how torch, its compilers and Python behave. All else
# of the user's environment - keys, tokens, proxies, paths of this machine - stays outside.
_NAMES = frozenset(
    {
        *("CC", "CFLAGS", "COLUMNS", "CXX", "CXXFLAGS", "LANG", "LANGUAGE", "LDFLAGS", "NO_COLOR", "PWD"),
        *("TERM", "TZ", "PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED"),
        *("PYTHONIOENCODING", "PYTHONMALLOC", "PYTHONOPTIMIZE", "PYTHONTRACEMALLOC", "PYTHONUNBUFFERED"),
        *("PYTHONUTF8", "PYTHONWARNINGS", "PYTEST_ADDOPTS", "CUDA_VISIBLE_DEVICES"),
        *("OPENBLAS_NUM_THREADS", "GOMP_CPU_AFFINITY"),
    }
)
_PREFIXES = (
    *("TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCHAO_", "PYTORCH_", "TRITON_", "AOT_", "ATEN_"),
    *("ACCEL_LAB_", "MOCK_", "OMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "LC_"),
)
# Of these even the matching ones stay outside: they name folders and servers of this machine.
_NEVER = ("_HOME", "_TOKEN", "_KEY", "_SECRET", "_PASSWORD", "_URL", "_HOST", "_PORT")
#: Where the programs and libraries of this machine are; of use to what is not in a container.
_PLACES = (
    *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR"),
    *("CUDA_HOME", "CUDA_PATH", "ROCM_HOME", "ROCM_PATH", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
)


def steering(base: Mapping[str, str], extra: Sequence[str] = ()) -> dict[str, str]:
    """The variables of ``base`` that a run may depend on, and those that ``extra`` names."""
    return {
        name: value
        for name, value in base.items()
        if name in extra or name in _NAMES or (name.startswith(_PREFIXES) and not name.endswith(_NEVER))
    }


def cut_environment(base: Mapping[str, str], home: Path) -> dict[str, str]:
    """What a stranger's code on this machine is given: no keys, no tokens, and ``home`` as an empty home.

    It is no wall: such code can still read what the user can read.
    """
    env = steering(base, _PLACES)
    # Packages that the user installed for themselves are found from the home folder.
    user_base = base.get("PYTHONUSERBASE") or site.getuserbase()
    env |= {"HOME": str(home), "USER": "verify", "LOGNAME": "verify", "PYTHONUSERBASE": user_base}
    return env | {"XDG_CACHE_HOME": str(home / ".cache"), "PYTHONDONTWRITEBYTECODE": "1"}
