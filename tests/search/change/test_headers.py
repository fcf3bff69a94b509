"""Headers of generated kernels as pieces: which are included, in which function a line is."""

from __future__ import annotations

from accel_lab.search.change.headers import function_at, included
from accel_lab.search.change.pieces import WHOLE, Versions

START = "torch/include/torch/csrc/inductor/cpp_prefix.h"
VEC = "torch/include/ATen/cpu/vec/vec.h"
TEXTS = {
    START: "#pragma once\n#include <ATen/cpu/vec/vec.h>\n#include <cmath>\n// #include <ATen/unused.h>\n",
    VEC: '#include "ATen/cpu/vec/float.h"\n#  include <torch/csrc/inductor/cpp_prefix.h>\n',
    "torch/include/ATen/cpu/vec/float.h": "",
    "torch/include/ATen/unused.h": "",
}

SOURCE = """\
template <>
class Vectorized<float> {
  Vectorized<float> sinh() const {
    return Vectorized<float>(Sleef_sinhf16_u10(values));
  }
  Vectorized<float> cosh() const {
    if (plain) {
      return map(std::cosh);
    }
    return Vectorized<float>(Sleef_coshf16_u10(values));
  }
};
}
int after = 1;
"""


def test_headers_are_followed_from_what_every_kernel_includes() -> None:
    assert included(TEXTS.get) == {START, VEC, "torch/include/ATen/cpu/vec/float.h"}
    assert included({}.get) == frozenset()


def test_a_line_belongs_to_the_function_whose_head_is_above_it() -> None:
    lines = SOURCE.split("\n")
    assert (
        function_at(SOURCE, lines.index("    return Vectorized<float>(Sleef_coshf16_u10(values));") + 1)
        == "cosh"
    )
    assert function_at(SOURCE, 4) == "sinh"
    assert function_at(SOURCE, lines.index("int after = 1;") + 1) == ""


def test_a_header_is_one_piece_and_may_be_exchanged() -> None:
    versions = Versions.of(VEC, "int a;\nint b;\n", "int a;\nint c;\n")
    assert versions.changed == (WHOLE,)
    assert versions.mixed({WHOLE}) == "int a;\nint c;\n"
    assert versions.mixed(()) == "int a;\nint b;\n"
    assert versions.reversed().mixed({WHOLE}) == "int a;\nint b;\n"
    assert Versions.of("m.py", "int a;\n", "int b;\n").changed == ()  # no Python: nothing can be mixed
