// Reads single values from JSON, by type.
//
// Refuses a value of another type: throws std::invalid_argument that names the field, the expected type and the value found.
// Private to messages.cpp and profile.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace holdfast::rendezvous {

[[noreturn]] void refuse(const std::string& field, const char* expected, const nlohmann::json& found);

void read(const std::string& field, const nlohmann::json& json, std::string& out);
void read(const std::string& field, const nlohmann::json& json, bool& out);
void read(const std::string& field, const nlohmann::json& json, int64_t& out);
void read(const std::string& field, const nlohmann::json& json, int& out);
void read(const std::string& field, const nlohmann::json& json, double& out);  // also "nan", "inf", "-inf"
void read(const std::string& field, const nlohmann::json& json, std::map<std::string, std::string>& out);

}  // namespace holdfast::rendezvous
