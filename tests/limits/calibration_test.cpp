// SPDX-License-Identifier: Apache-2.0
// Device files: the shipped ones hold every parameter, and what is wrong with another is left out with its reason.
#include "limits/calibration.hpp"

#include <gtest/gtest.h>

#include <set>

namespace carat {
namespace {

using Json = nlohmann::ordered_json;

Target h200() {
    return *find_gpu("h200");
}

Json file_with(const char* name, const Json& value) {
    Json file = calibration_json(h200(), h200().cost);
    file["parameters"] = Json::array({{{"name", name}, {"value", value}}});
    return file;
}

TEST(Calibration, ParametersAreSane) {
    std::set<std::string> names;
    for (const CostParameter& parameter : cost_parameters()) {
        EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
        EXPECT_GT(parameter.least, 0) << parameter.name << ": a fit steps by factors";
        EXPECT_LT(parameter.least, parameter.most) << parameter.name;
    }
    // Each member has its row, or its value would be 0 for ever.
    EXPECT_EQ(cost_parameters().size() * sizeof(double), sizeof(CostParameters));
}

TEST(Calibration, ShippedFilesAreWholeAndAsTheTableHasThem) {
    ASSERT_FALSE(shipped_device_files().empty());
    EXPECT_EQ(shipped_device_file("b200.json"), "");
    for (const DeviceFile& file : shipped_device_files()) {
        const std::string name = file.name;
        Target target = *find_gpu(name.substr(0, name.find('.')));
        target.cost = {};
        const Calibration read = read_calibration(file.text, target);
        EXPECT_TRUE(read.skipped.empty()) << name << ": " << read.skipped.front();
        EXPECT_EQ(read.used, cost_parameters().size()) << name;
        const Json json = Json::parse(file.text), wanted = calibration_json(target, read.cost);
        for (const char* key : {"schema", "device", "models", "parameters"}) EXPECT_EQ(json[key], wanted[key]) << name;
        EXPECT_TRUE(json.contains("provenance")) << name;
    }
}

TEST(Calibration, OtherGpusHaveTheParametersOfTheOneThatStandsIn) {
    EXPECT_EQ(h200().cost.ws_step_clk, 24);
    for (const Target& target : known_gpus()) EXPECT_EQ(target.cost, h200().cost) << target.name;
    EXPECT_EQ(match_gpu("NVIDIA B200", 10, 0, 148, 0, 0, 0).cost, h200().cost);
}

TEST(Calibration, AFileLiesOverTheTargetsParameters) {
    const Calibration read = read_calibration(file_with("sm90_ws.step_clk", 30.5).dump(), h200());
    EXPECT_EQ(read.used, 1u);
    EXPECT_TRUE(read.skipped.empty());
    CostParameters wanted = h200().cost;
    wanted.ws_step_clk = 30.5;
    EXPECT_EQ(read.cost, wanted);
}

TEST(Calibration, AWrongParameterIsLeftOutAndTheOthersHold) {
    Json file = calibration_json(h200(), h200().cost);
    file["parameters"] = {{{"name", "sm90_ws.boost"}, {"value", 20}},
                          {{"name", "sm90_ws.step_clk"}, {"value", 30}},
                          {{"name", "sm90_ws.colour"}, {"value", 1}},
                          {{"name", "sm90_ws.start_us"}, {"value", "fast"}},
                          {{"value", 1}},
                          7};
    const Calibration read = read_calibration(file.dump(), h200());
    EXPECT_EQ(read.used, 1u);
    EXPECT_EQ(read.cost.ws_step_clk, 30);
    EXPECT_EQ(read.cost.ws_boost, h200().cost.ws_boost);
    ASSERT_EQ(read.skipped.size(), 5u);
    EXPECT_EQ(read.skipped[0], "parameter 1: sm90_ws.boost is 20: it must be a number from 0.8 to 2");
    EXPECT_EQ(read.skipped[1], "parameter 3: there is no parameter \"sm90_ws.colour\"");
    EXPECT_EQ(read.skipped[2], "parameter 4: sm90_ws.start_us is \"fast\": it must be a number from 0.01 to 20");
    EXPECT_EQ(read.skipped[3], "parameter 5: there is no parameter null");
}

TEST(Calibration, RangesIncludeTheirEnds) {
    for (const CostParameter& parameter : cost_parameters()) {
        const auto used = [&](double value) {
            return read_calibration(file_with(parameter.name, value).dump(), h200()).used;
        };
        EXPECT_EQ(used(parameter.least), 1u) << parameter.name;
        EXPECT_EQ(used(parameter.most), 1u) << parameter.name;
        EXPECT_EQ(used(parameter.least * 0.999), 0u) << parameter.name;
        EXPECT_EQ(used(parameter.most * 1.001), 0u) << parameter.name;
        EXPECT_EQ(used(-parameter.least), 0u) << parameter.name;
    }
}

TEST(Calibration, AFileThatIsNotOfThisGpuOrTheseModelsSaysNothing) {
    const std::string whole = file_with("sm90_ws.step_clk", 30).dump();
    const auto with = [&](const char* key, const Json& value) {
        Json file = Json::parse(whole);
        file[Json::json_pointer(key)] = value;
        return file.dump();
    };
    const std::string versions = "it was fitted to cost models of version " + std::to_string(kCostModels + 1) +
                                 ", these are of " + std::to_string(kCostModels);
    const std::pair<std::string, std::string> cases[] = {
        {"", "it is not JSON, perhaps cut short"},
        {whole.substr(0, whole.size() / 2), "it is not JSON, perhaps cut short"},
        {"[]", "it is no \"carat.calibration/1\" with an array \"parameters\""},
        {with("/schema", "carat.tuning/1"), "it is no \"carat.calibration/1\""},
        {with("/parameters", 1), "with an array \"parameters\""},
        {with("/models", kCostModels + 1), versions},
        {with("/device/target", "h100"), "it is of a device whose target is \"h100\", here it is \"h200\""},
        {with("/device/units", 114), "whose units is 114, here it is 132"},
        {with("/device", nullptr), "whose target is null"},
    };
    for (const auto& [text, reason] : cases) {
        const Calibration read = read_calibration(text, h200());
        EXPECT_EQ(read.cost, h200().cost) << reason;
        EXPECT_EQ(read.used, 0u);
        ASSERT_EQ(read.skipped.size(), 1u) << reason;
        EXPECT_NE(read.skipped[0].find(reason), std::string::npos) << read.skipped[0];
    }
    // Drivers spell a name in their own way.
    EXPECT_EQ(read_calibration(with("/device/name", "H200 NVL"), h200()).used, 1u);
}

}  // namespace
}  // namespace carat
