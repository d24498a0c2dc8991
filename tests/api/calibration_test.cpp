// SPDX-License-Identifier: Apache-2.0
// Device files through the C ABI: found, laid over what is shipped, and never a reason to fail.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "carat/carat.hpp"

namespace {

using Json = nlohmann::ordered_json;

class Calibration : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "carat-calibration-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
        setenv("XDG_DATA_HOME", name.c_str(), 1);
        unsetenv("CARAT_DEVICE_FILE");
    }
    void TearDown() override {
        carat_set_log_callback(nullptr, nullptr, CARAT_LOG_OFF);
        unsetenv("CARAT_DEVICE_FILE");
        unsetenv("XDG_DATA_HOME");
        std::filesystem::remove_all(folder_);
    }
    static carat::Context planner(const char* target = "h200") {
        carat_context_options options = carat::Context::default_options();
        options.target = target;
        options.tuning = "off";
        return carat::Context(options);
    }
    std::string write(const std::string& name, const std::string& text) const {
        const auto path = folder_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
        return path.string();
    }
    // A device file that makes every step of K of sm90_ws dear.
    static std::string dear_steps() {
        Json file = Json::parse(planner().calibration());
        file["schema"] = "carat.calibration/1";
        file["parameters"] = Json::array({{{"name", "sm90_ws.step_clk"}, {"value", 480}}});
        return file.dump();
    }
    static double predicted_us(const carat::Context& context) {
        const Json explained = Json::parse(context.explain(carat::linear(1024, 4096, 4096, CARAT_BF16)));
        return explained["chosen"]["predicted_us"];
    }
    static Json info(const carat::Context& context) { return Json::parse(context.calibration()); }

    std::filesystem::path folder_;
};

TEST_F(Calibration, WithoutAFileTheShippedParametersHold) {
    const Json json = info(planner());
    EXPECT_EQ(json["schema"], "carat.calibration_info/1");
    EXPECT_EQ(json["user_file"], (folder_ / "carat" / "device-h200.json").string());
    EXPECT_EQ(json["used"], 0);
    EXPECT_TRUE(json["skipped"].empty());
    EXPECT_GE(json["parameters"].size(), 14u);
    for (const Json& parameter : json["parameters"]) EXPECT_EQ(parameter["value"], parameter["shipped"]);
}

TEST_F(Calibration, TheUsersFileChangesPredictions) {
    const double shipped = predicted_us(planner());
    const std::string text = dear_steps(), path = write("carat/device-h200.json", text);
    EXPECT_GT(predicted_us(planner()), 1.1 * shipped);
    EXPECT_EQ(info(planner())["used"], 1);
    EXPECT_EQ(info(planner("h100"))["used"], 0) << "another GPU has its own place";
    setenv("CARAT_DEVICE_FILE", "off", 1);
    EXPECT_EQ(predicted_us(planner()), shipped);
    EXPECT_TRUE(info(planner())["user_file"].is_null());
    std::filesystem::rename(path, folder_ / "elsewhere.json");
    setenv("CARAT_DEVICE_FILE", (folder_ / "elsewhere.json").c_str(), 1);
    EXPECT_GT(predicted_us(planner()), 1.1 * shipped);
    const Json skipped = info(planner("h100"))["skipped"];
    ASSERT_EQ(skipped.size(), 1u);
    EXPECT_NE(skipped[0].get<std::string>().find("it is of a device whose target is \"h200\""), std::string::npos);
}

TEST_F(Calibration, AFileThatIsMissingOrBrokenFailsNothingAndIsWarnedOfOnce) {
    const double shipped = predicted_us(planner());
    std::vector<std::string> warnings;
    const auto keep = [](carat_log_level, const char* message, void* user) {
        static_cast<std::vector<std::string>*>(user)->push_back(message);
    };
    carat_set_log_callback(keep, &warnings, CARAT_LOG_WARN);
    const std::string text = dear_steps();
    const std::string cases[] = {write("cut.json", text.substr(0, text.size() / 2)), write("empty.json", ""),
                                 (folder_ / "absent.json").string(), folder_.string()};
    size_t expected = 0;
    for (const std::string& path : cases) {
        setenv("CARAT_DEVICE_FILE", path.c_str(), 1);
        for (int i = 0; i < 2; ++i) {
            const carat::Context context = planner();
            EXPECT_EQ(predicted_us(context), shipped) << path;
            EXPECT_EQ(info(context)["skipped"].size(), 1u) << path;
        }
        ASSERT_EQ(warnings.size(), ++expected) << path;
        EXPECT_NE(warnings.back().find(path), std::string::npos) << warnings.back();
        EXPECT_NE(warnings.back().find("CARAT_DEVICE_FILE=off ignores it"), std::string::npos) << warnings.back();
    }
}

TEST_F(Calibration, ManyContextsMayReadAFileAtOnce) {
    write("carat/device-h200.json", dear_steps());
    const double dear = predicted_us(planner());
    std::vector<double> seen(8);
    std::vector<std::thread> threads;
    for (double& us : seen) threads.emplace_back([&us] { us = predicted_us(planner()); });
    for (std::thread& thread : threads) thread.join();
    for (const double us : seen) EXPECT_EQ(us, dear);
}

Json samples_of(const carat::Context& context, double factor) {
    Json samples = Json::array();
    for (const int64_t m : {16, 512, 2048}) {
        const carat_problem problem = carat::linear(m, 4096, 4096, CARAT_BF16);
        const Json report = Json::parse(context.tuning_candidates(problem));
        for (const Json& one : report["candidates"])
            samples.push_back({{"problem", Json::parse(carat::problem_json(problem))},
                               {"kernel", one["kernel"]},
                               {"us", factor * one["predicted_us"].get<double>()}});
    }
    return {{"schema", "carat.calibration_samples/1"},
            {"device", Json::parse(context.calibration())["device"]},
            {"samples", samples}};
}

TEST_F(Calibration, ErrorsAndFits) {
    const carat::Context context = planner();
    const Json exact = Json::parse(context.prediction_error(samples_of(context, 1).dump()));
    EXPECT_EQ(exact["schema"], "carat.prediction_error/1");
    EXPECT_EQ(exact["problems"], 3);
    EXPECT_EQ(exact["within_5_percent"], 1.0);
    EXPECT_NEAR(exact["median"].get<double>(), 0, 1e-9);
    const std::string slower = samples_of(context, 1.2).dump();
    EXPECT_NEAR(Json::parse(context.prediction_error(slower))["median"].get<double>(), 0.2, 1e-9);
    const std::string fitted = context.calibrate(slower);
    EXPECT_EQ(context.calibrate(slower), fitted);
    const Json error = Json::parse(fitted)["error"];
    EXPECT_NEAR(error["shipped"]["median"].get<double>(), 0.2, 1e-9);
    EXPECT_LT(error["fitted"]["median"].get<double>(), 0.1);
    // What it gives is a device file, and what it says of that file's predictions is so.
    const std::string path = write("fitted.json", fitted);
    setenv("CARAT_DEVICE_FILE", path.c_str(), 1);
    const carat::Context calibrated = planner();
    EXPECT_TRUE(info(calibrated)["skipped"].empty());
    EXPECT_EQ(Json::parse(calibrated.prediction_error(slower))["median"], error["fitted"]["median"]);
    // A fit starts from what is shipped, whatever the context uses.
    EXPECT_EQ(calibrated.calibrate(slower), fitted);
}

TEST_F(Calibration, RefusalsNameWhatIsWrong) {
    const carat::Context context = planner();
    carat_text_t text = nullptr;
    EXPECT_EQ(carat_calibrate(context.get(), "[]", &text), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_calibrate(context.get(), nullptr, &text), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_calibrate(nullptr, "[]", &text), CARAT_INVALID_VALUE);
    EXPECT_EQ(carat_prediction_error(planner("h100").get(), samples_of(context, 1).dump().c_str(), &text),
              CARAT_INVALID_VALUE);
    EXPECT_NE(std::string(carat_last_error()).find("but the context is for"), std::string::npos) << carat_last_error();
    carat_context_options options = carat::Context::default_options();
    options.backend = CARAT_BACKEND_CPU;
    const carat::Context cpu(options);
    EXPECT_EQ(carat_calibration(cpu.get(), &text), CARAT_NOT_SUPPORTED);
    EXPECT_NE(std::string(carat_last_error()).find("name a target"), std::string::npos) << carat_last_error();
    EXPECT_EQ(text, nullptr);
}

}  // namespace
