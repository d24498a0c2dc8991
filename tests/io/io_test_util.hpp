// SPDX-License-Identifier: Apache-2.0
// io_test_util.hpp: bytes from text, scratch directories, files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "io/tensor_file.hpp"

namespace carat::cli {

inline std::vector<std::byte> to_bytes(std::string_view text) {
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    return {first, first + text.size()};
}

template <class T>
std::vector<std::byte> to_bytes(std::initializer_list<T> values) {
    std::vector<std::byte> out(values.size() * sizeof(T));
    std::memcpy(out.data(), std::data(values), out.size());
    return out;
}

template <class T>
std::vector<T> values(const Tensor& tensor) {
    std::vector<T> out(tensor.bytes.size() / sizeof(T));
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return out;
}

// A directory that goes away with the test.
class Scratch {
  public:
    Scratch() {
        static int counter = 0;
        path_ = std::filesystem::temp_directory_path() / fmt::format("carat_io_{}_{}", ::getpid(), counter++);
        std::filesystem::create_directories(path_);
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string file(const std::string& name) const { return (path_ / name).string(); }
    size_t files() const {
        return size_t(std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
    }

  private:
    std::filesystem::path path_;
};

inline void put_file(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary).write(content.data(), std::streamsize(content.size()));
}

inline std::string get_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Whether the sentence holds all of the parts; a sentence is one line.
inline void expect_sentence(const Status& status, std::initializer_list<const char*> parts) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.sentence().find('\n'), std::string::npos) << status.sentence();
    for (const char* part : parts) EXPECT_NE(status.sentence().find(part), std::string::npos) << status.sentence();
}

}  // namespace carat::cli
