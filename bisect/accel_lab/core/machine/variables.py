"""Selects the environment variables that untrusted code gets: those that steer torch, but no secrets."""

from __future__ import annotations

import site
from collections.abc import Mapping, Sequence
from pathlib import Path

# The user's variables that a run may depend on: they control torch, its compilers and Python. All others
# (keys, tokens, proxies, local paths) are withheld.
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
# Variables with these endings are withheld even if their prefix matches: they name local folders and servers.
_NEVER = ("_HOME", "_TOKEN", "_KEY", "_SECRET", "_PASSWORD", "_URL", "_HOST", "_PORT")
#: Paths of programs and libraries on this machine; needed outside of containers only.
_PLACES = (
    *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR"),
    *("CUDA_HOME", "CUDA_PATH", "ROCM_HOME", "ROCM_PATH", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
)


def torch_variables(base: Mapping[str, str], extra: Sequence[str] = ()) -> dict[str, str]:
    """Returns the variables of ``base`` that a run may depend on, and those listed in ``extra``."""
    return {
        name: value
        for name, value in base.items()
        if name in extra or name in _NAMES or (name.startswith(_PREFIXES) and not name.endswith(_NEVER))
    }


def restricted_environment(base: Mapping[str, str], home: Path) -> dict[str, str]:
    """Returns the environment for untrusted code on this machine: no keys or tokens, ``home`` as its home.

    This is no sandbox: such code can still read every file that the user can.
    """
    env = torch_variables(base, _PLACES)
    # The user's site-packages (pip install --user) are found through the home folder.
    user_base = base.get("PYTHONUSERBASE") or site.getuserbase()
    env |= {"HOME": str(home), "USER": "verify", "LOGNAME": "verify", "PYTHONUSERBASE": user_base}
    return env | {"XDG_CACHE_HOME": str(home / ".cache"), "PYTHONDONTWRITEBYTECODE": "1"}
