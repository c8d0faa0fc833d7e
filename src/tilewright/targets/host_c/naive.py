"""The starting kernels, which implement the definitions of workloads as plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.targets.host_c.shapes import EPSILON, Shape


def naive_kernel(shape: Shape) -> str:
    """C source of the plain loops."""
    makers: dict[str, Callable[..., str]] = {
        "softmax": _softmax,
        "layernorm": _layernorm,
        "rmsnorm": _rmsnorm,
        "attention": _attention,
        "gemm": _gemm,
        "conv": _conv,
    }
    make = makers[shape.kind]
    parameters = ", ".join(
        f"{'const ' * (a.role == 'input')}float {a.name}" + "".join(f"[{n}]" for n in a.shape)
        for a in shape.arguments
    )
    head = "" if shape.kind in ("gemm", "conv") else "#include <math.h>\n\n"
    return f"{head}void kernel({parameters}) {{\n{make(*shape.sizes)}}}\n"


def _softmax(rows: int, columns: int) -> str:
    return f"""\
  for (int r = 0; r < {rows}; r++) {{
    float most = X[r][0];
    for (int c = 0; c < {columns}; c++) most = fmaxf(most, X[r][c]);
    float sum = 0.0f;
    for (int c = 0; c < {columns}; c++) {{
      Y[r][c] = expf(X[r][c] - most);
      sum += Y[r][c];
    }}
    for (int c = 0; c < {columns}; c++) Y[r][c] = Y[r][c] / sum;
  }}
"""


def _layernorm(rows: int, columns: int) -> str:
    return f"""\
  for (int r = 0; r < {rows}; r++) {{
    float mean = 0.0f;
    for (int c = 0; c < {columns}; c++) mean += X[r][c];
    mean = mean / {columns}.0f;
    float squares = 0.0f;
    for (int c = 0; c < {columns}; c++) squares += (X[r][c] - mean) * (X[r][c] - mean);
    float spread = sqrtf(squares / {columns}.0f + {EPSILON}f);
    for (int c = 0; c < {columns}; c++) Y[r][c] = (X[r][c] - mean) / spread * gain[c] + bias[c];
  }}
"""


def _rmsnorm(rows: int, columns: int) -> str:
    return f"""\
  for (int r = 0; r < {rows}; r++) {{
    float squares = 0.0f;
    for (int c = 0; c < {columns}; c++) squares += X[r][c] * X[r][c];
    float spread = sqrtf(squares / {columns}.0f + {EPSILON}f);
    for (int c = 0; c < {columns}; c++) Y[r][c] = X[r][c] / spread * gain[c];
  }}
"""


def _attention(rows: int, columns: int) -> str:
    scale = f"{1 / math.sqrt(columns):.9g}" if columns > 1 else "1.0"
    return f"""\
  float scores[{rows}];
  for (int i = 0; i < {rows}; i++) {{
    for (int j = 0; j < {rows}; j++) {{
      float dot = 0.0f;
      for (int d = 0; d < {columns}; d++) dot += Q[i][d] * K[j][d];
      scores[j] = dot * {scale}f;
    }}
    float most = scores[0];
    for (int j = 0; j < {rows}; j++) most = fmaxf(most, scores[j]);
    float sum = 0.0f;
    for (int j = 0; j < {rows}; j++) {{
      scores[j] = expf(scores[j] - most);
      sum += scores[j];
    }}
    for (int d = 0; d < {columns}; d++) {{
      float total = 0.0f;
      for (int j = 0; j < {rows}; j++) total += scores[j] * V[j][d];
      O[i][d] = total / sum;
    }}
  }}
"""


def _gemm(m: int, n: int, k: int) -> str:
    return f"""\
  for (int i = 0; i < {m}; i++) {{
    for (int j = 0; j < {n}; j++) {{
      float sum = 0.0f;
      for (int k = 0; k < {k}; k++) sum += A[i][k] * B[k][j];
      C[i][j] = sum;
    }}
  }}
"""


def _conv(batch: int, height: int, width: int, channels: int, filters: int) -> str:
    return f"""\
  for (int n = 0; n < {batch}; n++) {{
    for (int y = 0; y < {height}; y++) {{
      for (int x = 0; x < {width}; x++) {{
        for (int k = 0; k < {filters}; k++) {{
          float sum = 0.0f;
          for (int r = 0; r < 3; r++) {{
            for (int s = 0; s < 3; s++) {{
              for (int c = 0; c < {channels}; c++)
                sum += input[n][y + r][x + s][c] * weights[r][s][c][k];
            }}
          }}
          output[n][y][x][k] = sum;
        }}
      }}
    }}
  }}
"""
