// SPDX-License-Identifier: Apache-2.0
#include "fake_gpu/counters.hpp"

#include <pthread.h>

#include <cstdlib>
#include <new>

namespace carat::test {
namespace {

thread_local Counts t_counts;

}  // namespace

Counts counts() {
    return t_counts;
}

}  // namespace carat::test

using carat::test::t_counts;

// ld --wrap=SYMBOL: references to SYMBOL go to __wrap_SYMBOL, and __real_SYMBOL is the real one.
extern "C" {

void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* memory, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
char* __real_getenv(const char* name);
char* __real_secure_getenv(const char* name);
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t* mutex);
int __real_pthread_rwlock_rdlock(pthread_rwlock_t* lock);
int __real_pthread_rwlock_wrlock(pthread_rwlock_t* lock);

void* __wrap_malloc(size_t bytes) {
    ++t_counts.allocations;
    return __real_malloc(bytes);
}
void* __wrap_calloc(size_t count, size_t bytes) {
    ++t_counts.allocations;
    return __real_calloc(count, bytes);
}
void* __wrap_realloc(void* memory, size_t bytes) {
    ++t_counts.allocations;
    return __real_realloc(memory, bytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
    ++t_counts.allocations;
    return __real_aligned_alloc(alignment, bytes);
}
char* __wrap_getenv(const char* name) {
    ++t_counts.environment;
    return __real_getenv(name);
}
char* __wrap_secure_getenv(const char* name) {
    ++t_counts.environment;
    return __real_secure_getenv(name);
}
int __wrap_pthread_mutex_lock(pthread_mutex_t* mutex) {
    ++t_counts.locks;
    return __real_pthread_mutex_lock(mutex);
}
int __wrap_pthread_mutex_trylock(pthread_mutex_t* mutex) {
    ++t_counts.locks;
    return __real_pthread_mutex_trylock(mutex);
}
int __wrap_pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
    ++t_counts.locks;
    return __real_pthread_rwlock_rdlock(lock);
}
int __wrap_pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
    ++t_counts.locks;
    return __real_pthread_rwlock_wrlock(lock);
}

}  // extern "C"

// The other forms of new and delete end in these.
void* operator new(size_t bytes) {
    ++t_counts.allocations;
    if (void* memory = __real_malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t alignment) {
    ++t_counts.allocations;
    const size_t step = size_t(alignment);
    if (void* memory = __real_aligned_alloc(step, (bytes + step - 1) / step * step)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
    std::free(memory);
}
