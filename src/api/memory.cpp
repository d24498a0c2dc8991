// SPDX-License-Identifier: Apache-2.0
// memory.cpp: memory, streams and graphs for programs that do not link CUDA.
#include <cstdlib>
#include <cstring>

#include "api/error.hpp"
#include "api/handles.hpp"

using namespace carat;
using namespace carat::api;

namespace {

constexpr size_t kHostAlignment = 64;  // a cache line, and the widest vector

Status require_runnable(carat_context_t context) {
    CARAT_TRY(require_pointer(context, "context"));
    if (context->runtime.can_execute()) return {};
    return fail(CARAT_NOT_INITIALIZED, "the context plans for {} with no such GPU here: make one without a target",
                context->runtime.target.full_name);
}

Status require_cuda(carat_context_t context, const char* what) {
    CARAT_TRY(require_runnable(context));
    if (context->runtime.device) return {};
    return fail(CARAT_NOT_SUPPORTED, "{} needs a CUDA context, and this one runs on the CPU", what);
}

Status host_alloc(size_t bytes, void** memory) {
    const size_t rounded = (bytes / kHostAlignment + 1) * kHostAlignment;
    *memory = rounded < bytes ? nullptr : std::aligned_alloc(kHostAlignment, rounded);
    if (*memory) return {};
    return fail(CARAT_ALLOC_FAILED, "{} bytes of host memory could not be had: free some, or make the problem smaller",
                bytes);
}

}  // namespace

carat_status carat_memory_alloc(carat_context_t context, size_t bytes, void** memory) {
    return guard([&]() -> Status {
        CARAT_TRY(require_runnable(context));
        CARAT_TRY(require_pointer(memory, "memory"));
        if (!context->runtime.device) return host_alloc(bytes, memory);
        CARAT_ASSIGN(*memory, context->runtime.device->alloc(bytes));
        return {};
    });
}

void carat_memory_free(carat_context_t context, void* memory) {
    if (!context || !memory) return;
    if (context->runtime.device)
        context->runtime.device->free(memory);
    else
        std::free(memory);
}

carat_status carat_memory_copy(carat_context_t context, void* destination, const void* source, size_t bytes) {
    return guard([&]() -> Status {
        CARAT_TRY(require_runnable(context));
        if (bytes == 0) return {};
        CARAT_TRY(require_pointer(destination, "destination"));
        CARAT_TRY(require_pointer(source, "source"));
        if (context->runtime.device) return context->runtime.device->copy(destination, source, bytes);
        std::memmove(destination, source, bytes);
        return {};
    });
}

carat_status carat_memory_fill(carat_context_t context, void* memory, int byte, size_t bytes) {
    return guard([&]() -> Status {
        CARAT_TRY(require_runnable(context));
        if (bytes == 0) return {};
        CARAT_TRY(require_pointer(memory, "memory"));
        if (context->runtime.device) return context->runtime.device->fill(memory, byte, bytes);
        std::memset(memory, byte, bytes);
        return {};
    });
}

carat_status carat_stream_create(carat_context_t context, void** stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_runnable(context));
        CARAT_TRY(require_pointer(stream, "stream"));
        *stream = nullptr;
        if (!context->runtime.device) return {};
        CARAT_ASSIGN(*stream, context->runtime.device->stream_create());
        return {};
    });
}

void carat_stream_destroy(carat_context_t context, void* stream) {
    if (context && stream && context->runtime.device) context->runtime.device->stream_destroy(stream);
}

carat_status carat_stream_synchronize(carat_context_t context, void* stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_runnable(context));
        return context->runtime.device ? context->runtime.device->stream_synchronize(stream) : Status();
    });
}

carat_status carat_graph_begin(carat_context_t context, void* stream) {
    return guard([&]() -> Status {
        CARAT_TRY(require_cuda(context, "a graph"));
        return context->runtime.device->graph_begin(stream);
    });
}

carat_status carat_graph_end(carat_context_t context, void* stream, carat_graph_t* graph) {
    return guard([&]() -> Status {
        CARAT_TRY(require_cuda(context, "a graph"));
        CARAT_TRY(require_pointer(graph, "graph"));
        *graph = nullptr;
        CARAT_ASSIGN(auto made, context->runtime.device->graph_end(stream));
        *graph = new carat_graph_s{std::move(made)};
        return {};
    });
}

carat_status carat_graph_launch(carat_graph_t graph, void* stream, double* elapsed_us) {
    return guard([&]() -> Status {
        CARAT_TRY(require_pointer(graph, "graph"));
        CARAT_TRY(require_pointer(elapsed_us, "elapsed_us"));
        CARAT_ASSIGN(*elapsed_us, graph->graph->launch(stream));
        return {};
    });
}

void carat_graph_destroy(carat_graph_t graph) {
    delete graph;
}
