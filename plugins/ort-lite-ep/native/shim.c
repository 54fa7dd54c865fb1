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
enum { FAIL = 1 };                                  /* OrtErrorCode */
enum { TYPE_TENSOR = 1, ELEMENTS_STRING = 8 };      /* ONNXType, ONNXTensorElementDataType */
enum { FACTORY = 0, PROVIDER = 1, PARTITION = 2 };  /* what `hooks.release` is told */

typedef void *Status;  /* OrtStatus *: NULL is success */

/* ---- onnxruntime's functions: positions in OrtApi ------------------------------------------------------------------------- */

static void *const *api;

#define CALL(slot, type, ...) (((type)api[slot])(__VA_ARGS__))
typedef Status (*create_status_t)(int, const char *);
typedef Status (*get_data_t)(const void *, void **);
typedef Status (*get_type_t)(const void *, int *);
typedef Status (*get_count_t)(const void *, size_t *);
typedef Status (*get_input_t)(const void *, size_t, const void **);
typedef Status (*get_output_t)(void *, size_t, const int64_t *, size_t, void **);
typedef Status (*get_shape_t)(const void *, int *, const int64_t **, size_t *);
enum {
    CREATE_STATUS = 0,
    GET_TENSOR_MUTABLE_DATA = 51,
    GET_VALUE_TYPE = 67,
    CONTEXT_GET_INPUT_COUNT = 88,
    CONTEXT_GET_INPUT = 90,
    CONTEXT_GET_OUTPUT = 91,
    GET_TYPE_AND_SHAPE = 414,
};

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

/* For a child process: the threads whose calls were under way do not exist there. */
EXPORT void ort_lite_ep_forget_calls(void) { atomic_store(&in_flight, 0); }

/* ---- Compiled partitions: OrtNodeComputeInfo ------------------------------------------------------------------------------ */

struct partition {
    uint32_t version;
    void *create_state, *compute, *release_state;
    int64_t id;
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

static Status compute(struct partition *self, void *state, void *context) {
    (void)state;
    int64_t own[ROOM], *numbers = own;
    size_t count = 0, used = 0, room = ROOM;
    Status status = CALL(CONTEXT_GET_INPUT_COUNT, get_count_t, context, &count);
    for (size_t k = 0; !status && k < count; k++) {
        const void *value = NULL;
        status = CALL(CONTEXT_GET_INPUT, get_input_t, context, k, &value);
        if (!status) status = describe(value, &numbers, &used, &room, own);
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

EXPORT void *ort_lite_ep_new_partition(int64_t id) {
    struct partition *made = calloc(1, sizeof *made);
    if (made) {
        made->version = API_VERSION, made->id = id;
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

/* ---- Providers: OrtEp ----------------------------------------------------------------------------------------------------- */

struct provider {
    uint32_t version;
    void *get_name, *get_capability, *compile, *release_partitions, *layout, *convert_layout, *set_options, *run_start, *run_end,
        *create_allocator, *create_stream, *compatibility, *kernels, *concurrent;
    int64_t id;
    char *name;
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

static Status run_start(struct provider *self, const void *options) { PASS(hooks.run_start(self->id, options)); }

static Status run_end(struct provider *self, const void *options, bool wait) { PASS(hooks.run_end(self->id, options, wait)); }

static char *copy_text(const char *text) {
    char *made = malloc(strlen(text) + 1);
    return made ? strcpy(made, text) : NULL;
}

/* `hears_runs`: call run_start and run_end, which costs each run two calls of Python. */
EXPORT void *ort_lite_ep_new_provider(int64_t id, const char *name, bool hears_runs) {
    struct provider *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->version = API_VERSION, made->id = id, made->name = copy_text(name);
    made->get_name = (void *)provider_name, made->get_capability = (void *)get_capability;
    made->compile = (void *)compile_graphs, made->release_partitions = (void *)release_partitions;
    made->set_options = (void *)set_options;
    if (hears_runs) made->run_start = (void *)run_start, made->run_end = (void *)run_end;
    return made;
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
    free(provider->name);
    free(provider);
    drop_factory(self);
}

static Status create_allocator(struct factory *self, const void *memory, const void *options, void **allocator) {
    (void)self, (void)memory, (void)options;
    *allocator = NULL;
    return NULL;
}

static void release_allocator(struct factory *self, void *allocator) { (void)self, (void)allocator; }

static Status create_transfer(struct factory *self, void **transfer) {
    (void)self;
    *transfer = NULL;
    return NULL;
}

static Status create_stream(struct factory *self, const void *device, const void *options, void **stream) {
    (void)self, (void)device, (void)options;
    *stream = NULL;
    return NULL;
}

EXPORT void *ort_lite_ep_new_factory(int64_t id, const char *name, const char *vendor, const char *version) {
    struct factory *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->version = API_VERSION, made->id = id, made->users = 1;
    made->name = copy_text(name), made->vendor = copy_text(vendor), made->release_version = copy_text(version);
    made->get_name = (void *)factory_name, made->get_vendor = (void *)factory_vendor, made->get_version = (void *)factory_version;
    made->vendor_id = (void *)factory_vendor_id, made->supported_devices = (void *)supported_devices;
    made->create_provider = (void *)create_provider, made->release_provider = (void *)release_provider;
    made->create_allocator = (void *)create_allocator, made->release_allocator = (void *)release_allocator;
    made->create_transfer = (void *)create_transfer, made->is_stream_aware = (void *)is_stream_aware;
    made->create_stream = (void *)create_stream;
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
