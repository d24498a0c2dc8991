// SPDX-License-Identifier: Apache-2.0
// exit_codes.hpp: what the exit code of `carat` means; `carat list` prints this table.
#pragma once

#include <array>

#include "carat/carat.h"

namespace carat::cli {

enum ExitCode : int {
    kOk = 0,
    kTaskFailed = 1,
    kUsage = 2,
    kNoDevice = 3,
    kCheckFailed = 4,
    kCompileFailed = 5,
    kInputOutput = 6,
    kTimeOut = 7,
    kInterrupted = 130,
};

struct ExitCodeRow {
    ExitCode code;
    const char* name;
    const char* meaning;
};

inline constexpr std::array kExitCodes = {
    ExitCodeRow{kOk, "ok", "Everything asked for was done."},
    ExitCodeRow{kTaskFailed, "failed", "The task failed, or a result is slower than --fail-above allows."},
    ExitCodeRow{kUsage, "usage", "A flag, a value or a problem is wrong; the sentence names it."},
    ExitCodeRow{kNoDevice, "no_device", "No device or kernel here can do it."},
    ExitCodeRow{kCheckFailed, "check_failed", "A result is outside its numerical bound."},
    ExitCodeRow{kCompileFailed, "compile_failed",
                "A kernel could not be compiled, or may not be under CARAT_JIT=never."},
    ExitCodeRow{kInputOutput, "io", "A file, a directory or the kernel cache could not be used."},
    ExitCodeRow{kTimeOut, "time_out", "--timeout has passed; what was done by then is written."},
    ExitCodeRow{kInterrupted, "interrupted", "Stopped by SIGINT; what was done by then is written."},
};

constexpr ExitCode exit_code_of(carat_status status) {
    switch (status) {
        case CARAT_SUCCESS:
            return kOk;
        case CARAT_INVALID_VALUE:
            return kUsage;
        case CARAT_NOT_SUPPORTED:
        case CARAT_NOT_INITIALIZED:
            return kNoDevice;
        case CARAT_COMPILE_FAILED:
        case CARAT_NOT_PREPARED:
            return kCompileFailed;
        case CARAT_IO_ERROR:
            return kInputOutput;
        case CARAT_ALLOC_FAILED:
        case CARAT_EXECUTION_FAILED:
        case CARAT_INTERNAL_ERROR:
            return kTaskFailed;
    }
    return kTaskFailed;
}

}  // namespace carat::cli
