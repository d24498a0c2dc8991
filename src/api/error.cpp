// SPDX-License-Identifier: Apache-2.0
// error.cpp: the status table and the thread's last sentence.
#include "api/error.hpp"

#include <array>
#include <string>

namespace carat::api {
namespace {

struct StatusRow {
    const char* name;
    const char* sentence;
};

constexpr std::array<StatusRow, 10> kStatuses = {{
    {"CARAT_SUCCESS", "The call did all of its work."},
    {"CARAT_INVALID_VALUE", "An argument is wrong; the last error names it, what it was and what it must be."},
    {"CARAT_NOT_SUPPORTED",
     "The problem is valid, but no kernel of this backend takes it; the last error says why each refused."},
    {"CARAT_NOT_INITIALIZED", "There is no usable device, driver or backend; `carat doctor` says what is missing."},
    {"CARAT_ALLOC_FAILED", "Host or device memory ran out."},
    {"CARAT_COMPILE_FAILED", "NVRTC is missing or refused a kernel; the last error carries its words."},
    {"CARAT_NOT_PREPARED",
     "A kernel would have to be compiled where compiling is not allowed; `carat prepare` does it beforehand."},
    {"CARAT_EXECUTION_FAILED", "The driver or the device reported an error."},
    {"CARAT_IO_ERROR", "A file or directory could not be used."},
    {"CARAT_INTERNAL_ERROR", "A defect of the library; please report it with the last error."},
}};

std::string& last_error() {
    thread_local std::string sentence;
    return sentence;
}

const StatusRow& row(carat_status status) {
    static constexpr StatusRow kUnknown = {"CARAT_UNKNOWN_STATUS", "This is no status of this version of Carat."};
    return size_t(status) < kStatuses.size() ? kStatuses[size_t(status)] : kUnknown;
}

}  // namespace

carat_status report(const Status& status) {
    if (!status.ok()) last_error() = status.sentence();
    return status.code();
}

}  // namespace carat::api

const char* carat_status_name(carat_status status) {
    return carat::api::row(status).name;
}
const char* carat_status_sentence(carat_status status) {
    return carat::api::row(status).sentence;
}
const char* carat_last_error(void) {
    return carat::api::last_error().c_str();
}

#define CARAT_TEXT_(x) #x
#define CARAT_TEXT(x) CARAT_TEXT_(x)
const char* carat_version(void) {
    return CARAT_TEXT(CARAT_VERSION_MAJOR) "." CARAT_TEXT(CARAT_VERSION_MINOR) "." CARAT_TEXT(CARAT_VERSION_PATCH);
}
