# SPDX-License-Identifier: Apache-2.0
# Run as a test where no clang++ was found: fails with the command that installs it.
message(FATAL_ERROR "The fuzzers need clang++ and its libFuzzer runtime, and they were not found when the build was "
                    "configured: apt-get install clang libclang-rt-14-dev, then configure again (cmake --fresh).")
