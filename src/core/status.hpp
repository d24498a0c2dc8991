// SPDX-License-Identifier: Apache-2.0
// status.hpp: how a function inside the library fails: a Status, or a Result that holds a value or a Status. A failure
// carries one sentence: what was wrong, what was wanted, how to fix it. Nothing here throws.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "carat/carat.h"
#include "core/format.hpp"

namespace carat {

class [[nodiscard]] Status {
  public:
    Status() = default;
    Status(carat_status code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}

    bool ok() const { return code_ == CARAT_SUCCESS; }
    carat_status code() const { return code_; }
    const std::string& sentence() const { return sentence_; }

  private:
    carat_status code_ = CARAT_SUCCESS;
    std::string sentence_;
};

// fail(CARAT_INVALID_VALUE, "lda is {}, but ...", lda)
template <class... Args>
Status fail(carat_status code, fmt::format_string<Args...> format, Args&&... args) {
    return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : value_(std::move(value)) {}
    Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

    bool ok() const { return value_.has_value(); }
    const Status& status() const { return status_; }
    T& value() & { return *value_; }
    const T& value() const& { return *value_; }
    T&& value() && { return *std::move(value_); }
    T& operator*() & { return *value_; }
    const T& operator*() const& { return *value_; }
    T* operator->() { return &*value_; }
    const T* operator->() const { return &*value_; }

  private:
    std::optional<T> value_;
    Status status_;
};

}  // namespace carat

// Returns the failure of `expression` (a Status) to the caller.
#define CARAT_TRY(expression)                                                                        \
    do {                                                                                             \
        if (::carat::Status carat_status_ = (expression); !carat_status_.ok()) return carat_status_; \
    } while (false)

#define CARAT_CONCAT_(a, b) a##b
#define CARAT_CONCAT(a, b) CARAT_CONCAT_(a, b)
// CARAT_ASSIGN(auto module, load(...)): the value of a Result, or its failure returned to the caller.
#define CARAT_ASSIGN(declaration, expression) \
    CARAT_ASSIGN_(declaration, expression, CARAT_CONCAT(carat_result_, __LINE__))
#define CARAT_ASSIGN_(declaration, expression, result) \
    auto result = (expression);                        \
    if (!result.ok()) return result.status();          \
    declaration = std::move(result).value()
