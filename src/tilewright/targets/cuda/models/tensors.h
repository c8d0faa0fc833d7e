/* What a KernelBench answer finds instead of PyTorch's headers: tensors over arrays of the device.

   Only what launchers of kernels use is here. Host code that needs more of PyTorch does not compile, and is then
   not checked. Memory is the launcher's: what `torch::empty` gives is freed when the launcher returns, and an array of
   the size of an output is that output itself, so that nothing is copied where the answer returns it. */
#pragma once
#include <cuda_runtime.h>
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <math.h>
#include <stdint.h>

namespace c10 {
enum class ScalarType { Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16 };
enum class DeviceType { CPU, CUDA };
struct Device {
  DeviceType kind = DeviceType::CUDA;
  Device(DeviceType kind = DeviceType::CUDA, int = 0) : kind(kind) {}
  bool is_cuda() const { return true; }
  bool is_cpu() const { return false; }
  int index() const { return 0; }
  DeviceType type() const { return DeviceType::CUDA; }
  bool operator==(Device) const { return true; }
  bool operator!=(Device) const { return false; }
};
struct nullopt_t {};
static const nullopt_t nullopt{};
inline int64_t bytes_of(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: case ScalarType::Char: case ScalarType::Bool: return 1;
    case ScalarType::Short: case ScalarType::Half: case ScalarType::BFloat16: return 2;
    case ScalarType::Int: case ScalarType::Float: return 4;
    default: return 8;
  }
}
}  // namespace c10

namespace tw_torch {
/* A condition of the answer that does not hold ends the process: there are no exceptions here. */
inline void require(bool holds) {
#ifdef __CUDACC__
  if (!holds) __builtin_trap();
#else
  if (!holds) tw_trap(0);
#endif
}
/* What PyTorch calls the elements of a pointer; of other types it has none, and its extension would not link. */
template <class T> struct Elements { static const bool known = false; static const c10::ScalarType type = c10::ScalarType::Float; };
template <c10::ScalarType TYPE> struct KnownElements { static const bool known = true; static const c10::ScalarType type = TYPE; };
template <class T> struct Elements<const T> : Elements<T> {};
template <> struct Elements<unsigned char> : KnownElements<c10::ScalarType::Byte> {};
template <> struct Elements<signed char> : KnownElements<c10::ScalarType::Char> {};
template <> struct Elements<short> : KnownElements<c10::ScalarType::Short> {};
template <> struct Elements<int> : KnownElements<c10::ScalarType::Int> {};
template <> struct Elements<long> : KnownElements<c10::ScalarType::Long> {};
template <> struct Elements<float> : KnownElements<c10::ScalarType::Float> {};
template <> struct Elements<double> : KnownElements<c10::ScalarType::Double> {};
template <> struct Elements<bool> : KnownElements<c10::ScalarType::Bool> {};
/* A number that Python has as `float`: its binding takes it for a floating type, and for no other. */
struct Real {
  double value;
  operator float() const { return (float)value; }
  operator double() const { return value; }
  template <class T> operator T() const = delete;
};
static const int MOST_AXES = 8, MOST_ARRAYS = 64;
struct Sizes {
  int64_t of[MOST_AXES] = {}, count = 0;
  Sizes() {}
  template <class... Rest> Sizes(int64_t first, Rest... rest) : of{first, (int64_t)rest...}, count(1 + (int64_t)sizeof...(rest)) {
    static_assert(sizeof...(rest) < MOST_AXES, "a tensor of more than 8 axes");
  }
  int64_t size() const { return count; }
  int64_t operator[](int64_t i) const { require(i >= 0 && i < count); return of[i]; }
  const int64_t *begin() const { return of; }
  const int64_t *end() const { return of + count; }
  int64_t elements() const {
    int64_t found = 1;
    for (int64_t i = 0; i < count; i++) { require(of[i] >= 0); found *= of[i]; }
    return found;
  }
  bool operator==(const Sizes &other) const {
    if (count != other.count) return false;
    for (int64_t i = 0; i < count; i++) if (of[i] != other.of[i]) return false;
    return true;
  }
  bool operator!=(const Sizes &other) const { return !(*this == other); }
  struct Vector vec() const;
};
/* What answers write as std::vector<int64_t>: a shape that changes. */
struct Vector : Sizes {
  Vector() {}
  Vector(const Sizes &sizes) : Sizes(sizes) {}
  Vector(std::initializer_list<int64_t> sizes) { for (int64_t size : sizes) push_back(size); }
  explicit Vector(int64_t size, int64_t value = 0) { resize(size, value); }
  Vector(const int64_t *first, const int64_t *last) { insert(of, first, last); }
  bool empty() const { return count == 0; }
  int64_t *begin() { return of; }
  int64_t *end() { return of + count; }
  int64_t *data() { return of; }
  int64_t &operator[](int64_t i) { require(i >= 0 && i < count); return of[i]; }
  int64_t &front() { return (*this)[0]; }
  int64_t &back() { return (*this)[count - 1]; }
  void reserve(int64_t) {}
  void clear() { count = 0; }
  void pop_back() { require(count > 0); count--; }
  void push_back(int64_t size) { insert(end(), size); }
  void emplace_back(int64_t size) { push_back(size); }
  void resize(int64_t size, int64_t value = 0) {
    require(size >= 0 && size <= MOST_AXES);
    while (count < size) of[count++] = value;
    count = size;
  }
  int64_t *insert(int64_t *at, int64_t size) { return insert(at, &size, &size + 1); }
  int64_t *insert(int64_t *at, const int64_t *first, const int64_t *last) {
    int64_t more = last - first, kept[MOST_AXES];
    require(at >= of && at <= end() && more >= 0 && count + more <= MOST_AXES);
    for (int64_t i = 0; i < more; i++) kept[i] = first[i];
    for (int64_t *p = end() - 1; p >= at; p--) p[more] = *p;
    for (int64_t i = 0; i < more; i++) at[i] = kept[i];
    count += more;
    return at;
  }
  int64_t *erase(int64_t *first, int64_t *last) {
    require(first >= of && first <= last && last <= end());
    for (int64_t *p = first; last + (p - first) < end(); p++) *p = last[p - first];
    count -= last - first;
    return first;
  }
  int64_t *erase(int64_t *at) { return erase(at, at + 1); }
};
inline Vector Sizes::vec() const { return Vector(*this); }
struct Options {
  c10::ScalarType type = c10::ScalarType::Float;
  Options() {}
  Options(c10::ScalarType type) : type(type) {}
  Options dtype(c10::ScalarType other) const { return Options(other); }
  Options device(c10::Device, int = 0) const { return *this; }
  Options device(c10::DeviceType, int = 0) const { return *this; }
  Options layout(int) const { return *this; }
  Options requires_grad(bool) const { return *this; }
  Options memory_format(int) const { return *this; }
};
struct Output { void *at; int64_t bytes; bool taken; };
static Output outputs[MOST_ARRAYS];
static void *arrays[MOST_ARRAYS];
static int output_count, array_count;

inline void begin() { output_count = array_count = 0; }
inline void writes(void *at, int64_t bytes) { outputs[output_count++] = {at, bytes, false}; }
inline void *room(int64_t bytes) {
  for (int i = 0; i < output_count; i++) {
    if (outputs[i].bytes == bytes && !outputs[i].taken) {
      outputs[i].taken = true;
      return outputs[i].at;
    }
  }
  require(array_count < MOST_ARRAYS);
  void *at = nullptr;
  require(cudaMallocAsync(&at, (size_t)(bytes > 0 ? bytes : 1), 0) == cudaSuccess);
  return arrays[array_count++] = at;
}
inline void end() {
  for (int i = 0; i < array_count; i++) cudaFreeAsync(arrays[i], 0);
}
}  // namespace tw_torch

namespace at {
using c10::ScalarType;
using IntArrayRef = tw_torch::Sizes;
template <class T> struct DefaultPtrTraits { typedef T *PtrType; };
template <class T> struct RestrictPtrTraits { typedef T *__restrict__ PtrType; };
/* A tensor as a kernel indexes it: x[i][j]. */
template <class T, int N, class I> struct TensorAccessor {
  T *at; const I *sizes_, *strides_;
  __host__ __device__ I size(int i) const { return sizes_[i]; }
  __host__ __device__ I stride(int i) const { return strides_[i]; }
  __host__ __device__ T *data() const { return at; }
  __host__ __device__ TensorAccessor<T, N - 1, I> operator[](I i) const { return {at + strides_[0] * i, sizes_ + 1, strides_ + 1}; }
};
template <class T, class I> struct TensorAccessor<T, 1, I> {
  T *at; const I *sizes_, *strides_;
  __host__ __device__ I size(int i) const { return sizes_[i]; }
  __host__ __device__ I stride(int i) const { return strides_[i]; }
  __host__ __device__ T *data() const { return at; }
  __host__ __device__ T &operator[](I i) const { return at[strides_[0] * i]; }
};
template <class T, int N, template <class> class Traits = DefaultPtrTraits, class I = int64_t> struct GenericPackedTensorAccessor {
  T *at; I sizes_[N], strides_[N];
  __host__ __device__ I size(int i) const { return sizes_[i]; }
  __host__ __device__ I stride(int i) const { return strides_[i]; }
  __host__ __device__ T *data() const { return at; }
  __host__ __device__ decltype(auto) operator[](I i) const { return TensorAccessor<T, N, I>{at, sizes_, strides_}[i]; }
};
template <class T, int N, template <class> class Traits = DefaultPtrTraits> using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, int N, template <class> class Traits = DefaultPtrTraits> using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
struct Tensor {
  void *at = nullptr;
  tw_torch::Sizes shape;
  c10::ScalarType type = c10::ScalarType::Float;
  Tensor() {}
  Tensor(void *at, tw_torch::Sizes shape, c10::ScalarType type) : at(at), shape(shape), type(type) {}
  bool defined() const { return at != nullptr; }
  int64_t axis(int64_t i) const { return i < 0 ? i + shape.count : i; }
  int64_t dim() const { return shape.count; }
  int64_t ndimension() const { return shape.count; }
  int64_t size(int64_t i) const { return shape[axis(i)]; }
  const tw_torch::Sizes &sizes() const { return shape; }
  int64_t stride(int64_t i) const {
    int64_t found = 1;
    for (int64_t j = axis(i) + 1; j < shape.count; j++) found *= shape.of[j];
    return found;
  }
  int64_t numel() const { return shape.elements(); }
  int64_t nbytes() const { return numel() * c10::bytes_of(type); }
  int64_t element_size() const { return c10::bytes_of(type); }
  c10::ScalarType scalar_type() const { return type; }
  c10::ScalarType dtype() const { return type; }
  tw_torch::Options options() const { return tw_torch::Options(type); }
  c10::Device device() const { return c10::Device(); }
  int get_device() const { return 0; }
  bool is_cuda() const { return true; }
  bool is_contiguous() const { return true; }
  bool is_floating_point() const { return type == c10::ScalarType::Float || type == c10::ScalarType::Double || type == c10::ScalarType::Half || type == c10::ScalarType::BFloat16; }
  Tensor contiguous() const { return *this; }
  Tensor detach() const { return *this; }
  Tensor cuda() const { return *this; }
  Tensor view(tw_torch::Sizes other) const {
    int64_t known = 1, open = -1;
    for (int64_t i = 0; i < other.count; i++) {
      if (other.of[i] == -1) open = i; else known *= other.of[i];
    }
    if (open >= 0) { tw_torch::require(known > 0); other.of[open] = numel() / known; }
    tw_torch::require(other.elements() == numel());
    return Tensor(at, other, type);
  }
  Tensor reshape(tw_torch::Sizes other) const { return view(other); }
  Tensor squeeze() const {
    tw_torch::Sizes other;
    for (int64_t i = 0; i < shape.count; i++) if (shape.of[i] != 1) other.of[other.count++] = shape.of[i];
    return view(other);
  }
  Tensor view_as(const Tensor &other) const { return view(other.shape); }
  Tensor &zero_() { cudaMemsetAsync(at, 0, (size_t)nbytes(), 0); return *this; }
  template <class T> T *data_ptr() const {
    static_assert(tw_torch::Elements<T>::known, "tw_torch::Elements: PyTorch has no data_ptr of this type");
    tw_torch::require(tw_torch::Elements<T>::type == type);
    return (T *)at;
  }
  template <class T> T *mutable_data_ptr() const { return data_ptr<T>(); }
  template <class T> const T *const_data_ptr() const { return data_ptr<T>(); }
  template <class T> T *data() const { return data_ptr<T>(); }
  void *data_ptr() const { return at; }
  template <class T, int N, template <class> class Traits = DefaultPtrTraits, class I = int64_t> GenericPackedTensorAccessor<T, N, Traits, I> generic_packed_accessor() const {
    tw_torch::require(shape.count == N);
    GenericPackedTensorAccessor<T, N, Traits, I> found;
    found.at = data_ptr<T>();
    for (int i = 0; i < N; i++) { found.sizes_[i] = (I)shape.of[i]; found.strides_[i] = (I)stride(i); }
    return found;
  }
  template <class T, int N, template <class> class Traits = DefaultPtrTraits> PackedTensorAccessor32<T, N, Traits> packed_accessor32() const { return generic_packed_accessor<T, N, Traits, int32_t>(); }
  template <class T, int N, template <class> class Traits = DefaultPtrTraits> PackedTensorAccessor64<T, N, Traits> packed_accessor64() const { return generic_packed_accessor<T, N, Traits, int64_t>(); }
};
inline c10::Device device_of(const Tensor &) { return c10::Device(); }
inline Tensor empty(tw_torch::Sizes shape, tw_torch::Options options = {}) {
  return Tensor(tw_torch::room(shape.elements() * c10::bytes_of(options.type)), shape, options.type);
}
inline Tensor zeros(tw_torch::Sizes shape, tw_torch::Options options = {}) { return empty(shape, options).zero_(); }
inline Tensor empty_like(const Tensor &other) { return empty(other.shape, other.options()); }
inline Tensor empty_like(const Tensor &other, tw_torch::Options options) { return empty(other.shape, options); }
inline Tensor zeros_like(const Tensor &other) { return zeros(other.shape, other.options()); }
inline Tensor zeros_like(const Tensor &other, tw_torch::Options options) { return zeros(other.shape, options); }
static const c10::ScalarType kByte = c10::ScalarType::Byte, kChar = c10::ScalarType::Char, kInt = c10::ScalarType::Int, kLong = c10::ScalarType::Long,
  kHalf = c10::ScalarType::Half, kFloat = c10::ScalarType::Float, kDouble = c10::ScalarType::Double, kBool = c10::ScalarType::Bool, kBFloat16 = c10::ScalarType::BFloat16;
static const c10::DeviceType kCUDA = c10::DeviceType::CUDA, kCPU = c10::DeviceType::CPU;
namespace cuda {
struct CUDAStream {
  cudaStream_t stream() const { return 0; }
  operator cudaStream_t() const { return 0; }
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
}  // namespace cuda
}  // namespace at
namespace c10 {
using Tensor = at::Tensor;
using IntArrayRef = tw_torch::Sizes;
namespace cuda {
using at::cuda::CUDAStream;
using at::cuda::getCurrentCUDAStream;
struct CUDAGuard { template <class Any> explicit CUDAGuard(Any) {} };
struct OptionalCUDAGuard { template <class Any> explicit OptionalCUDAGuard(Any) {} };
}  // namespace cuda
}  // namespace c10
namespace at { namespace cuda { using c10::cuda::CUDAGuard; using c10::cuda::OptionalCUDAGuard; } }
namespace tw_torch {
/* Several tensors that a function returns together: what answers write as std::vector<torch::Tensor> or std::tuple. */
struct Tensors {
  at::Tensor of[MOST_AXES];
  int count = 0;
  Tensors() {}
  template <class... Rest> Tensors(at::Tensor first, Rest... rest) : of{first, rest...}, count(1 + (int)sizeof...(rest)) {
    static_assert(sizeof...(rest) < MOST_AXES, "tw_torch::Tensors: more than 8 tensors");
  }
  void push_back(at::Tensor next) { require(count < MOST_AXES); of[count++] = next; }
  void emplace_back(at::Tensor next) { push_back(next); }
  void reserve(int64_t) {}
  int64_t size() const { return count; }
  at::Tensor &operator[](int64_t i) { require(i >= 0 && i < count); return of[i]; }
  const at::Tensor &operator[](int64_t i) const { require(i >= 0 && i < count); return of[i]; }
};
template <class... T> struct Several {};
template <> struct Several<at::Tensor> { using type = Tensors; };
template <> struct Several<int64_t> { using type = Vector; };
template <> struct Several<long long> { using type = Vector; };
template <class... T> struct Several<at::Tensor, T...> : Several<T...> {};
/* One of the tensors that Python unpacks; `count` is how many it expects, or 0. */
inline at::Tensor part(const Tensors &all, int at, int count) {
  require(!count || all.count == count);
  return all[at];
}
/* Only a dense tensor of the right shape and type is a result; without one the output holds no numbers. */
inline void leave(const at::Tensor &found, void *to, Sizes shape, c10::ScalarType type) {
  if (found.shape != shape || found.type != type) {
    cudaMemsetAsync(to, 0xff, (size_t)(shape.elements() * c10::bytes_of(type)), 0);
    return;
  }
  if (found.at == to) return;
  cudaMemcpyAsync(to, found.at, (size_t)found.nbytes(), cudaMemcpyDeviceToDevice, 0);
}
}  // namespace tw_torch
namespace torch {
using at::Tensor; using at::IntArrayRef; using at::DefaultPtrTraits; using at::RestrictPtrTraits; using at::TensorAccessor;
using at::GenericPackedTensorAccessor; using at::PackedTensorAccessor32; using at::PackedTensorAccessor64;
using at::empty; using at::zeros; using at::empty_like; using at::zeros_like;
using at::kByte; using at::kChar; using at::kInt; using at::kLong; using at::kHalf; using at::kFloat; using at::kDouble; using at::kBool;
using at::kBFloat16; using at::kCUDA; using at::kCPU;
using c10::Device; using c10::ScalarType; using c10::nullopt;
using TensorOptions = tw_torch::Options;
using Dtype = c10::ScalarType;
static const c10::ScalarType kFloat32 = at::kFloat, kFloat64 = at::kDouble, kFloat16 = at::kHalf, kInt32 = at::kInt, kInt64 = at::kLong, kInt8 = at::kChar, kUInt8 = at::kByte;
inline tw_torch::Options dtype(c10::ScalarType type) { return tw_torch::Options(type); }
inline tw_torch::Options device(c10::DeviceType) { return {}; }
inline tw_torch::Options device(c10::Device) { return {}; }
}  // namespace torch

/* What the sources of an answer find under the name std. */
namespace std {}
namespace tw_std {
using namespace std;
template <class T> using vector = typename tw_torch::Several<T>::type;
template <class... T> using tuple = typename tw_torch::Several<T...>::type;
template <class... T> tw_torch::Tensors make_tuple(const T &...tensors) { return tw_torch::Tensors(tensors...); }
}  // namespace tw_std

#define TORCH_CHECK(condition, ...) tw_torch::require(static_cast<bool>(condition))
#define TORCH_INTERNAL_ASSERT(condition, ...) tw_torch::require(static_cast<bool>(condition))
#define AT_ASSERTM(condition, ...) tw_torch::require(static_cast<bool>(condition))
#define AT_ASSERT(condition, ...) tw_torch::require(static_cast<bool>(condition))
#define C10_CUDA_CHECK(call) tw_torch::require((call) == cudaSuccess)
#define AT_CUDA_CHECK(call) tw_torch::require((call) == cudaSuccess)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() tw_torch::require(cudaGetLastError() == cudaSuccess)
#define TW_OF_FLOATS(type, ...)                                   \
  [&] {                                                           \
    tw_torch::require((type) == c10::ScalarType::Float);          \
    using scalar_t = float;                                       \
    (__VA_ARGS__)();                                              \
  }()
#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) TW_OF_FLOATS(type, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) TW_OF_FLOATS(type, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(first, second, type, name, ...) TW_OF_FLOATS(type, __VA_ARGS__)
namespace py {
struct module_ { template <class... Any> module_ &def(const char *, Any...) { return *this; } };
}  // namespace py
#define PYBIND11_MODULE(name, variable) static void tw_torch_module(py::module_ &variable)
