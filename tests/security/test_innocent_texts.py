"""Texts that tell nothing about anybody stay as they are: what a run of torch's prints, writes and names."""

# ruff: noqa: E501

from __future__ import annotations

import hashlib
import random
import string
from pathlib import Path

import pytest

from accel_lab.core.private import spans
from accel_lab.core.signature import legible
from accel_lab.reporting.redact.redactor import Redactor

RNG = random.Random(7)
ROOT = Path(__file__).resolve().parents[2]


def hexes(length: int) -> str:
    return hashlib.sha512(str(RNG.random()).encode()).hexdigest()[:length]


def cached(head: str) -> str:
    """A name as Inductor gives to what it caches: base 32 in lower case."""
    return head + "".join(RNG.choice(string.ascii_lowercase + "234567") for _ in range(51))


INNOCENT = [
    # What torch says.
    "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(getattr) [TensorVariable()] {}",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
    "RuntimeError: The size of tensor a (1024) must match the size of tensor b (1023) at non-singleton dimension 1",
    "torch._inductor.exc.InductorError: LoweringException: AssertionError: expected size 3==4, stride 4==3 at dim=0",
    "IndexError: Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB",
    "UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed.",
    "W1129 10:11:12.345000 4242 torch/_dynamo/convert_frame.py:1016] [0/8] torch._dynamo hit config.recompile_limit (8)",
    "I0101 00:00:00.123456 139872 torch/_inductor/graph.py:345] [__graph_code] TRACED GRAPH",
    "Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this especially if you're reporting a bug!)",
    "ValueError: Tensor-likes are not close! Mismatched elements: 1 / 9 (11.1%) Greatest absolute difference: 0.5 at index (0, 1)",
    "KeyError: 'layers.11.attention.self.query.weight'",
    "maximum recursion depth exceeded while calling a Python object",
    "failed with status 500: token count 4096 exceeds max_position_embeddings 2048",
    "Both eager and inductor raise: pass remove_noop_ops changed the result",
    # Names, caches, hashes.
    cached("c"),
    cached("f"),
    f"/tmp/torchinductor/{cached('c')[:2]}/{cached('c')}.py",
    f"/tmp/torchinductor/fxgraph/{cached('f')[1:3]}/{cached('f')}/artifact",
    f"triton_poi_fused_add_mul_0_{hexes(8)}",
    f"nvidia_cublas_cu12-12.8.4.1-py3-none-manylinux_2_27_x86_64.whl --hash=sha256:{hexes(64)}",
    f"sha256: {hexes(64)}",
    f"commit {hexes(40)}",
    f"torch 2.14.1+git{hexes(7)}",
    f"pip @ git+https://github.com/pytorch/pytorch@{hexes(40)}",
    f"cache key {hexes(32)}",
    f"FxGraphCache key: {cached('f')}",
    f"{hexes(8)}-{hexes(4)}-{hexes(4)}-{hexes(4)}-{hexes(12)}",
    f"/tmp/tmp{RNG.randrange(10**8)}/{hexes(32)}/repro.py",
    "AOT ID: ['0_inference']",
    "cpp_fused__softmax_add_div_mul_native_layer_norm_12",
    "_ZN2at6native12_GLOBAL__N_120cpu_kernel_vec_basesIRZZZNS0_L10add_kernelERNS_18TensorIteratorBaseERKN3c106ScalarE",
    # Versions.
    "2.13.0.1",
    "cuda 12.8.4.1, cudnn 9.10.2.21, nccl 2.27.5",
    "nvidia-cudnn-cu12==9.10.2.21",
    "driver version 10.2.3.4",
    "version: 1.2.3.4",
    "Python 3.13.5 (main, Jun 12 2025, 12:40:22) [Clang 20.1.4]",
    "gcc (Debian 14.2.0-19) 14.2.0, glibc-2.41",
    "torch>=2.0,<2.15; transformers==4.57.1.dev0",
    # Operators, shapes, graphs.
    "aten.native_layer_norm_backward.default(primals_1, arg0_1, [768], getitem_3)",
    "f32[s0, 3, 224, 224][150528*s0, 50176, 224, 1]cuda:0",
    'primals_17: "bf16[4096, 14336][14336, 1]" = torch.ops.aten.permute.default(primals_16, [1, 0])',
    "x @ w.T + b @ c.to(torch.float16) - q@k.transpose(-2, -1)",
    "torch.ops.higher_order.with_effects(token, torch.ops.aten._print.default, 'moo')",
    'token_0: "f32[0]" = with_effects[0]; next_token = getitem_9',
    "tokens = tokenizer('hello world', return_tensors='pt'); eos_token_id = 50256; pad_token = '<|endoftext|>'",
    "num_tokens=123456789, max_new_tokens=4096, special_tokens_map_file=None",
    "auth = None; secret = None; password = None; token = os.environ.get('HF_TOKEN')",
    "password = getpass.getpass('Password: ')",
    "x[fc::2], x[2000::2], y[1:2:3], z[2001:4000:2]",
    "std::vector<at::Tensor> c10::detail::infer_schema, at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), 16)",
    "auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + (64L*x0))]; // aten.div.Tensor_mode",
    "#pragma omp parallel for num_threads(16) schedule(static)",
    "tl.load(in_ptr0 + (x0), xmask, eviction_policy='evict_last', other=0.0)",
    "size_hints={'x': 1048576}, triton_meta={'signature': {'in_ptr0': '*fp32', 'xnumel': 'i32'}, 'device': 0}",
    "guard: ___check_type_id(L['self'], 94283749234872), ___dict_contains('__builtins__', G)",
    "L['self']._modules['encoder']._modules['layers'].__dict__['training']",
    "assert_size_stride(arg0_1, (8, 1024, 768), (786432, 768, 1))",
    "12:34:56 01:02:03.004 2026-01-02T03:04:05Z 10:11:12:13",
    "100.0% 3.14e-05 1e-8 0x7f3a5c001200 nan inf -0.0",
    "threading.local, self.local, torch.distributed.internal, mod.home(x), os.path.expanduser('~')",
    "{'pass': 'remove_noop_ops', 'pass_number': 3}; pass = 'joint_graph_pass_3'; bypass=True; pass: post_grad.py",
    "USER=root LOGNAME=runner HOST=localhost HOSTNAME=localhost MASTER_ADDR=127.0.0.1",
    "y = x@w; z = a @ b: out; x@w.T:/2; (q@k):~mask; def f(x, w): return x@w",
    "the pass: fuse_attention; pass_name = 'joint_graph_pass_3'; passes=12",
    "--max-tokens 4096 --token-ids 1,2,3 --key-size 128 --no-auth --password-file /run/x",
    "mkdir -p build2024x, pytest -p no:cacheprovider -p xdist2plugin, patch -p1, docker run -p port8080name image",
    "docker run -p 8080:80 -p 5432 image -u 1000:1000",
    "key = cache_key(graph); sort_keys=True; monkey=3; keyboard; author = 'somebody'; authority",
    "https://pytorch.org/docs/stable/torch.compiler.html?highlight=inductor#id-12345678901234567890",
    "https://github.com/pytorch/pytorch/issues/157959, https://huggingface.co/gpt2",
    "git@github.com:pytorch/pytorch.git",
    "home/docs/page, docs/users/guide.md, /usr/lib/python3/dist-packages, /opt/conda/lib/python3.12/site-packages",
    "/home and /Users and /scratch/data.bin and ~/x and /tmp/x",
    "127.0.0.1:8000, 0.0.0.0, localhost:29500, ::1",
    "MASTER_ADDR=localhost MASTER_PORT=29500 WORLD_SIZE=8 PWD=/tmp/x OLDPWD=/tmp",
    "sk-learn, sklearn.linear_model, task-force-of-the-week-number-one, risk-adjusted",
    "hf_model, hf_hub_download, pk_test, npm_config_cache, glpat, ghp_, AKIA, eyJ",
    "AccumulateGrad, SKIPPED, ACTIVATION_CHECKPOINT, SKBUILD, ACCEL",
    "Cookie cutter, session ids, bearer of news, basic block, basic_block(x), authorization failed",
    "def forward(self, L_x_: 'f32[3, 3]', s77: 'Sym(s77)', L_fn_parameters_weight_: 'f32[8]'):",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_it_stays(text: str) -> None:
    assert Redactor().text(text, "log.txt") == text
    assert Redactor().value({"message": text}, "report.json") == {"message": text}
    assert spans(text) == []
    assert "<private>" not in legible(text)


@pytest.mark.parametrize("text", [text for text in INNOCENT if "'''" not in text and "\\" not in text])
def test_it_stays_in_a_source(text: str) -> None:
    source = f"x = '''{text} '''\ny = 1  # {text}\n"
    assert Redactor().python(source, "a.py") == source


def test_there_are_enough() -> None:
    assert len(INNOCENT) >= 60
    assert len(set(INNOCENT)) == len(INNOCENT)


@pytest.mark.parametrize("path", sorted(ROOT.glob("repros/*/repro.py")), ids=lambda path: path.parent.name)
def test_a_golden_case_stays(path: Path) -> None:
    """Real failing scripts: not a character of the program changes."""
    source = path.read_text("utf-8")
    made = Redactor()
    made.learn(source, path.name)
    assert made.python(source, path.name) == source
