// SPDX-License-Identifier: Apache-2.0
// log.hpp: the library's only voice: the user's callback, or the file of CARAT_LOG_FILE. Silent otherwise.
#pragma once

#include <string>

#include "carat/carat.h"
#include "core/format.hpp"

namespace carat::log {

bool enabled(carat_log_level level);
void write(carat_log_level level, const std::string& message);
void set_callback(carat_log_callback callback, void* user, carat_log_level level);

template <class... Args>
void emit(carat_log_level level, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(level)) write(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> f, Args&&... a) {
    emit(CARAT_LOG_WARN, f, std::forward<Args>(a)...);
}
template <class... Args>
void info(fmt::format_string<Args...> f, Args&&... a) {
    emit(CARAT_LOG_INFO, f, std::forward<Args>(a)...);
}
template <class... Args>
void debug(fmt::format_string<Args...> f, Args&&... a) {
    emit(CARAT_LOG_DEBUG, f, std::forward<Args>(a)...);
}
// At most once in the life of the process for each key.
void warn_once(const std::string& key, const std::string& message);

}  // namespace carat::log
