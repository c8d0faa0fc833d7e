#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
using namespace nvcuda;
template <class T, int Size, int Alignment> struct Same {
  static_assert(sizeof(T) == Size && alignof(T) == Alignment, "the size of the type");
  T value;
};
template <class Use, int M, int N, int K, class T, int Elements, class Layout> struct Held {
  using F = wmma::fragment<Use, M, N, K, T, Layout>;
  static_assert(F::num_elements == Elements, "the elements of a fragment");
  static_assert(sizeof(F) == (Elements * sizeof(F().x[0]) + 7) / 8 * 8 && alignof(F) == 8, "the size of a fragment");
};
template <int M, int N, int K, class T, int A, int B, class Sum> struct Product {
  Held<wmma::matrix_a, M, N, K, T, A, wmma::row_major> a;
  Held<wmma::matrix_b, M, N, K, T, B, wmma::col_major> b;
  Held<wmma::accumulator, M, N, K, Sum, M * N / 32, void> c;
};
__global__ void sizes() {
  Product<16, 16, 16, half, 16, 16, float> a;
  Product<32, 8, 16, half, 16, 16, half> b;
  Product<8, 32, 16, half, 16, 16, float> c;
  Product<16, 16, 16, __nv_bfloat16, 8, 8, float> d;
  Product<32, 8, 16, __nv_bfloat16, 16, 4, float> e;
  Product<16, 16, 16, signed char, 8, 8, int> f;
  Product<8, 32, 16, unsigned char, 4, 16, int> g;
  Product<16, 16, 8, wmma::precision::tf32, 4, 4, float> h;
  Product<8, 8, 4, double, 1, 1, double> i;
  Same<cg::thread_block, 24, 8> j{cg::this_thread_block()};
  Same<cg::thread_block_tile<32>, 16, 8> k{cg::tiled_partition<32>(j.value)};
  static_assert(sizeof(cg::tiled_partition<16>(j.value)) == 1, "the size of a tile");
  Same<cg::coalesced_group, 16, 8> l{cg::coalesced_threads()};
  Same<half2, 4, 4> m; Same<__nv_bfloat162, 4, 4> n; Same<dim3, 12, 4> o; Same<uchar4, 4, 4> p; Same<short3, 6, 2> q;
  Same<double2, 16, 16> r; Same<float3, 12, 4> s;
  Same<decltype(threadIdx), 12, 4> v{threadIdx};
}
void kernel(const float *, float *) { sizes<<<1, 32>>>(); }
