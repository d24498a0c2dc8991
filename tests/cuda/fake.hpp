// SPDX-License-Identifier: Apache-2.0
// fake.hpp: opens the fake driver that lies beside the test binary.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cuda/driver.hpp"
#include "cuda/fake_driver.hpp"

namespace carat::test {

inline std::string fake_path(const char* name = "libfake_cuda.so") {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

inline testing::AssertionResult contains(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "'" << text << "' does not contain '" << part << "'";
}

// An environment variable for the scope.
class ScopedEnv {
  public:
    ScopedEnv(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~ScopedEnv() { unsetenv(name_); }

  private:
    const char* name_;
};

inline std::unique_ptr<cuda::Driver> open_fake() {
    auto driver = cuda::Driver::open({fake_path()});
    EXPECT_TRUE(driver.ok()) << driver.status().sentence();
    return driver.ok() ? std::move(*driver) : nullptr;
}

inline FakeRecord& record(const cuda::Driver& driver) {
    using Get = FakeRecord*();
    return *reinterpret_cast<Get*>(driver.library.symbol("carat_fake_record"))();
}

inline cuda::CuContext foreign_context(const cuda::Driver& driver, int device) {
    using Get = void*(int);
    return static_cast<cuda::CuContext>(reinterpret_cast<Get*>(driver.library.symbol("carat_fake_context"))(device));
}

}  // namespace carat::test
