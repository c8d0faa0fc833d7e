/* Calls a kernel on a GPU for an evaluator that holds the clock: the program that a kernel's object file is linked into.

   It decides nothing and measures nothing that counts. Commands come as lines over the descriptor that is its only
   argument, bytes of arrays beside them; each is answered by one line. Of every array there are several copies, one
   after the other at multiples of 256 bytes, so that no two calls of a batch see the same ones:

     open ARGUMENTS BYTES... ROLES... SIZES VALUES...   role 0 given, 1 written, 2 both
                                -> device SMS KHZ L2_BYTES MEMORY_KHZ BUS_BITS FREE_BYTES
     copies COUNT               -> copies COUNT: room for so many, all zero
     upload ARGUMENT COPY       + bytes -> uploaded
     spread FIRST END           -> spread: copies from FIRST to before END hold what copy 0 does
     draw ARGUMENT COPIES KEY SCALE
                                -> drawn: floats of the first copies, other ones in each (see values.py)
     poison COPIES              -> poisoned: outputs of the first copies hold no numbers
     batch FIRST COUNT          -> ready, once the device is idle; then `go` starts the calls, each on the next copy
                                -> done MILLISECONDS, once all work has ended; by the device's own clock
     hash ARGUMENT COPY         -> hash NUMBER (see values.py)
     download ARGUMENT COPY     -> bytes
     free                       -> free BYTES

   An error of CUDA is answered by `failed STEP NUMBER TEXT`, and ends the program. */
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" void tw_call(void **arrays, const long long *sizes); /* the kernel, with its parameters' types */

enum { MOST = 64, ALIGNMENT = 256, THREADS = 256, BLOCKS = 256, CHUNK = 1 << 20 };

static FILE *from, *to;
static int arguments, sizes_count;
static long long bytes[MOST], slot[MOST], sizes[MOST], copies;
static int roles[MOST];
static char *pools[MOST];
static unsigned long long *sum;
static char chunk[CHUNK];

static void check(const char *step) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  fprintf(to, "failed %s %d %s\n", step, (int)error, cudaGetErrorString(error));
  fflush(to);
  exit(1);
}

static void answer(const char *words) {
  fprintf(to, "%s\n", words);
  fflush(to);
}

__device__ unsigned long long mixed(unsigned long long x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

/* One row of blocks for each copy. */
__global__ void draw_floats(char *pool, long long slot, long long count, unsigned long long key, float scale) {
  float *at = (float *)(pool + blockIdx.y * slot);
  key += blockIdx.y;
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    unsigned long long x = mixed(key + mixed((unsigned long long)i));
    int total = (int)(x & 65535) + (int)(x >> 16 & 65535) + (int)(x >> 32 & 65535) + (int)(x >> 48);
    at[i] = (float)(total - 131070) * scale;
  }
}

__global__ void hash_words(const unsigned *at, long long count, unsigned long long *sum) {
  unsigned long long own = 0;
  long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
    own += mixed((unsigned long long)i << 32 ^ at[i]);
  atomicAdd(sum, own);
}

static unsigned blocks_for(long long elements) {
  long long wanted = (elements + THREADS - 1) / THREADS;
  return wanted < 1 ? 1 : wanted > BLOCKS ? BLOCKS : (unsigned)wanted;
}

static char *at(int argument, long long copy) {
  if (argument < 0 || argument >= arguments || copy < 0 || copy >= copies) exit(3);
  return pools[argument] + copy * slot[argument];
}

static long long attribute(cudaDeviceAttr which) {
  int value = 0;
  cudaDeviceGetAttribute(&value, which, 0);
  cudaGetLastError(); /* one that is not known is zero */
  return value;
}

static long long memory_free(void) {
  size_t left = 0, all = 0;
  cudaMemGetInfo(&left, &all);
  check("free");
  return (long long)left;
}

static void open_arrays(void) {
  if (fscanf(from, "%d", &arguments) != 1 || arguments < 1 || arguments > MOST) exit(3);
  for (int i = 0; i < arguments; i++) {
    if (fscanf(from, "%lld", &bytes[i]) != 1) exit(3);
    slot[i] = (bytes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  for (int i = 0; i < arguments; i++)
    if (fscanf(from, "%d", &roles[i]) != 1) exit(3);
  if (fscanf(from, "%d", &sizes_count) != 1 || sizes_count < 0 || sizes_count > MOST) exit(3);
  for (int i = 0; i < sizes_count; i++)
    if (fscanf(from, "%lld", &sizes[i]) != 1) exit(3);
  cudaSetDevice(0);
  cudaMalloc(&sum, sizeof *sum);
  check("start");
  fprintf(to, "device %lld %lld %lld %lld %lld %lld\n", attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrClockRate), attribute(cudaDevAttrL2CacheSize),
          attribute(cudaDevAttrMemoryClockRate), attribute(cudaDevAttrGlobalMemoryBusWidth), memory_free());
  fflush(to);
}

static void make_room(void) {
  if (fscanf(from, "%lld", &copies) != 1 || copies < 1) exit(3);
  for (int i = 0; i < arguments; i++) {
    cudaMalloc(&pools[i], (size_t)(copies * slot[i]));
    check("allocate");
    cudaMemset(pools[i], 0, (size_t)(copies * slot[i]));
  }
  check("allocate");
  fprintf(to, "copies %lld\n", copies);
  fflush(to);
}

static void upload(void) {
  int argument;
  long long copy;
  if (fscanf(from, "%d %lld", &argument, &copy) != 2 || fgetc(from) != '\n') exit(3);
  for (long long done = 0, part; done < bytes[argument]; done += part) {
    part = bytes[argument] - done < CHUNK ? bytes[argument] - done : CHUNK;
    if (fread(chunk, 1, (size_t)part, from) != (size_t)part) exit(3);
    cudaMemcpy(at(argument, copy) + done, chunk, (size_t)part, cudaMemcpyHostToDevice);
  }
  check("upload");
  answer("uploaded");
}

static void download(void) {
  int argument;
  long long copy;
  if (fscanf(from, "%d %lld", &argument, &copy) != 2) exit(3);
  for (long long done = 0, part; done < bytes[argument]; done += part) {
    part = bytes[argument] - done < CHUNK ? bytes[argument] - done : CHUNK;
    cudaMemcpy(chunk, at(argument, copy) + done, (size_t)part, cudaMemcpyDeviceToHost);
    fwrite(chunk, 1, (size_t)part, to);
  }
  fflush(to);
}

static void spread(void) {
  long long first, end;
  if (fscanf(from, "%lld %lld", &first, &end) != 2 || first < 1) exit(3);
  for (int i = 0; i < arguments; i++)
    for (long long copy = first; copy < end; copy++)
      cudaMemcpy(at(i, copy), at(i, 0), (size_t)bytes[i], cudaMemcpyDeviceToDevice);
  check("spread");
  answer("spread");
}

static void draw(void) {
  int argument;
  long long some;
  unsigned long long key;
  float scale;
  if (fscanf(from, "%d %lld %llu %f", &argument, &some, &key, &scale) != 4 || some > 65535) exit(3);
  at(argument, some - 1);
  dim3 grid(blocks_for(bytes[argument] / 4), (unsigned)some);
  draw_floats<<<grid, THREADS>>>(pools[argument], slot[argument], bytes[argument] / 4, key, scale);
  check("draw");
  answer("drawn");
}

static void poison(void) {
  long long some;
  if (fscanf(from, "%lld", &some) != 1) exit(3);
  for (int i = 0; i < arguments; i++)
    for (long long copy = 0; roles[i] == 1 && copy < some; copy++)
      cudaMemset(at(i, copy), 0xff, (size_t)bytes[i]);
  check("poison");
  answer("poisoned");
}

static void batch(void) {
  long long first, count;
  char word[8];
  void *arrays[MOST];
  float milliseconds = 0;
  cudaEvent_t begun, ended;
  if (fscanf(from, "%lld %lld", &first, &count) != 2 || first < 0 || count < 1 || first + count > copies) exit(3);
  cudaEventCreate(&begun);
  cudaEventCreate(&ended);
  cudaDeviceSynchronize();
  check("wait");
  answer("ready");
  if (fscanf(from, "%7s", word) != 1 || strcmp(word, "go")) exit(3);
  cudaEventRecord(begun, 0);
  for (long long copy = first; copy < first + count; copy++) {
    for (int i = 0; i < arguments; i++) arrays[i] = at(i, copy);
    tw_call(arrays, sizes);
  }
  cudaEventRecord(ended, 0);
  cudaDeviceSynchronize();
  check("call");
  cudaEventElapsedTime(&milliseconds, begun, ended);
  fprintf(to, "done %.9g\n", milliseconds);
  fflush(to);
  cudaEventDestroy(begun);
  cudaEventDestroy(ended);
}

static void hash(void) {
  int argument;
  long long copy;
  unsigned long long found = 0;
  if (fscanf(from, "%d %lld", &argument, &copy) != 2) exit(3);
  cudaMemset(sum, 0, sizeof *sum);
  unsigned *words = (unsigned *)at(argument, copy);
  long long length = (bytes[argument] + 3) / 4;
  hash_words<<<blocks_for(length), THREADS>>>(words, length, sum);
  cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost);
  check("hash");
  fprintf(to, "hash %llu\n", found);
  fflush(to);
}

int main(int count, char **words) {
  if (count != 2) return 3;
  from = fdopen(atoi(words[1]), "rb");
  to = fdopen(atoi(words[1]), "wb");
  if (!from || !to) return 3;
  char command[16];
  while (fscanf(from, "%15s", command) == 1) {
    if (!strcmp(command, "open")) open_arrays();
    else if (!strcmp(command, "copies")) make_room();
    else if (!strcmp(command, "upload")) upload();
    else if (!strcmp(command, "download")) download();
    else if (!strcmp(command, "spread")) spread();
    else if (!strcmp(command, "draw")) draw();
    else if (!strcmp(command, "poison")) poison();
    else if (!strcmp(command, "batch")) batch();
    else if (!strcmp(command, "hash")) hash();
    else if (!strcmp(command, "free")) { fprintf(to, "free %lld\n", memory_free()); fflush(to); }
    else return 3;
  }
  return 0;
}
