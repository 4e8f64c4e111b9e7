// The engines of the store, for tests that hold on each of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "rendezvous/store/job_store.h"
#include "rendezvous/store/record_limits.h"

namespace holdfast::rendezvous {

enum class Engine { kSqlite, kPostgresql };
inline std::string engine_name(const testing::TestParamInfo<Engine>& info) {
  return info.param == Engine::kSqlite ? "SQLite" : "PostgreSQL";
}

// A database that is empty at first, and is gone with this object.
class EngineDatabase {
 public:
  explicit EngineDatabase(Engine engine);
  ~EngineDatabase();
  EngineDatabase(const EngineDatabase&) = delete;
  EngineDatabase& operator=(const EngineDatabase&) = delete;

  // On PostgreSQL it begins a term: stores that were opened before can commit nothing from then on.
  std::unique_ptr<JobStore> open(const Retention& retention = {});
  const std::string& address() const { return address_; }  // a path, or as PostgresqlConnect has it

 private:
  Engine engine_;
  std::string address_;
};

class EngineTest : public testing::TestWithParam<Engine> {
 protected:
  EngineTest() : database_(std::make_unique<EngineDatabase>(GetParam())) {}
  std::unique_ptr<JobStore> open(const Retention& retention = {}) { return database_->open(retention); }
  void begin_anew() { database_ = std::make_unique<EngineDatabase>(GetParam()); }

  std::unique_ptr<EngineDatabase> database_;
};

}  // namespace holdfast::rendezvous

#define HOLDFAST_ON_EACH_ENGINE(suite) \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::Values(Engine::kSqlite, Engine::kPostgresql), engine_name)
