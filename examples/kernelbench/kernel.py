"""An answer in the form of KernelBench: a model whose forward() calls a CUDA kernel."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void bias_relu(const float *x, const float *bias, float *y, int count, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = fmaxf(x[i] + bias[i % columns], 0.0f);
}

torch::Tensor answer(torch::Tensor x, torch::Tensor bias) {
  auto y = torch::empty_like(x);
  int count = x.numel();
  bias_relu<<<(count + 255) / 256, 256>>>(
      x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), count, x.size(1));
  return y;
}
"""

extension = load_inline(
    name="bias_relu",
    cpp_sources="torch::Tensor answer(torch::Tensor x, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["answer"],
)


class ModelNew(nn.Module):
    """The model whose speed is measured."""

    def forward(self, x, bias):
        """y = max(0, x + bias)."""
        return extension.answer(x, bias)
