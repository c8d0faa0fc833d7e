// On: rowsum-40x300
#include <cuda_runtime.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void rows(const float *X, float *Y, int R, int C) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  int row = blockIdx.x * (blockDim.x / 16) + tile.meta_group_rank();
  float s = 0.0f;
  if (row < R) for (int c = tile.thread_rank(); c < C; c += tile.size()) s += X[(size_t)row * C + c];
  for (int o = tile.size() / 2; o > 0; o /= 2) s += tile.shfl_down(s, o);
  if (row < R && tile.thread_rank() == 0) Y[row] = s;
}
void kernel(const float *X, float *Y, int R = 40, int C = 300) { rows<<<(R + 7) / 8, 128>>>(X, Y, R, C); }
