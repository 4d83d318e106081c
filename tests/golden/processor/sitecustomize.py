"""Every process of golden runs finds one processor of x86-64, with AVX2 and no more, whatever the machine has.

Python imports a module of this name when it starts. numba compiles for the processor that llvmlite names, and
any2vec's kernels choose their registers by it. Another architecture, or a processor without AVX2, is left as it is.
"""

import llvmlite.binding as llvm

NAME = "x86-64-v3"
FEATURES = (
    "64bit", "avx", "avx2", "bmi", "bmi2", "cmov", "crc32", "cx8", "cx16", "f16c", "fma", "fxsr", "lzcnt", "mmx",
    "movbe", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave",
)  # fmt: skip

try:
    host = llvm.get_host_cpu_features()
except RuntimeError:  # LLVM cannot tell on this system
    host = {}
if host.get("avx2") and host.get("fma"):
    found = type(host)({name: has and name in FEATURES for name, has in host.items()})
    llvm.get_host_cpu_features = lambda: found
    llvm.get_host_cpu_name = lambda: NAME
