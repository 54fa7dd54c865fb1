/* The library that onnxruntime loads as an execution provider plugin. It holds the tables that onnxruntime reads and the
 * functions in them; each passes its call on to a hook, a function of Python that ctypes made callable from C.
 *
 * It knows neither Python's headers nor onnxruntime's: one build per platform serves every Python and every onnxruntime from
 * 1.24 on. The layouts below are prefixes of onnxruntime's structures, which onnxruntime only ever extends.
 *
 * No hook is called once the library is closed, which Python does before it ends: a session that outlives the interpreter gets
 * an error from its runs, and what it releases is freed here.
 *
 *     cc -std=c11 -shared -fPIC -O2 -fvisibility=hidden -o ort_lite_ep.so shim.c
 */
#define _POSIX_C_SOURCE 199309L
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef DWORD thread_id;
static thread_id this_thread(void) { return GetCurrentThreadId(); }
static void wait_a_millisecond(void) { Sleep(1); }
#else
#define EXPORT __attribute__((visibility("default")))
#include <pthread.h>
#include <time.h>
typedef pthread_t thread_id;
static thread_id this_thread(void) { return pthread_self(); }
static void wait_a_millisecond(void) { nanosleep(&(struct timespec){0, 1000000}, NULL); }
#endif

#define API_VERSION 24
enum { MOST_WAIT_MS = 10000 };
#define PROVIDER_VERSION 27 /* OrtEp has members that onnxruntime 1.25 to 1.27 added; earlier ones read what they know */
enum { FAIL = 1 };                                  /* OrtErrorCode */
enum { TYPE_TENSOR = 1, ELEMENTS_STRING = 8 };      /* ONNXType, ONNXTensorElementDataType */
enum { FACTORY = 0, PROVIDER = 1, PARTITION = 2 };  /* what `hooks.release` is told */

typedef void *Status;  /* OrtStatus *: NULL is success */

/* ---- onnxruntime's functions: positions in OrtApi ------------------------------------------------------------------------- */

static void *const *api, *const *ep_api;

#define CALL(slot, type, ...) (((type)api[slot])(__VA_ARGS__))
#define EP_CALL(slot, type, ...) (((type)ep_api[slot])(__VA_ARGS__))
typedef Status (*create_status_t)(int, const char *);
typedef Status (*get_data_t)(const void *, void **);
typedef Status (*get_type_t)(const void *, int *);
typedef Status (*get_count_t)(const void *, size_t *);
typedef Status (*get_input_t)(const void *, size_t, const void **);
typedef Status (*get_output_t)(void *, size_t, const int64_t *, size_t, void **);
typedef Status (*get_shape_t)(const void *, int *, const int64_t **, size_t *);
typedef const void *(*get_table_t)(void);
typedef const void *(*get_place_t)(const void *);
typedef int (*get_kind_t)(const void *);
typedef bool (*are_equal_t)(const void *, const void *);
enum {
    CREATE_STATUS = 0,
    GET_TENSOR_MUTABLE_DATA = 51,
    GET_VALUE_TYPE = 67,
    CONTEXT_GET_INPUT_COUNT = 88,
    CONTEXT_GET_INPUT = 90,
    CONTEXT_GET_OUTPUT = 91,
    GET_EP_API = 317,
    GET_TYPE_AND_SHAPE = 414,
};
enum { MEMORY_OF_INFO = 6, MEMORY_OF_VALUE = 7, ARE_EQUAL = 8, KIND_OF_MEMORY = 9 };  /* positions in OrtEpApi */

static Status fail(const char *message) { return CALL(CREATE_STATUS, create_status_t, FAIL, message); }

/* ---- Python's functions --------------------------------------------------------------------------------------------------- */

struct hooks {
    Status (*create_factories)(const char *name, const void *base, void **factories, size_t room, size_t *count);
    Status (*supported_devices)(int64_t id, const void *const *devices, size_t count, void **found, size_t room, size_t *n);
    Status (*create_provider)(int64_t id, const void *const *metadata, size_t count, const void *options, void **provider);
    Status (*capability)(int64_t id, const void *graph, void *support);
    Status (*compile)(int64_t id, const void *const *graphs, const void *const *fused, size_t count, void **partitions,
                      void **contexts);
    Status (*compute)(int64_t id, void *context, const int64_t *tensors, size_t count);
    Status (*run_start)(int64_t id, const void *options);
    Status (*run_end)(int64_t id, const void *options, bool wait);
    Status (*set_options)(int64_t id, const char *const *keys, const char *const *values, size_t count);
    Status (*copy)(const int64_t *tensors, size_t count);
    void (*free_block)(int64_t address);
    Status (*check_compatibility)(int64_t id, const char *saved, int *found);
    Status (*end_creation)(int64_t id);
    Status (*sync)(int64_t id);
    Status (*start_profiling)(int64_t id, const void *profiler, int64_t offset);
    Status (*end_profiling)(int64_t id, const void *profiler, void *events);
    void (*release)(int kind, int64_t id);
};

static struct hooks hooks;
static atomic_bool open_;       /* hooks may be called */
static atomic_long in_flight;   /* calls of hooks that have not returned */
static thread_id ending;        /* the thread that closed the library */
static size_t array_offset;     /* the size of what every object of Python begins with */

static bool enter(void) {
    atomic_fetch_add(&in_flight, 1);
    if (atomic_load(&open_)) return true;
    atomic_fetch_sub(&in_flight, 1);
    return false;
}

static void leave(void) { atomic_fetch_sub(&in_flight, 1); }

/* Python ends while other threads run sessions. A thread that returns to Python then is ended in the midst of C++, which ends
 * the process with an error, so it waits here for the end of the process. That of the interpreter takes less than a second; a
 * program that embeds one, and goes on without it, gets the error late. */
static Status closed(void) {
    for (int waited = 0; this_thread() != ending && waited < MOST_WAIT_MS; waited++) wait_a_millisecond();
    return fail("ort-lite: the Python interpreter has ended, and with it the execution provider of this session");
}

/* Call a hook that returns a status. */
#define PASS(...)                  \
    do {                           \
        if (!enter()) return closed(); \
        Status status = (__VA_ARGS__); \
        leave();                   \
        return status;             \
    } while (0)

EXPORT void ort_lite_ep_open(const struct hooks *given, size_t offset) {
    hooks = *given, array_offset = offset;
    atomic_store(&open_, true);
}

/* No hook is called after this. Returns the number of calls that are still under way. */
EXPORT long ort_lite_ep_close(void) {
    ending = this_thread();
    atomic_store(&open_, false);
    return atomic_load(&in_flight);
}

/* ---- Memory of devices: OrtAllocator, OrtDataTransferImpl ------------------------------------------------------------------ */

/* A provider's values on its device may be any objects of Python, and onnxruntime wants addresses. Those given out here are numbers
 * with no memory behind them; Python keeps the value that was written at each. The highest byte is the device's number + 1, which
 * no memory of a process has. Then come 6 bits for the block's size, a power of two, the number of the block among those of its
 * size, and the offset in it: onnxruntime places several tensors in one block.
 */
enum { DEVICE_SHIFT = 56, SIZE_SHIFT = 50, SIZES = 50, SMALLEST = 8, MOST_DEVICES = 32, ELSEWHERE = 0xff };

struct pool {
    atomic_flag busy;
    uint64_t made;    /* blocks that were ever given out */
    uint64_t *freed;  /* those of them that are free */
    size_t count, room;
};

static struct pool pools[MOST_DEVICES][SIZES];
static const void *memories[MOST_DEVICES];  /* the OrtMemoryInfo of each device, which lives as long as the process */

static void lock(struct pool *pool) {
    while (atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {}
}

static void unlock(struct pool *pool) { atomic_flag_clear_explicit(&pool->busy, memory_order_release); }

struct allocator {
    uint32_t version;
    void *allocate, *free, *info, *reserve, *statistics, *allocate_on_stream;
    uint64_t device;
};

static void *allocate(struct allocator *self, size_t size) {
    uint64_t power = SMALLEST, number;
    while (power < SIZES && ((uint64_t)1 << power) < size) power++;
    if (!size || power == SIZES) return NULL;
    struct pool *pool = &pools[self->device][power];
    lock(pool);
    number = pool->count ? pool->freed[--pool->count] : pool->made++;
    unlock(pool);
    if (number >> (SIZE_SHIFT - power)) return NULL;
    return (void *)(uintptr_t)((self->device + 1) << DEVICE_SHIFT | power << SIZE_SHIFT | number << power);
}

static void free_block(struct allocator *self, void *address) {
    uint64_t block = (uint64_t)(uintptr_t)address, power = block >> SIZE_SHIFT & 63;
    if (!block) return;
    if (enter()) {
        hooks.free_block((int64_t)block);
        leave();
    }
    struct pool *pool = &pools[self->device][power];
    lock(pool);
    if (pool->count == pool->room) {
        size_t room = 2 * pool->room + 16;
        uint64_t *grown = realloc(pool->freed, room * sizeof *grown);
        if (grown) pool->freed = grown, pool->room = room;
    }
    if (pool->count < pool->room) pool->freed[pool->count++] = (block & (((uint64_t)1 << SIZE_SHIFT) - 1)) >> power;
    unlock(pool);
}

static const void *allocator_info(const struct allocator *self) { return memories[self->device]; }

/* Let devices with this number have memory of this kind. */
EXPORT void ort_lite_ep_new_device(size_t number, const void *memory) { memories[number] = memory; }

/* 0 for the host's memory, the number of a device + 1, or ELSEWHERE. */
static int64_t device_of(const void *memory) {
    if (!memory || !EP_CALL(KIND_OF_MEMORY, get_kind_t, memory)) return 0;
    for (size_t k = 0; k < MOST_DEVICES; k++)
        if (memories[k] && EP_CALL(ARE_EQUAL, are_equal_t, EP_CALL(MEMORY_OF_INFO, get_place_t, memories[k]), memory))
            return (int64_t)k + 1;
    return ELSEWHERE;
}

static int64_t device_of_value(const void *value) { return device_of(EP_CALL(MEMORY_OF_VALUE, get_place_t, value)); }

/* ---- Compiled partitions: OrtNodeComputeInfo ------------------------------------------------------------------------------ */

struct partition {
    uint32_t version;
    void *create_state, *compute, *release_state;
    int64_t id;
    bool away;  /* the provider's device has memory of its own */
};

static Status create_state(void *self, void *context, void **state) {
    (void)self, (void)context;
    *state = NULL;
    return NULL;
}

static void release_state(void *self, void *state) { (void)self, (void)state; }

enum { ROOM = 256, HEAD = 4 };

/* Append [value, address, element type, rank, dims...] of an input, which is [value, 0, 0, 0] where it is no tensor. */
static Status describe(const void *value, int64_t **numbers, size_t *used, size_t *room, int64_t *own) {
    int type = 0, elements = 0;
    void *data = NULL;
    const int64_t *dims = NULL;
    size_t rank = 0;
    Status status = NULL;
    if (value && (status = CALL(GET_VALUE_TYPE, get_type_t, value, &type))) return status;
    if (type == TYPE_TENSOR) {
        if ((status = CALL(GET_TYPE_AND_SHAPE, get_shape_t, value, &elements, &dims, &rank))) return status;
        if (elements != ELEMENTS_STRING && (status = CALL(GET_TENSOR_MUTABLE_DATA, get_data_t, value, &data))) return status;
    }
    if (*used + HEAD + rank > *room) {
        size_t more = 2 * *room + HEAD + rank;
        int64_t *grown = malloc(more * sizeof *grown);
        if (!grown) return fail("ort-lite: out of memory");
        memcpy(grown, *numbers, *used * sizeof *grown);
        if (*numbers != own) free(*numbers);
        *numbers = grown, *room = more;
    }
    int64_t *to = *numbers + *used;
    to[0] = (int64_t)(intptr_t)value, to[1] = (int64_t)(intptr_t)data, to[2] = elements, to[3] = (int64_t)rank;
    if (rank) memcpy(to + HEAD, dims, rank * sizeof *dims);
    *used += HEAD + rank;
    return NULL;
}

/* The same, with the value's device (see `device_of`) in the second byte of the element type. */
static Status describe_place(const void *value, int64_t **numbers, size_t *used, size_t *room, int64_t *own) {
    size_t at = *used;
    Status status = describe(value, numbers, used, room, own);
    if (!status && value) (*numbers)[at + 2] |= device_of_value(value) << 8;
    return status;
}

static Status compute(struct partition *self, void *state, void *context) {
    (void)state;
    int64_t own[ROOM], *numbers = own;
    size_t count = 0, used = 0, room = ROOM;
    Status status = CALL(CONTEXT_GET_INPUT_COUNT, get_count_t, context, &count);
    for (size_t k = 0; !status && k < count; k++) {
        const void *value = NULL;
        status = CALL(CONTEXT_GET_INPUT, get_input_t, context, k, &value);
        if (!status) status = (self->away ? describe_place : describe)(value, &numbers, &used, &room, own);
    }
    if (!status) {
        if (enter()) {
            status = hooks.compute(self->id, context, numbers, used);
            leave();
        } else {
            status = closed();
        }
    }
    if (numbers != own) free(numbers);
    return status;
}

/* For a child process: the threads whose calls were under way do not exist there. */
EXPORT void ort_lite_ep_forget_calls(void) {
    atomic_store(&in_flight, 0);
    for (size_t k = 0; k < MOST_DEVICES * SIZES; k++) unlock(&pools[0][0] + k);
}

EXPORT void *ort_lite_ep_new_partition(int64_t id, bool away) {
    struct partition *made = calloc(1, sizeof *made);
    if (made) {
        made->version = API_VERSION, made->id = id, made->away = away;
        made->create_state = (void *)create_state, made->compute = (void *)compute, made->release_state = (void *)release_state;
    }
    return made;
}

/* The beginning of a NumPy array behind what every object of Python begins with: part of NumPy's ABI, which extensions inline. */
struct array {
    const void *data;
    int rank;
    const intptr_t *dims;
};
_Static_assert(sizeof(intptr_t) == sizeof(int64_t), "dimensions are passed on as they are");

/* Let onnxruntime allocate an output of the shape of an array, and copy `size` bytes of another one into it unless it is NULL. */
EXPORT Status ort_lite_ep_output(void *context, size_t index, const char *shape, const char *contents, size_t size, void **value) {
    const struct array *shaped = (const struct array *)(shape + array_offset);
    void *target = NULL, *found = NULL;
    Status status = CALL(CONTEXT_GET_OUTPUT, get_output_t, context, index, (const int64_t *)shaped->dims, (size_t)shaped->rank, &found);
    if (value) *value = found;
    if (status || !found || !contents || !size) return status;
    if ((status = CALL(GET_TENSOR_MUTABLE_DATA, get_data_t, found, &target))) return status;
    memcpy(target, ((const struct array *)(contents + array_offset))->data, size);
    return NULL;
}

/* Let onnxruntime allocate an output, and tell its value (NULL: not wanted), its address and its device (see `device_of`). */
EXPORT Status ort_lite_ep_place_output(void *context, size_t index, const int64_t *dims, size_t rank, int64_t *found) {
    void *value = NULL, *data = NULL;
    Status status = CALL(CONTEXT_GET_OUTPUT, get_output_t, context, index, dims, rank, &value);
    if (!status && value) status = CALL(GET_TENSOR_MUTABLE_DATA, get_data_t, value, &data);
    found[0] = (int64_t)(intptr_t)value, found[1] = (int64_t)(intptr_t)data;
    found[2] = status || !value ? 0 : device_of_value(value);
    return status;
}

static void release(int kind, int64_t id) {
    if (enter()) {
        hooks.release(kind, id);
        leave();
    }
}

static void release_partitions(void *self, struct partition **partitions, size_t count) {
    (void)self;
    for (size_t k = 0; k < count; k++) {
        if (!partitions[k]) continue;
        release(PARTITION, partitions[k]->id);
        free(partitions[k]);
        partitions[k] = NULL;
    }
}

/* ---- Copies to and from devices -------------------------------------------------------------------------------------------- */

struct transfer {
    uint32_t version;
    void *release, *can_copy, *copy;
};

static void release_transfer(struct transfer *self) { free(self); }

static bool can_copy(const struct transfer *self, const void *source, const void *destination) {
    (void)self;
    int64_t from = device_of(source), to = device_of(destination);
    return from != ELSEWHERE && to != ELSEWHERE && (from || to);
}

static Status copy_tensors(struct transfer *self, const void **sources, void **destinations, void **streams, size_t count) {
    (void)self, (void)streams;
    int64_t own[ROOM], *numbers = own;
    size_t used = 0, room = ROOM;
    Status status = NULL;
    for (size_t k = 0; !status && k < count; k++) {
        status = describe_place(sources[k], &numbers, &used, &room, own);
        if (!status) status = describe_place(destinations[k], &numbers, &used, &room, own);
    }
    if (!status) {
        if (enter()) {
            status = hooks.copy(numbers, used);
            leave();
        } else {
            status = closed();
        }
    }
    if (numbers != own) free(numbers);
    return status;
}

/* ---- Providers: OrtEp ----------------------------------------------------------------------------------------------------- */

struct provider {
    uint32_t version;
    void *get_name, *get_capability, *compile, *release_partitions, *layout, *convert_layout, *set_options, *run_start, *run_end,
        *create_allocator, *create_stream, *compatibility, *kernels, *concurrent, *sync, *create_profiler, *captures, *captured,
        *replay, *capture_policy, *resource, *created, *default_device, *release_captured;
    int64_t id;
    char *name, *compiler;
};

static const char *provider_name(const struct provider *self) { return self->name; }

static Status get_capability(struct provider *self, const void *graph, void *support) {
    PASS(hooks.capability(self->id, graph, support));
}

static Status compile_graphs(struct provider *self, const void **graphs, const void **fused, size_t count, void **partitions,
                             void **contexts) {
    for (size_t k = 0; k < count; k++) partitions[k] = NULL;
    PASS(hooks.compile(self->id, graphs, fused, count, partitions, contexts));
}

static Status set_options(struct provider *self, const char *const *keys, const char *const *values, size_t count) {
    PASS(hooks.set_options(self->id, keys, values, count));
}

static const char *compatibility(const struct provider *self, const void *graph) {
    (void)graph;
    return self->compiler ? self->compiler : "";
}

static Status created(struct provider *self) { PASS(hooks.end_creation(self->id)); }
static Status sync_device(struct provider *self) { PASS(hooks.sync(self->id)); }

static Status run_start(struct provider *self, const void *options) { PASS(hooks.run_start(self->id, options)); }

static Status run_end(struct provider *self, const void *options, bool wait) { PASS(hooks.run_end(self->id, options, wait)); }

static char *copy_text(const char *text) {
    char *made = malloc(strlen(text) + 1);
    return made ? strcpy(made, text) : NULL;
}

struct profiler {
    uint32_t version;
    void *release, *start, *start_event, *stop_event, *end;
    int64_t id;
};

static void release_profiler(struct profiler *self) { free(self); }
static Status start_profiling(struct profiler *self, int64_t offset) { PASS(hooks.start_profiling(self->id, self, offset)); }
static Status end_profiling(struct profiler *self, void *events) { PASS(hooks.end_profiling(self->id, self, events)); }

static Status create_profiler(struct provider *self, void **profiler) {
    struct profiler *made = calloc(1, sizeof *made);
    if (!made) return fail("ort-lite: out of memory");
    made->version = PROVIDER_VERSION, made->id = self->id;
    made->release = (void *)release_profiler, made->start = (void *)start_profiling, made->end = (void *)end_profiling;
    *profiler = made;
    return NULL;
}

enum { HEARS_RUNS = 1, HEARS_CREATED = 2, HEARS_SYNC = 4 };  /* what a provider wants to be told; each call costs one of Python */

EXPORT void *ort_lite_ep_new_provider(int64_t id, const char *name, int hears) {
    struct provider *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->version = PROVIDER_VERSION, made->id = id, made->name = copy_text(name);
    made->get_name = (void *)provider_name, made->get_capability = (void *)get_capability;
    made->compile = (void *)compile_graphs, made->release_partitions = (void *)release_partitions;
    made->set_options = (void *)set_options, made->compatibility = (void *)compatibility;
    made->create_profiler = (void *)create_profiler;
    if (hears & HEARS_RUNS) made->run_start = (void *)run_start, made->run_end = (void *)run_end;
    if (hears & HEARS_CREATED) made->created = (void *)created;
    if (hears & HEARS_SYNC) made->sync = (void *)sync_device;
    return made;
}

/* Say what the compiled models of a provider depend on, which onnxruntime writes into those that it saves. */
EXPORT void ort_lite_ep_set_compiler(struct provider *provider, const char *compiler) {
    free(provider->compiler);
    provider->compiler = copy_text(compiler);
}

/* ---- Factories: OrtEpFactory ---------------------------------------------------------------------------------------------- */

struct factory {
    uint32_t version;
    void *get_name, *get_vendor, *supported_devices, *create_provider, *release_provider, *vendor_id, *get_version, *validate,
        *create_allocator, *release_allocator, *create_transfer, *is_stream_aware, *create_stream, *incompatibility, *importer,
        *count_domains, *domains, *init_interop, *end_interop, *select_best;
    int64_t id;
    char *name, *vendor, *release_version;
    atomic_long users; /* its registration, and its providers: a session may live longer than the registration */
    bool away;  /* a device of the provider has memory of its own */
};

static void drop_factory(struct factory *factory) {
    if (atomic_fetch_sub(&factory->users, 1) > 1) return;
    free(factory->name), free(factory->vendor), free(factory->release_version);
    free(factory);
}

static const char *factory_name(const struct factory *self) { return self->name; }
static const char *factory_vendor(const struct factory *self) { return self->vendor; }
static const char *factory_version(const struct factory *self) { return self->release_version; }
static uint32_t factory_vendor_id(const struct factory *self) { (void)self; return 0; }
static bool is_stream_aware(const struct factory *self) { (void)self; return false; }

static Status supported_devices(struct factory *self, const void *const *devices, size_t count, void **found, size_t room,
                                size_t *n) {
    *n = 0;
    PASS(hooks.supported_devices(self->id, devices, count, found, room, n));
}

static Status create_provider(struct factory *self, const void *const *devices, const void *const *metadata, size_t count,
                              const void *options, const void *logger, void **provider) {
    (void)devices, (void)logger;
    *provider = NULL;
    if (!enter()) return closed();
    Status status = hooks.create_provider(self->id, metadata, count, options, provider);
    leave();
    if (*provider) atomic_fetch_add(&self->users, 1);
    return status;
}

static void release_provider(struct factory *self, struct provider *provider) {
    if (!provider) return;
    release(PROVIDER, provider->id);
    free(provider->name), free(provider->compiler);
    free(provider);
    drop_factory(self);
}

static Status create_allocator(struct factory *self, const void *memory, const void *options, void **created) {
    (void)self, (void)options;
    *created = NULL;
    for (uint64_t k = 0; memory && k < MOST_DEVICES; k++) {
        if (memories[k] != memory) continue;
        struct allocator *made = calloc(1, sizeof *made);
        if (!made) return fail("ort-lite: out of memory");
        made->version = API_VERSION, made->device = k;
        made->allocate = (void *)allocate, made->free = (void *)free_block, made->info = (void *)allocator_info;
        *created = made;
    }
    return NULL;
}

static void release_allocator(struct factory *self, struct allocator *allocator) {
    (void)self;
    free(allocator);
}

static Status create_transfer(struct factory *self, void **transfer) {
    *transfer = NULL;
    if (!self->away) return NULL;
    struct transfer *made = calloc(1, sizeof *made);
    if (!made) return fail("ort-lite: out of memory");
    made->version = API_VERSION;
    made->release = (void *)release_transfer, made->can_copy = (void *)can_copy, made->copy = (void *)copy_tensors;
    *transfer = made;
    return NULL;
}

static Status validate(struct factory *self, const void *const *devices, size_t count, const char *saved, int *found) {
    (void)devices, (void)count;
    PASS(hooks.check_compatibility(self->id, saved, found));
}

static Status create_stream(struct factory *self, const void *device, const void *options, void **stream) {
    (void)self, (void)device, (void)options;
    *stream = NULL;
    return NULL;
}

EXPORT void *ort_lite_ep_new_factory(int64_t id, const char *name, const char *vendor, const char *version, bool away) {
    struct factory *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->version = API_VERSION, made->id = id, made->users = 1;
    made->name = copy_text(name), made->vendor = copy_text(vendor), made->release_version = copy_text(version);
    made->get_name = (void *)factory_name, made->get_vendor = (void *)factory_vendor, made->get_version = (void *)factory_version;
    made->vendor_id = (void *)factory_vendor_id, made->supported_devices = (void *)supported_devices;
    made->create_provider = (void *)create_provider, made->release_provider = (void *)release_provider;
    made->create_allocator = (void *)create_allocator, made->release_allocator = (void *)release_allocator;
    made->create_transfer = (void *)create_transfer, made->is_stream_aware = (void *)is_stream_aware;
    made->create_stream = (void *)create_stream, made->validate = (void *)validate, made->away = away;
    return made;
}

/* ---- What onnxruntime calls first ----------------------------------------------------------------------------------------- */

EXPORT Status CreateEpFactories(const char *name, const void *base, const void *logger, void **factories, size_t room,
                                size_t *count) {
    (void)logger;
    typedef const void *(*get_api_t)(uint32_t);
    *count = 0;
    const void *found = (*(get_api_t const *)base)(API_VERSION);
    if (!found) return NULL; /* an onnxruntime before 1.24, which says itself that there is no factory */
    api = found;
    ep_api = CALL(GET_EP_API, get_table_t);
    if (!atomic_load(&open_)) {
        return fail("ort-lite: register the library that ort_lite_ep.get_library_path() returns, in the process that calls it: the "
                    "execution provider runs in its Python interpreter");
    }
    PASS(hooks.create_factories(name, base, factories, room, count));
}

EXPORT Status ReleaseEpFactory(struct factory *factory) {
    if (!factory) return NULL;
    release(FACTORY, factory->id);
    drop_factory(factory);
    return NULL;
}
