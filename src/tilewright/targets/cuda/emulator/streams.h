/* Which work of the device comes before which other: the streams and events of host code.

   Part of the runtime. All work is done at once, in the order of the calls; here is kept which of that order holds on a
   GPU. A clock says how much of each stream's work is known to come before. Work in a stream comes after all earlier
   work in it, after the events that the stream waits for, and after what the host has waited for. The default stream
   and the other streams that were not made with cudaStreamNonBlocking wait for one another. */
#pragma once

enum { MOST_STREAMS = 32, MOST_EVENTS = 512, DEFAULT_STREAM = 0, STREAM_OF_THE_THREAD = 1 };
struct Clock { uint32_t known[MOST_STREAMS]; };
static struct Stream {
  Clock clock;
  uint32_t issued; /* its works so far */
  int line;        /* of the last one */
  bool apart;      /* does not wait for the default stream, nor the reverse */
} streams[MOST_STREAMS];
static Clock host, events[MOST_EVENTS], at_work; /* at_work: what comes before the work that is issued now */
static unsigned streams_used, events_used, stream_at_work;
static int line_at_work;

static void forget_streams(void) {
  memset(streams, 0, sizeof streams);
  memset(&host, 0, sizeof host);
  memset(events, 0, sizeof events);
  streams_used = STREAM_OF_THE_THREAD + 1;
  events_used = 0;
}

/* Handles are small numbers, as those of CUDA for its own streams are: 0 and 1 are the default stream. */
static unsigned stream_of(const void *handle) {
  size_t number = (size_t)handle;
  return number <= 1 ? DEFAULT_STREAM : number - 1 < MOST_STREAMS ? number - 1 : DEFAULT_STREAM;
}

extern "C" void *tw_stream(unsigned apart) {
  if (streams_used >= MOST_STREAMS) return nullptr;
  streams[streams_used].apart = apart;
  return (void *)(size_t)(1 + streams_used++);
}

extern "C" void *tw_event(void) { return events_used < MOST_EVENTS ? &events[events_used++] : nullptr; }

static void join_clock(Clock &clock, const Clock &other) {
  for (unsigned s = 0; s < MOST_STREAMS; s++)
    if (other.known[s] > clock.known[s]) clock.known[s] = other.known[s];
}

/* What comes before the next work in a stream. */
static Clock &clock_of(unsigned stream) {
  Clock &clock = streams[stream].clock;
  join_clock(clock, host);
  for (unsigned s = 1; s < streams_used && stream == DEFAULT_STREAM; s++)
    if (!streams[s].apart) join_clock(clock, streams[s].clock);
  if (!streams[stream].apart) join_clock(clock, streams[DEFAULT_STREAM].clock);
  return clock;
}

extern "C" void tw_record(void *event, const void *stream) {
  if (event) *(Clock *)event = clock_of(stream_of(stream));
}

extern "C" void tw_wait(const void *stream, const void *event) {
  if (event) join_clock(streams[stream_of(stream)].clock, *(const Clock *)event);
}

extern "C" void tw_host_waits(const void *stream, const void *event) {
  join_clock(host, event ? *(const Clock *)event : clock_of(stream_of(stream)));
}

extern "C" void tw_host_waits_for_all(void) {
  for (Stream &stream : streams) join_clock(host, stream.clock);
}

static void issue(const void *handle, int line) {
  stream_at_work = stream_of(handle);
  line_at_work = line;
  Clock &clock = clock_of(stream_at_work);
  clock.known[stream_at_work] = ++streams[stream_at_work].issued;
  streams[stream_at_work].line = line;
  at_work = clock;
}

/* The line of work that nothing orders before `clock`; 0 where there is none. */
static int line_beside(const Clock &clock) {
  for (unsigned s = 0; s < streams_used; s++)
    if (streams[s].issued > clock.known[s]) return streams[s].line;
  return 0;
}
