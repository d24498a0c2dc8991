// SPDX-License-Identifier: Apache-2.0
// worker_test.cpp: a helper program that answers, fails, dies, hangs or talks nonsense.
#include "peers/worker.hpp"

#include <gtest/gtest.h>

namespace carat::cli {
namespace {

std::string reason_of(const std::string& script, double seconds = 10) {
    try {
        Worker worker({"sh", "-c", script});
        worker.ask({{"do", "it"}}, seconds);
    } catch (const WorkerError& error) {
        return error.what();
    }
    return "";
}

TEST(Worker, Answers) {
    Worker worker({"sh", "-c", "while read line; do echo \"{\\\"got\\\": $line}\"; done"});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(worker.ask({{"i", i}}, 10), Json({{"got", {{"i", i}}}}));
    EXPECT_TRUE(worker.alive());
}

TEST(Worker, AnErrorIsAnAnswer) {
    Worker worker({"sh", "-c", "while read line; do echo '{\"error\": \"no such shape\"}'; done"});
    for (int i = 0; i < 2; ++i) EXPECT_THROW(worker.ask(Json::object(), 10), WorkerError);
    EXPECT_TRUE(worker.alive());
}

TEST(Worker, Reasons) {
    EXPECT_EQ(reason_of("read line; echo trace >&2; echo 'ImportError: no torch' >&2"),
              "its worker ended: ImportError: no torch");
    EXPECT_EQ(reason_of("read line; kill -9 $$"), "its worker ended");
    EXPECT_EQ(reason_of("read line; echo hello"), "its worker answered no JSON object: \"hello\"");
    EXPECT_EQ(reason_of("exec sleep 60", 0.1), "its worker did not answer in 0.1 s");
    EXPECT_EQ(reason_of("read line; echo '{\"error\": \"two\\nlines\"}'").find('\n'), std::string::npos);
}

TEST(Worker, AMissingProgram) {
    Worker worker({"/no/such/program"});
    EXPECT_THROW(worker.ask(Json::object(), 10), WorkerError);
    EXPECT_FALSE(worker.alive());
    EXPECT_THROW(worker.ask(Json::object(), 10), WorkerError);
}

}  // namespace
}  // namespace carat::cli
